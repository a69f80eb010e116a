"""The positions of others in our streams: how far consumer groups have read, and how far peers have acknowledged."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from weft.errors import UsageError
from weft.log import keys
from weft.log.keys import U64
from weft.log.store import DeleteRange, Put, Space, Store, Write
from weft.model import Position, parse_position

OWNER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


class Places:
    """One table of positions, by owner."""

    def __init__(self, store: Store, table: bytes) -> None:
        self._store = store
        self._table = table

    def moves(self, owner: str, positions: Iterable[Position]) -> list[Write]:
        """The writes that move an owner to new positions."""
        check_owner(owner)
        return [
            Put(Space.TABLES, keys.named_key(self._table, owner, _name(each)), U64.pack(each.offset))
            for each in positions
        ]

    def leaving(self, owner: str) -> list[Write]:
        """The writes that delete an owner."""
        check_owner(owner)
        return [DeleteRange(Space.TABLES, *keys.owner_range(self._table, owner))]

    def of(self, owner: str) -> list[Position]:
        check_owner(owner)
        rows = self._store.scan(Space.TABLES, *keys.owner_range(self._table, owner))
        prefix = len(keys.named_key(self._table, owner))
        return [parse_position(f"{key[prefix:].decode()}:{U64.unpack(value)[0]}") for key, value in rows]

    def owners(self) -> list[str]:
        """The owners that have positions, found by leaping from one to the next."""
        owners: list[str] = []
        at, end = keys.table_range(self._table)
        while row := next(self._store.scan(Space.TABLES, at, end, 1), None):
            owner = row[0][1 : row[0].index(b"\0")].decode()
            owners.append(owner)
            at = keys.owner_range(self._table, owner)[1]
        return owners


def check_owner(owner: str) -> None:
    """Check the name of a group or peer. The rules are those for node ids, so that names sort, print and travel
    well."""
    if not OWNER.fullmatch(owner):
        raise UsageError(
            "not a name for a group or peer: 1 to 64 of letters, digits, '.', '_' and '-'", name=owner[:80]
        )


def _name(position: Position) -> str:
    return f"{position.stream}:e{position.epoch}"
