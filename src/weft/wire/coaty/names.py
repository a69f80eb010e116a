"""Names: UUIDs of objects, agents and requests (COA-06), ids of libp2p peers, and namespaces (COA-02, COA-04).

An agent with a bad namespace reports the problems and goes on, so these are values first and an exception second.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from weft.errors import UsageError
from weft.limits import DNS_LABEL_BYTES_MAX, DNS_NAME_BYTES_MAX

COATY_PEER_ID_CHARS_MAX: Final = 128  # base58; the longest in use has 53


# RFC 4122 version 4: the third group begins with the version, the fourth with the variant bits 10; lower case only.
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_BASE58 = re.compile(rf"[1-9A-HJ-NP-Za-km-z]{{1,{COATY_PEER_ID_CHARS_MAX}}}")
_SHOWN_CHARS = 48


def is_uuid(value: object) -> bool:
    """Whether this is a UUID of version 4 in lower case (COA-06)."""
    return isinstance(value, str) and _UUID4.fullmatch(value) is not None


def is_peer_id(value: object) -> bool:
    """Whether this can be the id of a libp2p peer; whether it is one, only the peer's key can tell."""
    return isinstance(value, str) and _BASE58.fullmatch(value) is not None


def require_uuid(value: object, what: str) -> None:
    if not is_uuid(value):
        raise UsageError(f"{what} is not a lower-case UUID of version 4", got=shown(value))


def require_peer_id(value: object, what: str) -> None:
    if not is_peer_id(value):
        raise UsageError(f"{what} is not a peer id in base58", got=shown(value))


def shown(value: object) -> str:
    """A value as an error message can bear it: short, and in ASCII."""
    match value:
        case str():
            return ascii(value) if len(value) <= _SHOWN_CHARS else ascii(value[:_SHOWN_CHARS]) + "..."
        case None | bool() | float():
            return repr(value)
        case _:
            return type(value).__name__


# --- namespaces ------------------------------------------------------------------------------------------------------

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
