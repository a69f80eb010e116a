"""File descriptors: how many this process may have open, and having as many as the system allows.

Connections, tables of the log and files all take one. A log that cannot open a table ends the node, so a node takes
what it can get at its start, and says what that is.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

FOR_LOG: Final = 1024  # tables that RocksDB has open, write-ahead logs, and files of the node itself
UNLIMITED: Final = resource.RLIM_INFINITY


@dataclass(frozen=True, slots=True)
class DescriptorLimit:
    """``before`` is what the process was started with, ``now`` what it has, ``hard`` what it may raise that to."""

    before: int
    now: int
    hard: int

    def lacks(self, connections_max: int) -> int:
        """How many are missing for so many connections beside the log; 0 if there are enough."""
        return 0 if self.now == UNLIMITED else max(0, connections_max + FOR_LOG - self.now)


def descriptor_limit() -> DescriptorLimit:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DescriptorLimit(soft, soft, hard)


def raise_descriptor_limit() -> DescriptorLimit:
    """As high as it goes. Some systems name a limit that they do not grant: then all stays as it was."""
    before = descriptor_limit()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before.hard, before.hard))
    except (ValueError, OSError):
        return before
    return DescriptorLimit(before.before, resource.getrlimit(resource.RLIMIT_NOFILE)[0], before.hard)
