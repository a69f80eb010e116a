"""What a key may make and send at most. It is stored with the key; nodes count (``weft.port.quotas``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from weft.errors import UsageError
from weft.limits import OFFSET_MAX


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """None: as the node's settings say; without a setting, unbounded."""

    topics: int | None = None
    groups: int | None = None
    subscriptions: int | None = None
    events_per_s: int | None = None
    bytes_per_s: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError, which msgspec turns into its own."""
        for name, value in self.said().items():
            if not 0 < value <= OFFSET_MAX:
                raise ValueError(f"a quota is a number above 0: {name}={value}")

    def said(self) -> dict[str, int]:
        """What it sets, by name."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not None}

    def or_else(self, other: Quota) -> Quota:
        return Quota(**{**other.said(), **self.said()})


UNLIMITED: Final = Quota()


def quota_of(said: Mapping[str, int]) -> Quota | None:
    """None if it sets nothing; raise UsageError for an invalid quota."""
    try:
        return msgspec.convert(said, Quota) if said else None
    except msgspec.ValidationError as error:
        raise UsageError(f"not a quota: {error}", known=", ".join(Quota.__struct_fields__)) from None


def parse_quota(texts: Iterable[str]) -> Quota | None:
    """Parse ``topics=100``, ``events_per_s=1000``, and so on; None if there are none."""
    said: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in Quota.__struct_fields__ or not number.isascii() or not number.isdigit() or int(number) < 1:
            known = ", ".join(Quota.__struct_fields__)
            raise UsageError(f"not a quota: {text[:64]!r}; write NAME=NUMBER", known=known)
        said[name] = int(number)
    return Quota(**said) if said else None
