"""How many connections a process can have: every open file counts, and the log must never be refused one.

A log that cannot open a table ends the node. So a node takes as many files as it can get at its start, shares them out,
and says how.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

from weft.doors.keeper import LEAVING_MAX
from weft.errors import UsageError

# The node's own: standard streams, the event loop, ports, files that are read or written for a moment; and connections
# that are on their way out.
NODE_FILES: Final = 40 + LEAVING_MAX
UNLIMITED: Final = 1 << 20  # what is shared out where the system sets no limit
CONNECTIONS_MIN: Final = 16  # with fewer, a node is useless
ADMIN_CONNECTIONS_MIN: Final = 16
ADMIN_CONNECTIONS_MAX: Final = 64  # a few scrapers and people
CA_CONNECTIONS_MIN: Final = 16
CA_CONNECTIONS_MAX: Final = 256  # enrolling or renewing at a time; each takes milliseconds


@dataclass(frozen=True, slots=True)
class FileLimit:
    """``before``: the limit at the start of the process; ``now``: the current one; ``hard``: the highest it may set."""

    before: int
    now: int
    hard: int


def file_limit() -> FileLimit:
    """What the system allows this process now."""
    soft, hard = (
        UNLIMITED if each == resource.RLIM_INFINITY else each for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return FileLimit(soft, soft, hard)


def raise_file_limit() -> FileLimit:
    """Raise the limit as high as possible. Some systems name a limit that they do not grant; then nothing changes."""
    before = file_limit()
    try:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return before
    return FileLimit(before.now, file_limit().now, before.hard)


@dataclass(frozen=True, slots=True)
class Descriptors:
    """What the files that a process may open are for."""

    limit: int
    log: int
    node: int
    admin: int  # connections to the admin port, and to the CA: theirs alone, so that health is always answered
    ca: int
    connections: int  # to all other ports together

    def lacks(self, connections_max: int) -> int:
        """How many are missing for so many connections; 0 if there are enough."""
        return max(0, connections_max - self.connections)


def plan(limit: int, log_files: int, dialled_max: int) -> Descriptors:
    """Share out ``limit`` open files; UsageError if they are too few. ``dialled_max``: connections that we make."""
    admin = min(ADMIN_CONNECTIONS_MAX, max(ADMIN_CONNECTIONS_MIN, limit // 32))
    ca = min(CA_CONNECTIONS_MAX, max(CA_CONNECTIONS_MIN, limit // 16))
    node = NODE_FILES + dialled_max
    reserved = log_files + node + admin + ca
    connections = limit - reserved
    if connections < CONNECTIONS_MIN:
        raise UsageError(
            f"this process may have {limit} files open, and a node needs at least {reserved + CONNECTIONS_MIN}: "
            "raise the limit (ulimit -n, or LimitNOFILE of its service)"
        )
    return Descriptors(limit, log_files, node, admin, ca, connections)
