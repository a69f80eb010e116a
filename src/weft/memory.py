"""What the C library does with memory that was freed: keep it for the process, or give it back to the kernel.

A Python worker of Spark keeps it. It asks for some megabytes, fills them once, and frees them, a hundred times a
second. By itself the C library hands such pieces back to the kernel, and gets pages that have to be cleared and mapped
again: a fifth of all the time that a worker takes to read a range. Kept, they cost nothing.

A node gives back what only its start needed.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Final

from weft.limits import MIB

SPARK_KEPT_BYTES: Final = 128 * MIB  # of freed memory, at most: a few replies of a node, and the rows made of them
SPARK_PIECE_BYTES_MAX: Final = 32 * MIB  # larger ones go back at once; it is also the most that glibc takes
# Of glibc's malloc.h.
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8


@functools.cache
def keep_freed_memory() -> bool:
    """In this process, from now on; whether its C library can do that."""
    library = _glibc()
    if library is None:
        return False
    # One arena for all threads: others cannot keep more than 64 MiB, and give a whole one back when it is empty.
    wanted = ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, SPARK_PIECE_BYTES_MAX), (M_TRIM_THRESHOLD, SPARK_KEPT_BYTES))
    return all(library.mallopt(name, value) == 1 for name, value in wanted)


def give_back_freed_memory() -> None:
    """Once, now, as far as the C library can do that. It takes milliseconds."""
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
