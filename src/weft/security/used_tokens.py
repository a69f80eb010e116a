"""Which tokens were used: remembered until they expire, also across restarts."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Final

from weft.errors import StorageError
from weft.security.errors import TokenRefused
from weft.security.files import PRIVATE_FILE, read_private, write_private
from weft.security.tokens import TOKEN_LEEWAY_S

USED_TOKENS_MAX: Final = 100_000  # not yet expired: 300 a second; more are refused until some expire
FILE: Final = "used-tokens"


class UsedTokens:
    """A line per token in a file: when it expires, and its id. Appended to, and rewritten at every start."""

    def __init__(self, directory: Path, now_s: float) -> None:
        self._path = directory / FILE
        self._lock = threading.Lock()  # two calls with one token must not both find it unused
        self._expiries: dict[str, int] = _read(self._path)
        self._forget(now_s)
        write_private(self._path, "".join(_line(*each) for each in self._expiries.items()).encode())

    def spend(self, token_id: str, expires_s: int, now_s: float) -> None:
        """Raise TokenRefused if it was spent before. When this returns it is spent, even if the power fails."""
        with self._lock:
            if token_id in self._expiries:
                raise TokenRefused("the token was used before: each is valid for one certificate")
            if len(self._expiries) >= USED_TOKENS_MAX:
                self._forget(now_s)
            if len(self._expiries) >= USED_TOKENS_MAX:
                raise TokenRefused("too many tokens were used in the last minutes", limit=USED_TOKENS_MAX)
            self._append(_line(token_id, expires_s))
            self._expiries[token_id] = expires_s

    def _append(self, line: str) -> None:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
            size = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, line.encode()) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)  # half a line would spoil the next one
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error.strerror}") from None

    def _forget(self, now_s: float) -> None:
        old = [token_id for token_id, end_s in self._expiries.items() if now_s >= end_s + TOKEN_LEEWAY_S]
        for token_id in old:
            del self._expiries[token_id]


def _line(token_id: str, expires_s: int) -> str:
    return f"{expires_s} {token_id}\n"


def _read(path: Path) -> dict[str, int]:
    """A last line that a power cut tore is left out: no certificate was given for it."""
    found: dict[str, int] = {}
    for line in (read_private(path) or b"").decode("ascii", "replace").splitlines(keepends=True):
        expires_s, _, token_id = line.rstrip("\n").partition(" ")
        if line.endswith("\n") and expires_s.isdigit() and token_id:
            found[token_id] = int(expires_s)
    return found
