"""The Spark drivers of a run: what ``archive`` and the sink are started with, during the faults and after them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tools.chaos.load import Settings

WEFT: Final = str(Path(sys.executable).parent / "weft")
EVERY: Final = "15 seconds"  # between micro-batches: two Javas share the machine with five nodes
SUNK: Final = "sdk1"  # the door whose events the sink writes again
SINK_NODE: Final = "c"  # a write of the sink belongs to one node, which knows its numbers


def archive_command(settings: Settings, *, is_last: bool) -> Sequence[str]:
    """All events of the load into a table. The last run takes what is there, from all nodes, and ends."""
    nodes = ", ".join(f'"{address}"' for address in settings.nodes.values())
    name = "archive-last" if is_last else "archive"
    config = Path(settings.place) / f"{name}.toml"
    config.write_text(
        f'name = "chaos"\n[mesh]\nnodes = [{nodes}]\ntoken = "file:{settings.token_file}"\n'
        f'tls_root = "{settings.root}"\n'
        f'[source]\nsubscribe = "chaos.>"\nstarting = "earliest"\nfail_on_data_loss = false\n'
        f'members = "{"named" if is_last else "reachable"}"\n'
        f'[table]\npath = "{table_of(settings)}"\nformat = "delta"\n'
        f'[run]\ncheckpoint = "{settings.place}/archive-checkpoint"\ntrigger = "{EVERY}"\n'
        f'[spark]\nmaster = "local[1]"\n'
    )
    words = ["pipeline", "run", "archive", "--config", str(config), "--state-dir", f"{settings.place}/{name}-runs"]
    return [WEFT, *words, *(["--available-now"] if is_last else [])]


def sink_command(settings: Settings, *, is_last: bool) -> Sequence[str]:
    return [sys.executable, "-m", "tools.chaos.sink", f"{settings.place}/settings.json", "last" if is_last else EVERY]


def table_of(settings: Settings) -> Path:
    return Path(settings.place) / "table"


def environment() -> dict[str, str]:
    """Without what the caller has told ``weft``."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}


DRIVERS: Final[dict[str, Callable[..., Sequence[str]]]] = {"archive": archive_command, "sink": sink_command}
