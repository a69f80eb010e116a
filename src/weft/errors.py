"""The exception tree. Each branch says whose fault it is, and so what has to happen next.

- ``UsageError``: the caller asked for something that cannot be done. Fix the call.
- ``PeerError``: the other side sent or did something wrong. Drop the packet or the link; this node is fine.
- ``StorageError``: the log cannot keep its promise. Stop and say so.

Errors carry the facts they speak of, so that logs, metrics and tests need not read the sentence:

>>> str(PeerError("value overruns payload", at=23, need=40, have=12))
'value overruns payload (at 23, need 40, have 12)'
>>> str(PeerError("no answer", waited_s=5))
'no answer (waited 5 s)'
"""

from __future__ import annotations

from typing import Final

UNITS: Final = frozenset({"s", "ms"})  # at the end of names, as in ``waited_s``


class WeftError(Exception):
    """Anything Weft raises on purpose."""

    def __init__(self, what: str, **facts: object) -> None:
        super().__init__(what)
        self.what = what
        self.facts = facts

    def __str__(self) -> str:
        if not self.facts:
            return self.what
        return f"{self.what} ({', '.join(_shown(*fact) for fact in self.facts.items())})"


class UsageError(WeftError):
    """The caller asked for something that cannot be done."""


class PeerError(WeftError):
    """The other side sent something malformed or broke the protocol."""


class StorageError(WeftError):
    """The log cannot keep what it promised."""


def _shown(name: str, value: object) -> str:
    words = name.split("_")
    if len(words) > 1 and words[-1] in UNITS and words[-2] != "per":
        return f"{' '.join(words[:-1])} {value} {words[-1]}"
    return f"{' '.join(words)} {value}"
