"""The days that tables are partitioned by. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

DAY_US: Final = 86_400_000_000

# Publishers choose timestamps. A broken clock must not make thousands of directories, nor dates that Python and the
# readers of Parquet cannot represent. Days out of this range are null.
FIRST_DAY: Final = 10_957  # 2000-01-01
END_DAY: Final = 47_482  # 2100-01-01


def days(timestamps: pa.Array) -> pa.Array:
    """The UTC day of each timestamp; null if it is out of range."""
    micros = timestamps.cast(pa.int64())
    found = pc.divide(micros, DAY_US)  # rounds towards zero, which is right for all days in range
    likely = pc.and_(pc.greater_equal(found, FIRST_DAY), pc.less(found, END_DAY))
    return pc.if_else(likely, found, pa.scalar(None, pa.int64())).cast(pa.int32()).cast(pa.date32())
