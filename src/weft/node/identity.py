"""The node's id: it is chosen once and kept beside the log. Its streams carry the id for ever, so it never just
changes."""

from __future__ import annotations

import re
import secrets
import socket
from pathlib import Path
from typing import Final

from weft.errors import StorageError, UsageError
from weft.limits import ORIGIN_BYTES_MAX
from weft.model import BadName, NodeId, parse_node_id
from weft.security.files import write_private

FILE: Final = "node-id"
SUFFIX_BYTES: Final = 4  # two nodes on hosts of the same name differ, except once in four thousand million times
HOST_CHARACTERS_MAX: Final = 32  # the rest of a long host name tells people nothing


def settle_node_id(data: Path, wanted: NodeId | None) -> NodeId:
    """The id of the node with this data directory: the one it has, else the wanted one, else a new one.

    Raise UsageError if it has an id other than the wanted one, because its streams belong to the id that it has.
    """
    file = data / FILE
    kept = _read(file)
    if kept is None:
        chosen = wanted or new_node_id(socket.gethostname(), secrets.token_hex(SUFFIX_BYTES))
        _write(file, chosen)
        return chosen
    if wanted is not None and wanted != kept:
        raise UsageError(f"the data in {data} belongs to node {kept}, not {wanted}: give that id, or another directory")
    return kept


def new_node_id(host: str, suffix: str) -> NodeId:
    """``plant-7.example.org`` becomes ``plant-7-1f09ab34``."""
    label = re.sub(r"[^A-Za-z0-9-]", "-", host.split(".")[0])[:HOST_CHARACTERS_MAX].strip("-")
    return parse_node_id(f"{label or 'node'}-{suffix}")


def _read(file: Path) -> NodeId | None:
    try:
        with file.open("rb") as stream:
            text = stream.read(ORIGIN_BYTES_MAX + 2)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {file}: {error.strerror}") from None
    try:
        return parse_node_id(text.decode("ascii", "replace").strip())
    except BadName as error:
        raise StorageError(f"{file} is damaged: {error}; put the node's id back into it") from None


def _write(file: Path, node_id: NodeId) -> None:
    """Write it at once and for good, before anything is promised in that name."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {file}: {error.strerror}") from None
    write_private(file, f"{node_id}\n".encode())
