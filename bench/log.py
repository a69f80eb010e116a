"""The event log on RocksDB beside the disk it is on: appending, replay, seeking, opening, what is written and kept.

.venv/bin/python -m bench.log                     # a table; --json or --markdown for others
.venv/bin/python -m bench.log --scale 0.05        # a twentieth of the data: a look, not a measurement

At full scale it takes about two minutes and up to 8 GB, in a directory that it removes again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from bench.figures import Figure, report
from bench.log_append import append_figures
from bench.log_common import Sizes, new_log, stream, to_tables
from bench.log_read import fill, read_figures, seek_figures, tail_figures
from bench.log_space import crash_figures, interleaved_figures
from rich.console import Console

DISK_BYTES_NEEDED = 20 * 10**9


def run(place: Path, sizes: Sizes) -> list[Figure]:
    console = Console(stderr=True)
    figures: list[Figure] = []
    console.print("appending", style="dim")
    figures += append_figures(place, sizes)
    console.print(f"{sizes.seek_events:,} events in one stream", style="dim")
    target = stream("bench.seek")
    with new_log(place, "seek", recent_bytes=0) as log:
        fill(log, target, sizes.seek_events)
        to_tables(log)
        figures += seek_figures(log, target, sizes)
        console.print("many topics", style="dim")
        figures += read_figures(place, log, target, sizes)
    console.print("the end of a stream", style="dim")
    figures += tail_figures(place, sizes)
    console.print("crashes", style="dim")
    figures += crash_figures(place)
    console.print("64 streams", style="dim")
    figures += interleaved_figures(place, sizes)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", dest="output", action="store_const", const="json", default="table")
    parser.add_argument("--markdown", dest="output", action="store_const", const="markdown")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the data: 1 is all")
    parser.add_argument("--dir", type=Path, default=Path("build"), help="where to write: on the disk to be measured")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(options.dir).free
    if free < DISK_BYTES_NEEDED * options.scale:
        sys.exit(
            f"{options.dir} has {free / 1e9:.0f} GB free, this needs {DISK_BYTES_NEEDED * options.scale / 1e9:.0f}"
        )
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir=options.dir) as place:
        figures = run(Path(place), Sizes.of(options.scale))
    report(figures, "log", options.output)


if __name__ == "__main__":
    main()
