"""The first key lies beside the node until somebody has it, and no longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.node.first_key import FirstKey
from weft.security import SALT_BYTES, SECRET_BYTES, KeyRequest, create_key, read_keys, revoke_key
from weft.security import key_store as key_store_module
from weft.security.api_keys import hash_secret

ONE, OTHER = bytes(SECRET_BYTES + SALT_BYTES), bytes(range(SECRET_BYTES + SALT_BYTES))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that takes no time."""
    monkeypatch.setattr(key_store_module, "hash_secret", lambda secret, salt: hash_secret(secret, salt, n=2))


@pytest.mark.req("SEC-07")
def test_starts_go_on_with_the_key_until_it_is_kept(tmp_path: Path) -> None:
    first = FirstKey(tmp_path, tmp_path / "client")
    key = first.settle(ONE, 0.0)
    assert key is not None
    assert first.file.stat().st_mode & 0o777 == 0o600
    again = FirstKey(tmp_path, tmp_path / "client").settle(OTHER, 1.0)
    assert again is not None and again.reveal() == key.reveal()
    assert len(read_keys(tmp_path)) == 1
    first.kept()
    assert not first.file.exists()
    assert first.settle(OTHER, 2.0) is None


@pytest.mark.req("SEC-07")
def test_a_start_that_is_killed_between_the_two_files_makes_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FirstKey(tmp_path, tmp_path / "client")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(key_store_module, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            first.settle(ONE, 0.0)
    assert first.file.exists() and not read_keys(tmp_path)
    key = first.settle(OTHER, 0.0)
    assert key is not None and key.reveal().endswith(OTHER[:SECRET_BYTES].hex())
    assert first.file.read_text() == key.reveal()


def test_a_file_that_no_longer_fits_is_removed(tmp_path: Path) -> None:
    first = FirstKey(tmp_path, tmp_path / "client")
    first.settle(ONE, 0.0)
    (record,) = read_keys(tmp_path)
    create_key(tmp_path, KeyRequest("another", admin=True), OTHER, 0.0)
    revoke_key(tmp_path, record.id)
    assert first.settle(OTHER, 0.0) is None
    assert not first.file.exists()
    first.file.write_text("nonsense")
    first.file.chmod(0o600)
    assert first.settle(OTHER, 0.0) is None
    assert not first.file.exists()
