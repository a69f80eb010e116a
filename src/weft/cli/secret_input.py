"""Secrets that are handed to commands: as an option, or by standard input, where no list of processes shows them."""

from __future__ import annotations

import os
import sys
from typing import Final

from weft.security.secret import Secret

STDIN: Final = "-"


def read_secret(given: str, chars_max: int) -> Secret[str]:
    """The option itself; or the first line of standard input for ``-``, cut where no honest one is as long."""
    if given != STDIN:
        return Secret(given)
    with os.fdopen(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as stream:
        return Secret(stream.readline(chars_max + 1).decode("utf-8", "replace").strip())
