"""A secret shows itself to nobody who does not ask for it by name."""

from __future__ import annotations

import copy
import pickle

import pytest

from weft.security import Secret

SHOWN = "hunter2-and-a-half"


@pytest.mark.req("SEC-02")
def test_it_stays_hidden_wherever_values_are_printed() -> None:
    secret = Secret(SHOWN)
    for text in (repr(secret), str(secret), f"{secret}", f"{secret!r}", repr([secret]), repr({"a": secret})):
        assert SHOWN not in text
    assert secret.reveal() == SHOWN


def test_it_is_compared_by_value_and_only_with_secrets() -> None:
    assert Secret(b"a") == Secret(b"a")
    assert Secret(b"a") != Secret(b"b")
    assert Secret(b"a") != b"a"
    assert Secret("\udc80") == Secret("\udc80")


def test_it_is_neither_hashed_nor_copied_out() -> None:
    with pytest.raises(TypeError):
        hash(Secret("a"))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Secret("a"))
    with pytest.raises(TypeError, match="not pickled"):
        copy.copy(Secret("a"))
