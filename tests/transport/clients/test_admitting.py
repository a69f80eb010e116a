"""The key in a call's metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.transport.clients.admitting import key_untrusted


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("Bearer weft_k1_00", "weft_k1_00"),
        ("bearer  weft_k1_00", "weft_k1_00"),
        ("Basic weft_k1_00", None),
        ("weft_k1_00", None),
        ("Bearer ", None),
        ("Bearer " + "x" * 300, None),
        (b"Bearer x", None),
    ],
)
def test_the_key_of_a_call(value: Any, found: str | None) -> None:
    key = key_untrusted([("authorization", value)])
    assert (None if key is None else key.reveal()) == found
    assert key_untrusted([]) is None


@given(st.text())
def test_nothing_a_caller_sends_breaks_it(value: str) -> None:
    key_untrusted([("authorization", value)])
