"""What a version of Weft says about the files of a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.node.upgrading import Format, formats
from weft.security.files import SECURITY_FILE_BYTES_MAX
from weft.security.key_store import MESH_FILE


@pytest.mark.req("SEC-03")
def test_the_keys_of_a_large_mesh_can_be_read(tmp_path: Path) -> None:
    """Ten thousand keys, and as many revocations, take more than other files of secrets may."""
    document = b'{"version":1,"chains":{},"statements":[\n' + b" " * SECURITY_FILE_BYTES_MAX + b"]}\n"
    (tmp_path / MESH_FILE).write_bytes(document)
    assert list(formats(tmp_path)) == [Format(MESH_FILE, 1, (1,))]
