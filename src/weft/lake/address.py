"""Where a table is: a directory, or a place in an object store. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from weft.errors import UsageError


class TableError(UsageError):
    """A table cannot be read or written in this way; the error says which table and why."""


class StoreKind(StrEnum):
    """The kind of place that a table is in."""

    DIRECTORY = "directory"
    S3 = "S3"
    GCS = "Google Cloud Storage"
    AZURE = "Azure Data Lake Storage"


KINDS: Final = {"s3": StoreKind.S3, "s3a": StoreKind.S3, "gs": StoreKind.GCS, "abfss": StoreKind.AZURE}
SPELLED: Final = {StoreKind.S3: "s3", StoreKind.GCS: "gs", StoreKind.AZURE: "abfss"}
SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
# container@account.dfs.core.windows.net, or the like of another cloud
AZURE_PLACE: Final = re.compile(r"[a-z0-9$][a-z0-9-]{0,62}@[a-z0-9]{3,24}(\.[a-z0-9.-]+)")
ADDRESS_CHARS_MAX: Final = 1024  # of a key in S3; directories have less


@dataclass(frozen=True, slots=True)
class Address:
    """A table's place. ``text`` is how it is spelled everywhere: absolute, without a slash at its end."""

    text: str
    kind: StoreKind

    @property
    def is_directory(self) -> bool:
        return self.kind is StoreKind.DIRECTORY


def parse_address(given: str) -> Address:
    """A path, ``file://``, ``s3://``, ``gs://`` or ``abfss://``; TableError for anything else."""
    text = given.removeprefix("file://")
    if not text:
        raise TableError("a table needs a path: a directory, or s3://, gs:// or abfss:// and a place there")
    if len(text) > ADDRESS_CHARS_MAX:
        raise TableError("a table's path is too long", characters=len(text), limit=ADDRESS_CHARS_MAX)
    found = SCHEME.match(text)
    if found is None:
        try:
            return Address(str(Path(text).expanduser().absolute()), StoreKind.DIRECTORY)
        except RuntimeError:  # ~somebody
            raise TableError("there is no such home directory", table=given) from None
    kind = KINDS.get(found[1].lower())
    if kind is None or not found[2]:
        raise TableError(
            f"tables are in directories or below s3://, gs:// or abfss://; {found[1]}: is not supported: "
            "mount the store"
        )
    place, _, key = text[found.end() :].partition("/")
    if not (AZURE_PLACE if kind is StoreKind.AZURE else BUCKET).fullmatch(place):
        # The message does not quote the address: people write keys there.
        wanted = "container@account.dfs.core.windows.net" if kind is StoreKind.AZURE else "the name of a bucket"
        raise TableError(f"a table's path in {kind} begins with {SPELLED[kind]}:// and {wanted}, and nothing else")
    steps = key.strip("/").split("/")
    if not all(steps) or {".", ".."} & set(steps) or re.search(r"[?#\x00-\x1f]", key):
        raise TableError("a table's path in a store has names between its slashes, without ., .., ? and #", table=given)
    return Address(f"{SPELLED[kind]}://{place}/{'/'.join(steps)}", kind)
