"""Put a load on a mesh from the outside and measure what it does: ``weft bench``, and Weft's side of ``bench/mesh.py``.

- ``histogram``: times of any number of events, in little memory.
- ``work``: how one client publishes: one by one, many in flight, in batches, at a rate.
- ``measure``: a whole load with its publishers and subscribers, and the report of it.
"""

from weft.load.histogram import Histogram
from weft.load.measure import Load, Report, measure
from weft.load.work import Budget, Payloads

__all__ = ["Budget", "Histogram", "Load", "Payloads", "Report", "measure"]
