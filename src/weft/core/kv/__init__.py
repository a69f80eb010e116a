"""Buckets of keys and values. Every node computes them from its log, by one rule.

The rule for conflicts (CON-05): of all writes of a key, the one with the latest revision counts. That is the write with
the latest time of the hybrid logical clock or, among equal times, the write of the node with the greater id. The rule
needs no other node, so it works in every part of a split mesh; and the order in which writes arrive does not matter, so
all parts agree once they have the same writes.

- ``bucket``: the entries of one bucket, and how they are merged, expired and listed.
- ``buckets``: all buckets of a node, which take in batches of the log within bounds of memory; and the clock that gives
  writes their times.
"""

from weft.core.kv.bucket import Bucket, Entry, Place
from weft.core.kv.buckets import Buckets, ClockBehind, HybridClock, KvSettings, Overfull

__all__ = ["Bucket", "Buckets", "ClockBehind", "Entry", "HybridClock", "KvSettings", "Overfull", "Place"]
