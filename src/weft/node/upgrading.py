"""Whether this version of Weft can read what another one wrote: the formats of a data directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from weft.errors import WeftError
from weft.log.backup import format_of
from weft.log.marks_file import MarksFile
from weft.log.recovery import FORMAT, FORMATS_READ
from weft.log.rocks_store import holds_data
from weft.security.files import read_file
from weft.security.key_store import MESH_FILE_BYTES_MAX

# The formats that each file's reader accepts. A test compares these with the readers.
FILES: Final[Mapping[str, tuple[int, ...]]] = {
    "keys.json": (1, 2),
    "mesh-keys.json": (1,),
    "trust.json": (1,),
    "ca/revoked.json": (1,),
    "emm.json": (1,),
}


class _Versioned(msgspec.Struct, frozen=True):
    version: int = 1  # a file without a version is of the first


class Format(NamedTuple):
    """One part of a data directory. ``found`` is None if it cannot be read; ``note`` says why, or what will change."""

    part: str
    found: int | None
    known: tuple[int, ...]
    note: str = ""

    @property
    def is_readable(self) -> bool:
        return self.found in self.known


def formats(data: Path) -> Iterator[Format]:
    """The formats of everything that is there and has one. Changes nothing, even beside a running node."""
    if holds_data(data) or MarksFile(data).read() is not None:
        yield _log(data)
    for name, known in FILES.items():
        try:
            text = read_file(data / name, MESH_FILE_BYTES_MAX)
        except WeftError as error:
            yield Format(name, None, known, str(error))
            continue
        if text is not None:
            yield _file(name, text, known)


def _log(data: Path) -> Format:
    try:
        found = format_of(data)
    except WeftError as error:
        return Format("log", None, FORMATS_READ, f"it does not open ({error}): `weft log check --data {data}`")
    if found is not None and found < FORMAT:
        note = f"becomes {FORMAT} when a node starts on it; older versions of Weft refuse it then: take a backup first"
        return Format("log", found, FORMATS_READ, note)
    return Format("log", found, FORMATS_READ, "" if found in FORMATS_READ else "a newer version of Weft wrote it")


def _file(name: str, text: bytes, known: tuple[int, ...]) -> Format:
    try:
        found = msgspec.json.decode(text, type=_Versioned).version
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Format(name, None, known, f"it is damaged: {error}")
    return Format(name, found, known, "" if found in known else "a newer version of Weft wrote it")
