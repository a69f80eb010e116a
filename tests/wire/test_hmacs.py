"""Prepared secrets give the HMACs that the standard library gives."""

from __future__ import annotations

import hmac

from hypothesis import given
from hypothesis import strategies as st

from weft.wire.hmacs import digests, prepared


@given(secret=st.binary(max_size=200), message=st.binary(max_size=600))
def test_prepared_secrets_give_the_hmac(secret: bytes, message: bytes) -> None:
    assert digests([(prepared(secret), message)]) == [hmac.digest(secret, message, "sha256")]
