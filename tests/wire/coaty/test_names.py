"""Namespace rules, as problems to report and as an exception; the mDNS name."""

from __future__ import annotations

import pytest

from weft.errors import UsageError
from weft.wire.coaty import (
    DEFAULT_NAMESPACE,
    NamespaceProblem,
    check_namespace,
    fits_mdns,
    mdns_service_name,
    require_namespace,
)

P = NamespaceProblem


@pytest.mark.req("COA-04")
@pytest.mark.parametrize(
    ("namespace", "problems"),
    [
        (DEFAULT_NAMESPACE, []),
        ("plant.line-1", []),
        ("Werk Süd 温度", []),
        ("", [P.EMPTY]),
        ("a\0b", [P.FORBIDDEN_CHARACTER]),
        ("a#b", [P.FORBIDDEN_CHARACTER]),
        ("a+b", [P.FORBIDDEN_CHARACTER]),
        ("a/b", [P.FORBIDDEN_CHARACTER]),
        ("a..b", [P.CONSECUTIVE_DOTS]),
        ("a.", [P.TRAILING_DOT]),
        (".a", []),
        ("a..", [P.CONSECUTIVE_DOTS, P.TRAILING_DOT]),
        ("/..", [P.FORBIDDEN_CHARACTER, P.CONSECUTIVE_DOTS, P.TRAILING_DOT]),
        ("\ud800", [P.NOT_UNICODE]),
        ("a" * 50, []),
        ("a" * 51, [P.UNDISCOVERABLE]),
        ("ü" * 25, []),
        ("ü" * 26, [P.UNDISCOVERABLE]),
        ("a" * 236, [P.UNDISCOVERABLE]),
        ("a" * 237, [P.TOO_LONG]),
        ("a" * 300 + "/", [P.FORBIDDEN_CHARACTER, P.TOO_LONG]),
    ],
)
def test_problems_are_reported_and_nothing_is_raised(namespace: str, problems: list[NamespaceProblem]) -> None:
    assert check_namespace(namespace) == problems


@pytest.mark.req("COA-04")
def test_the_raising_form_names_all_problems() -> None:
    with pytest.raises(UsageError, match=r"consecutive dots; namespace ends with a dot"):
        require_namespace("a..")
    require_namespace("a" * 236)  # what only mDNS cannot carry still works with bootstrap peers


@pytest.mark.req("COA-02")
def test_service_name() -> None:
    assert mdns_service_name("plant") == "coaty-libp2p-plant.local"
    assert len(mdns_service_name("a" * 236)) == 255


@pytest.mark.req("COA-02")
@pytest.mark.parametrize(
    ("namespace", "fits"),
    [
        ("a" * 50, True),  # 63 - len("coaty-libp2p-")
        ("a" * 51, False),
        ("a" * 50 + "." + "b" * 63, True),  # dots make labels
        ("a" * 50 + "." + "b" * 64, False),
        (".".join(["a" * 50, "b" * 63, "c" * 63, "d" * 55]), True),  # 3 * 64 + 56 + 6 + 1 = 255
        (".".join(["a" * 50, "b" * 63, "c" * 63, "d" * 56]), False),
        ("a..b", False),
    ],
)
def test_what_fits_into_a_dns_name(namespace: str, fits: bool) -> None:
    assert fits_mdns(namespace) is fits
