"""Many signatures are judged as one is, by however many threads."""

from __future__ import annotations

import threading

import pytest

from weft.gateway.emm import checkers as module
from weft.gateway.emm.checkers import Checkers
from weft.wire.emm import SigningKey
from weft.wire.emm.auth import is_signed
from weft.wire.emm.judge_columns import Signed

KEY, OTHER = SigningKey(bytes(32)), SigningKey(bytes(range(32)))


def signed(number: int, key: SigningKey = KEY) -> Signed:
    message = b"message %d" % number
    return key.sign(message) + message, KEY.public_key


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_each_is_judged_in_its_place(helpers: int) -> None:
    work = [signed(number, OTHER if number % 3 == 0 else KEY) for number in range(50)]
    checkers = Checkers(helpers)
    try:
        assert checkers.check(work) == [number % 3 != 0 for number in range(50)]
        assert checkers.check(work[:1]) == [False]
        assert checkers.check([]) == []
    finally:
        checkers.close()


def test_what_is_no_signature_at_all_is_not_good() -> None:
    assert not is_signed(b"", KEY.public_key)
    assert not is_signed(bytes(64), bytes(32))


def test_others_help_and_each_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gets on before two threads are at work."""
    both = threading.Barrier(2)
    checked: list[tuple[int, bytes]] = []

    def wait_for_the_other(message: bytes, key: bytes) -> bool:
        if threading.get_ident() not in {thread for thread, _ in checked}:
            both.wait(10)
        checked.append((threading.get_ident(), message))
        return True

    monkeypatch.setattr(module, "is_signed", wait_for_the_other)
    checkers = Checkers(helpers=1)
    assert all(checkers.check([(bytes([number]), b"") for number in range(20)]))
    checkers.close()
    assert sorted(message for _, message in checked) == [bytes([number]) for number in range(20)]
    assert len({thread for thread, _ in checked}) == 2


def test_a_defect_in_a_helper_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    main = threading.get_ident()
    begun = threading.Event()

    def fail_elsewhere(message: bytes, key: bytes) -> bool:
        if threading.get_ident() != main:
            begun.set()
            raise MemoryError
        return begun.wait(10)

    monkeypatch.setattr(module, "is_signed", fail_elsewhere)
    checkers = Checkers(helpers=1)
    with pytest.raises(MemoryError):
        checkers.check([(b"", b"")] * 10)
    checkers.close()
