"""Secrets that are handed to commands: by standard input, by a file, or as an option, which others can see.

Anybody on the machine can list processes with their arguments. A secret given as an option is overwritten there as soon
as it is read: it can be seen while the command starts, and not for as long as a node runs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

from weft.cli.options import misused
from weft.security.secret import Secret

STDIN: Final = "-"
OVERWRITTEN: Final = b"x"
PROCESS: Final = Path("/proc/self")
# proc(5), /proc/pid/stat: the 48th and 49th field; the first two are cut off with the name of the program.
ARGUMENTS_BEGIN, ARGUMENTS_END = 48 - 3, 49 - 3


def read_secret(given: str, chars_max: int, option: str) -> Secret[str]:
    """The option itself, or for ``-`` the first line of standard input, up to a length that no real secret has. The
    command ends if it is empty: with ``-``, the command before the pipe has usually failed.
    """
    if given != STDIN:
        hide_argument(given)
        found = given
    else:
        with os.fdopen(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as stream:
            found = stream.readline(chars_max + 1).decode("utf-8", "replace").strip()
    if not found:
        misused(f"{option} is -, and there is nothing on standard input" if given == STDIN else f"{option} is empty")
    return Secret(found)


def hide_argument(text: str) -> bool:
    """Overwrite the text in the arguments of this process, as the system shows them. False if it is not there, or this
    system does not say where arguments are.
    """
    secret = os.fsencode(text)
    place = _arguments()
    if place is None or not secret or secret not in place.content:
        return False
    hidden = place.content.replace(secret, OVERWRITTEN * len(secret))
    assert len(hidden) == len(place.content), "what stands behind it stays where it is"
    ctypes.memmove(place.address, hidden, len(hidden))
    return True


class _Arguments(NamedTuple):
    address: int
    content: bytes


def _arguments() -> _Arguments | None:
    """Where the arguments of this process are in its memory. Checked: the bytes there must be what the system shows."""
    try:
        fields = (PROCESS / "stat").read_bytes().rpartition(b")")[2].split()
        begin, end = int(fields[ARGUMENTS_BEGIN]), int(fields[ARGUMENTS_END])
        shown = (PROCESS / "cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return None
    if not shown or begin == 0 or end - begin != len(shown):
        return None
    content = ctypes.string_at(begin, len(shown))
    return _Arguments(begin, content) if content == shown else None
