"""Buckets of keys and values, as every node sees them: folded from the log, by one rule.

The rule for conflicts (CON-05): of all writes of a key, the one with the latest revision counts. That is the one with
the latest time of the hybrid logical clock or, among equal times, the one of the node with the greater id. The rule
needs no other node, so it works in every part of a split mesh; and the order in which writes arrive does not matter, so
all parts agree once they have the same writes.

- ``bucket``: the entries of one bucket: merged, expired, listed.
- ``buckets``: all buckets of a node, within bounds of memory. They take in batches of the log. And the clock that times
  come from.
"""

from weft.core.kv.bucket import Bucket, Entry, Place
from weft.core.kv.buckets import Buckets, ClockBehind, HybridClock, KvSettings, Overfull

__all__ = ["Bucket", "Buckets", "ClockBehind", "Entry", "HybridClock", "KvSettings", "Overfull", "Place"]
