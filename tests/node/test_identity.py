"""A node's id: chosen once, kept, and never changed by a flag."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import StorageError, UsageError
from weft.model import NodeId, parse_node_id
from weft.node.identity import FILE, new_node_id, settle_node_id


def test_a_new_node_gets_an_id_and_keeps_it(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    first = settle_node_id(data, None)
    assert parse_node_id(first) == first
    assert settle_node_id(data, None) == first
    assert settle_node_id(data, first) == first


def test_two_nodes_get_different_ids(tmp_path: Path) -> None:
    assert settle_node_id(tmp_path / "a", None) != settle_node_id(tmp_path / "b", None)


def test_the_wanted_id_is_kept(tmp_path: Path) -> None:
    assert settle_node_id(tmp_path, NodeId("node-a")) == "node-a"
    assert settle_node_id(tmp_path, None) == "node-a"


def test_the_data_of_another_node_is_refused(tmp_path: Path) -> None:
    settle_node_id(tmp_path, NodeId("node-a"))
    with pytest.raises(UsageError, match="belongs to node node-a, not node-b"):
        settle_node_id(tmp_path, NodeId("node-b"))
    assert settle_node_id(tmp_path, None) == "node-a"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"-a\n", b"a b", b"x" * 100])
def test_a_damaged_file_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(StorageError, match="is damaged"):
        settle_node_id(tmp_path, None)
    assert (tmp_path / FILE).read_bytes() == content


def test_a_directory_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StorageError, match=r"cannot (read|write)"):
        settle_node_id(tmp_path / "data", None)


def test_the_hosts_name_is_in_a_new_id() -> None:
    assert new_node_id("plant-7.example.org", "1f09ab34") == "plant-7-1f09ab34"
    assert new_node_id("", "1f09ab34") == "node-1f09ab34"


@given(st.text())
def test_any_host_name_gives_an_id(host: str) -> None:
    new_node_id(host, "1f09ab34")
