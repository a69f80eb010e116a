"""The exception tree. Each branch says whose fault it is, and so what has to happen next.

- ``UsageError``: the caller asked for something that cannot be done. Fix the call.
- ``PeerError``: the other side sent or did something wrong. Drop the packet or the link; this node is fine.
- ``StorageError``: the log cannot keep its promise. Stop and say so.

Errors carry the facts they speak of, so that logs, metrics and tests need not read the sentence:

>>> str(PeerError("value overruns payload", at=23, need=40, have=12))
'value overruns payload (at 23, need 40, have 12)'
"""

from __future__ import annotations


class WeftError(Exception):
    """Anything Weft raises on purpose."""

    def __init__(self, what: str, **facts: object) -> None:
        super().__init__(what)
        self.what = what
        self.facts = facts

    def __str__(self) -> str:
        if not self.facts:
            return self.what
        facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.facts.items())
        return f"{self.what} ({facts})"


class UsageError(WeftError):
    """The caller asked for something that cannot be done."""


class PeerError(WeftError):
    """The other side sent something malformed or broke the protocol."""


class StorageError(WeftError):
    """The log cannot keep what it promised."""
