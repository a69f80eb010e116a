"""The day that tables are partitioned by. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

DAY_US: Final = 86_400_000_000

# Publishers set timestamps, and a clock gone mad must not make a directory for every day there ever was, nor dates that
# Python and the readers of Parquet cannot hold: such days are null.
FIRST_DAY: Final = 10_957  # 2000-01-01
END_DAY: Final = 47_482  # 2100-01-01


def days(timestamps: pa.Array) -> pa.Array:
    """The day of each by UTC; null for those that cannot be."""
    micros = timestamps.cast(pa.int64())
    found = pc.divide(micros, DAY_US)  # towards zero: right for all days that are kept
    likely = pc.and_(pc.greater_equal(found, FIRST_DAY), pc.less(found, END_DAY))
    return pc.if_else(likely, found, pa.scalar(None, pa.int64())).cast(pa.int32()).cast(pa.date32())
