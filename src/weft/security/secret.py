"""A value that must not be shown: keys, tokens and passwords travel in a ``Secret`` until the place that needs them."""

from __future__ import annotations

import hmac
from typing import AnyStr, Generic, NoReturn

HIDDEN = "Secret(***)"


class Secret(Generic[AnyStr]):
    """Reveals itself only through ``reveal``: not in a repr, an error, a log line or a pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: AnyStr) -> None:
        self._value: AnyStr = value

    def reveal(self) -> AnyStr:
        """The value. Grep for this to see every place where a secret is used."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        """In constant time for values of one length."""
        return isinstance(other, Secret) and hmac.compare_digest(_as_bytes(self._value), _as_bytes(other._value))

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it would be compared in variable time

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled or copied")


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
