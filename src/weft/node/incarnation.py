"""The number of this life of the node: higher at every start, whatever the clock says.

Membership needs it (a state of an earlier life never counts against this one), and it must survive power cuts: two
lives with one number could not be told apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weft.errors import StorageError
from weft.limits import INCARNATION_MAX
from weft.security.files import write_private

FILE: Final = "incarnation"
DIGITS_MAX: Final = 20


def last_incarnation(data: Path) -> int:
    """The number of the last start: milliseconds since 1970, unless the clock was behind; 0 if there was none."""
    return _read(data / FILE)


def next_incarnation(data: Path, now_ms: int) -> int:
    """One more than the last number, or the clock if that is higher. It is on disk before it is used.

    A node that lost its disk starts at the clock, which is beyond its earlier lives unless one of them had a wrong
    clock; then it hears of them from the mesh and steps over them. Milliseconds will do: no node loses its disk and is
    back within one.
    """
    file = data / FILE
    incarnation = min(max(_read(file) + 1, now_ms, 1), INCARNATION_MAX)
    write_private(file, f"{incarnation}\n".encode())
    return incarnation


def _read(file: Path) -> int:
    try:
        with file.open("rb") as stream:
            text = stream.read(DIGITS_MAX + 1).strip()
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise StorageError(f"cannot read {file}: {error.strerror}") from None
    if not text.isdigit() or int(text) > INCARNATION_MAX:
        raise StorageError(f"{file} is damaged: remove it if this machine's clock is right", found=repr(text))
    return int(text)
