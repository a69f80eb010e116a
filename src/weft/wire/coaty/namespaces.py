"""Namespaces: the rules for their names, and the mDNS service name made of one (COA-02, COA-04).

An agent with a bad namespace reports the problems and goes on, so they are values first and an exception second.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from weft.errors import UsageError
from weft.limits import DNS_LABEL_BYTES_MAX, DNS_NAME_BYTES_MAX
from weft.wire.coaty.identifiers import shown

COATY_NAMESPACE_CHARS_MAX: Final = 236  # what the mDNS service name leaves of the 255 characters of a DNS name
DEFAULT_NAMESPACE: Final = "-"  # the reference's, where none is configured
FORBIDDEN_CHARACTERS: Final = frozenset("\0#+/")  # in namespaces and in event filters alike

_SERVICE_PREFIX = "coaty-libp2p-"
_SERVICE_DOMAIN = ".local"


class NamespaceProblem(StrEnum):
    """What is wrong with a namespace. All but the last make its topics invalid."""

    EMPTY = "namespace is empty"
    FORBIDDEN_CHARACTER = "namespace contains NUL, #, + or /"
    NOT_UNICODE = "namespace contains half of a surrogate pair"
    CONSECUTIVE_DOTS = "namespace contains consecutive dots"
    TRAILING_DOT = "namespace ends with a dot"
    TOO_LONG = "namespace is longer than 236 characters"
    UNDISCOVERABLE = "namespace does not fit into an mDNS name: peers will not find each other by mDNS"


def check_namespace(namespace: str) -> list[NamespaceProblem]:
    """Everything that is wrong with a namespace; an empty list means that it works, by mDNS too."""
    problems = _topic_problems(namespace)
    if not problems and not fits_mdns(namespace):
        problems.append(NamespaceProblem.UNDISCOVERABLE)
    return problems


def require_namespace(namespace: str) -> None:
    """Refuse a namespace that topics cannot carry. One that only mDNS cannot carry passes: bootstrap peers serve."""
    problems = _topic_problems(namespace)
    if problems:
        raise UsageError("; ".join(problems), namespace=shown(namespace))


def mdns_service_name(namespace: str) -> str:
    """The name under which agents of a namespace look for each other (COA-02)."""
    return f"{_SERVICE_PREFIX}{namespace}{_SERVICE_DOMAIN}"


def fits_mdns(namespace: str) -> bool:
    """Whether DNS can carry the service name. A namespace without dots becomes a single label: 50 bytes at most."""
    labels = mdns_service_name(namespace).encode(errors="replace").split(b".")
    encoded_bytes = sum(1 + len(label) for label in labels) + 1  # a length byte each, and the empty root label
    return all(0 < len(label) <= DNS_LABEL_BYTES_MAX for label in labels) and encoded_bytes <= DNS_NAME_BYTES_MAX


def _topic_problems(namespace: str) -> list[NamespaceProblem]:
    findings = {
        NamespaceProblem.EMPTY: not namespace,
        NamespaceProblem.FORBIDDEN_CHARACTER: not FORBIDDEN_CHARACTERS.isdisjoint(namespace),
        NamespaceProblem.NOT_UNICODE: not is_unicode(namespace),
        NamespaceProblem.CONSECUTIVE_DOTS: ".." in namespace,
        NamespaceProblem.TRAILING_DOT: namespace.endswith("."),
        NamespaceProblem.TOO_LONG: len(namespace) > COATY_NAMESPACE_CHARS_MAX,
    }
    return [problem for problem, found in findings.items() if found]


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can carry it: Python strings may hold half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
