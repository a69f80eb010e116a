"""Buckets of keys and values, as every node sees them: folded from the log, by one rule.

The rule for conflicts (CON-05): of all writings of a key, the one with the latest revision counts. That is the one
with the latest time of the hybrid logical clock, and among equal times the one of the node with the greater id. It asks
nobody, so it holds in every part of a mesh that is split; and it does not depend on the order in which writings arrive,
so all parts have the same once they have the same writings.

- ``clock``: where times come from.
- ``bucket``: the entries of one bucket: merged, expired, listed.
- ``buckets``: all buckets of a node, within bounds of memory; batches of the log go in here.
"""

from weft.core.kv.bucket import Bucket, Entry, Place
from weft.core.kv.buckets import Buckets, KvSettings, Overfull
from weft.core.kv.clock import ClockBehind, HybridClock

__all__ = ["Bucket", "Buckets", "ClockBehind", "Entry", "HybridClock", "KvSettings", "Overfull", "Place"]
