"""Two tables that one query writes: each event is in exactly one of them, once, whatever happens to the driver.

Tasks write files of both tables. Then the driver decides: it records which files make up the batch, before it commits
to either table. Commits know (query, batch), so repeating them changes nothing. A driver that comes back after a crash
finds the decision and follows it, although the batch might turn out differently the second time.

``Pair`` keeps each query's last decision beside the first table, where it is found even if the checkpoint is lost. If
two drivers work on the same batch, one wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from weft.lake.address import TableError
from weft.lake.files import WrittenFile
from weft.lake.settings import TableSettings
from weft.lake.store import Content
from weft.pipelines.lake.table import Table, TableChanged, open_table

DECISIONS: Final = "_weft_batches"  # hidden from readers of every format, and not mistaken for a format's own directory
SUFFIX: Final = ".json"


class Staged(NamedTuple):
    """Files that are written and not yet part of their tables."""

    first: list[WrittenFile]
    second: list[WrittenFile]

    @classmethod
    def joined(cls, shares: Iterable[Staged]) -> Staged:
        """What several tasks wrote."""
        found = list(shares)
        return cls([file for share in found for file in share.first], [file for each in found for file in each.second])


class _DecidedFile(msgspec.Struct, frozen=True):
    """A file as a decision names it. Ranges of its columns are left out. Readers cannot skip a file without ranges, but
    only a batch whose driver crashed is committed from here."""

    path: str
    size_bytes: int
    partition: dict[str, str | None]
    rows: int


class _Decision(msgspec.Struct, frozen=True):
    batch: int
    files: tuple[list[_DecidedFile], list[_DecidedFile]]


def encode_files(staged: Staged) -> bytes:
    return msgspec.json.encode(_decided(staged))


def decode_files(data: bytes) -> Staged:
    return _staged(msgspec.json.decode(data, type=tuple[list[_DecidedFile], list[_DecidedFile]]))


def _decided(staged: Staged) -> tuple[list[_DecidedFile], list[_DecidedFile]]:
    first, second = (
        [_DecidedFile(each.path, each.size_bytes, dict(each.partition), each.rows) for each in files]
        for files in staged
    )
    return first, second


def _staged(tables: tuple[list[_DecidedFile], list[_DecidedFile]]) -> Staged:
    first, second = (
        [WrittenFile(each.path, each.size_bytes, each.partition, each.rows) for each in files] for files in tables
    )
    return Staged(first, second)


def is_usable(table: Table, files: Iterable[WrittenFile], query: str, batch: int) -> bool:
    """Whether a decision about this table can still be followed: it is carried out, or its files are there."""
    last = table.committed(query)
    if last is not None and last >= batch:
        return True
    store = table.settings.store()
    return all(store.facts(table.place(each.path)) for each in files)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both tables."""

    first: TableSettings
    second: TableSettings

    def opened(self) -> tuple[Table, Table]:
        return open_table(self.first), open_table(self.second)

    def finish(self) -> None:
        """Carry out what any query has decided but not finished. Call this before looking how far the tables are, and
        before changing their columns, because decided files have the old columns."""
        for query in list(self._queries()):
            if (found := self._read(query)) is not None:
                self._carry_out(query, found[0])

    def is_done(self, query: str, batch: int) -> bool:
        """Whether this batch is in the tables; an existing decision about it is carried out first."""
        found = self._read(query)
        if found is None or found[0].batch < batch:
            return False
        if found[0].batch > batch:
            raise TableChanged(
                "another driver has written a later batch of this query", batch=batch, later=found[0].batch
            )
        return self._carry_out(query, found[0])

    def commit(self, query: str, batch: int, staged: Staged) -> None:
        """Decide on these files and make them part of the tables; or follow what another driver has just decided."""
        store = open_table(self.first).settings.store()
        found = self._read(query)
        decision = msgspec.json.encode(_Decision(batch, _decided(staged)))
        if (found is None or found[0].batch < batch or not self._can_keep_to(query, found[0])) and store.swap(
            _path(query), decision, None if found is None else found[1]
        ):
            self._commit_files(query, batch, staged)
        elif not self.is_done(query, batch):
            raise TableChanged("another driver writes the same batch, and its files are gone", batch=batch)

    def _carry_out(self, query: str, decision: _Decision) -> bool:
        """Carry out a decision. False if its files are gone: then the batch has to be written again."""
        if not self._can_keep_to(query, decision):
            return False
        self._commit_files(query, decision.batch, _staged(decision.files))
        return True

    def _can_keep_to(self, query: str, decision: _Decision) -> bool:
        both = zip(self.opened(), _staged(decision.files), strict=True)
        return all(is_usable(table, files, query, decision.batch) for table, files in both)

    def _commit_files(self, query: str, batch: int, staged: Staged) -> None:
        for table, files in zip(self.opened(), staged, strict=True):
            if files:
                table.commit(files, query, batch)

    def _queries(self) -> Iterator[str]:
        for path, _ in open_table(self.first).settings.store().files(DECISIONS):
            if path.endswith(SUFFIX):
                yield path.rpartition("/")[2].removesuffix(SUFFIX)

    def _read(self, query: str) -> tuple[_Decision, Content] | None:
        content = open_table(self.first).settings.store().read(_path(query))
        if content is None:
            return None
        try:
            return msgspec.json.decode(content.data, type=_Decision), content
        except msgspec.DecodeError as error:
            raise TableError(f"a decision is damaged: {error}", table=self.first.path, query=query) from None


def _path(query: str) -> str:
    return f"{DECISIONS}/{query}{SUFFIX}"
