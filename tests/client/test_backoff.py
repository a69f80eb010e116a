"""When to try again, and where."""

from __future__ import annotations

import pytest

from weft.client.backoff import CLIENT_NODES_MAX, AddressBook, Backoff
from weft.client.options import Options, check_address, parse_nodes
from weft.errors import UsageError


def test_delays_double_up_to_the_bound_and_begin_anew_after_success() -> None:
    backoff = Backoff(0.1, 1.0, lambda: 1.0)
    delays = [backoff.delay_s()]
    for _ in range(6):
        backoff.failed()
        delays.append(backoff.delay_s())
    assert delays == [0.0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.succeeded()
    assert backoff.delay_s() == 0.0


def test_jitter_is_full() -> None:
    chances = iter([0.0, 0.25, 0.999])
    backoff = Backoff(1.0, 8.0, lambda: next(chances))
    backoff.failed()
    assert [backoff.delay_s() for _ in range(3)] == [0.0, 0.25, 0.999]


def test_a_thousand_failures_are_no_overflow() -> None:
    backoff = Backoff(0.1, 5.0, lambda: 1.0)
    for _ in range(1000):
        backoff.failed()
    assert backoff.delay_s() == 5.0


def test_given_addresses_come_first_then_what_nodes_told() -> None:
    book = AddressBook(["a:1", "b:2"])
    book.learn_untrusted(["c:3", "a:1", "d:4"])
    assert book.all() == ("a:1", "b:2", "c:3", "d:4")
    assert book.round("c:3") == ["c:3", "a:1", "b:2", "d:4"]
    assert book.round(None, avoided="a:1") == ["b:2", "c:3", "d:4", "a:1"]
    assert book.round("gone:9") == ["a:1", "b:2", "c:3", "d:4"]


def test_a_book_that_does_not_learn_keeps_to_what_was_given() -> None:
    book = AddressBook(["a:1"], learns=False)
    book.learn_untrusted(["c:3", "d:4"])
    assert book.all() == ("a:1",)


def test_what_nodes_tell_is_checked_and_bounded() -> None:
    book = AddressBook(["a:1"])
    book.learn_untrusted(["", "nonsense", "x" * 400 + ":1", "h:0", "h:99999", "h h:1"])
    assert book.all() == ("a:1",)
    for index in range(3 * CLIENT_NODES_MAX):
        book.learn_untrusted([f"h{index}:1"])
    assert len(book.all()) == 1 + CLIENT_NODES_MAX
    assert book.all()[-1] == f"h{3 * CLIENT_NODES_MAX - 1}:1"


@pytest.mark.parametrize("address", ["h:1", "127.0.0.1:7400", "[::1]:7400", "a.b-c:65535"])
def test_addresses(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    "address", ["", "h", ":1", "h:", "h:0", "h:65536", "h:x", "::1:7400", "h g:1", "h:1\n", "[]:1"]
)
def test_no_addresses(address: str) -> None:
    with pytest.raises(UsageError, match="node"):
        check_address(address)


def test_nodes_are_one_or_several() -> None:
    assert parse_nodes("h:1") == ("h:1",)
    assert parse_nodes(["h:1", "g:2", "h:1"]) == ("h:1", "g:2")
    with pytest.raises(UsageError, match="no node"):
        parse_nodes([])


@pytest.mark.parametrize(
    "wrong",
    [
        {"open_timeout_s": 0},
        {"batch_bytes": -1},
        {"batch_bytes": 1 << 24},
        {"backoff_s_max": float("inf")},
        {"backoff_s_max": float("nan")},
        {"credit_bytes": True},
        {"keepalive_s": "5"},
        {"backoff_s_min": 9.0, "backoff_s_max": 1.0},
    ],
)
def test_options_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Options(**wrong)  # type: ignore[arg-type]
