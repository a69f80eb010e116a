"""What the C library does with freed memory: keep it for this process, or give it back to the kernel.

By itself it hands large pieces back to the kernel, and gets pages that have to be cleared and mapped again. A Python
worker of Spark asks for some megabytes, fills them once and gives them back, a hundred times a second: a fifth of all
the time that it takes to read a range. A node does so for each large batch: a quarter of what it takes to store one,
until glibc has learned better. So both keep what they free, up to a bound.

What only its start needed, a node gives back.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Final

from weft.limits import MIB

PIECE_BYTES_MAX: Final = 32 * MIB  # larger ones go back at once; it is also the most that glibc takes
WORKER_KEPT_BYTES: Final = 128 * MIB  # a few replies of a node, and the rows made of them
NODE_KEPT_BYTES: Final = 64 * MIB  # a large batch as it came, checked, stored and sent; it is also where glibc ends
# Of glibc's malloc.h.
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8


@functools.cache
def keep_freed_memory(bytes_max: int, arenas_max: int | None = None) -> bool:
    """In this process, from now on; whether its C library can do that.

    ``arenas_max``: for all threads together. Those behind the first cannot keep more than 64 MiB, and give a whole one
    back when it is empty.
    """
    library = _glibc()
    if library is None:
        return False
    wanted = [(M_MMAP_THRESHOLD, PIECE_BYTES_MAX), (M_TRIM_THRESHOLD, bytes_max)]
    if arenas_max is not None:
        wanted.append((M_ARENA_MAX, arenas_max))
    return all(library.mallopt(name, value) == 1 for name, value in wanted)


def give_back_freed_memory() -> None:
    """Give back freed memory now, if the C library can. It takes milliseconds."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
    except OSError:
        return None
    has_both = hasattr(library, "mallopt") and hasattr(library, "malloc_trim")
    return library if has_both else None  # musl's has neither
