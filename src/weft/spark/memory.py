"""Memory of a Python worker of Spark: what it frees is kept for its next batch.

A worker asks for some megabytes, fills them once, and gives them back, a hundred times a second. The C library hands
such pieces back to the kernel, and gets pages that have to be cleared and mapped again: a fifth of all the time that
a worker takes to read a range. Kept, they cost nothing.
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
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False  # another C library, such as musl's
    # One arena for all threads: others cannot keep more than 64 MiB, and give a whole one back when it is empty.
    wanted = ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, SPARK_PIECE_BYTES_MAX), (M_TRIM_THRESHOLD, SPARK_KEPT_BYTES))
    return all(mallopt(name, value) == 1 for name, value in wanted)
