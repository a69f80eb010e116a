"""The key behind an agent's peer id: made, kept, read back, and refused when it is none."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from weft.coaty import KeyType, kept_identity, new_identity
from weft.errors import StorageError, UsageError
from weft.wire.libp2p import PrivateKey


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("key_type", KeyType)
def test_a_key_survives_being_written_down(key_type: KeyType) -> None:
    identity = new_identity(key_type)
    again = PrivateKey.from_protobuf(identity.to_protobuf())
    assert again.peer == identity.peer
    assert identity.public.verifies(b"message", again.sign(b"message"))
    assert again.public.type is key_type


def test_an_identity_is_made_once_and_kept_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "coaty" / "identity.json"
    identity = kept_identity(file)
    assert kept_identity(file).peer == identity.peer
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{}", '{"privKey": 1}', '{"privKey": "!"}', '{"privKey": "AAAA"}'])
def test_a_file_that_is_no_identity_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "identity.json"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(UsageError):
        kept_identity(file)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    kept_identity(file)
    file.chmod(0o644)
    with pytest.raises(StorageError, match="chmod 600"):
        kept_identity(file)
