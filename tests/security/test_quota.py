"""Quotas as they are written and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import UsageError
from weft.security.api_keys import SALT_BYTES, SECRET_BYTES
from weft.security.key_store import KeyRequest, create_key, read_keys
from weft.security.quota import Quota, parse_quota


def test_what_is_written_is_what_is_kept(tmp_path: Path) -> None:
    quota = parse_quota(["topics=100", "bytes_per_s=1000000"])
    assert quota == Quota(topics=100, bytes_per_s=1_000_000)
    wanted = KeyRequest("a", publish=("a.>",), quota=quota)
    create_key(tmp_path / "data", wanted, bytes(SECRET_BYTES + SALT_BYTES), 0.0)
    (kept,) = read_keys(tmp_path / "data")
    assert kept.quota == quota
    assert parse_quota([]) is None


WRONG = ["topics", "topics=", "topics=0", "topics=-1", "topics=1.5", "things=1", "=1", "topics=\u0663"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_quota_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a quota"):
        parse_quota([text])
