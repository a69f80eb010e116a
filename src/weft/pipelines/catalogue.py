"""Which pipelines there are. Their modules are loaded when one is run: they need Spark, and this list does not."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from weft.configuration import suggestion
from weft.errors import UsageError


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    summary: str

    @property
    def module(self) -> str:
        return f"weft.pipelines.{self.name}"

    @property
    def file(self) -> Path:
        """The file to give to spark-submit."""
        return Path(__file__).with_name(f"{self.name}.py")

    def load(self) -> Any:
        """Load the pipeline: a ``Streaming`` or a ``Job``."""
        pipeline = import_module(self.module).PIPELINE
        assert pipeline.name == self.name, f"{self.module} calls itself {pipeline.name}"
        return pipeline


CATALOGUE: Final = (
    Entry("archive", "Topics to a lake table of raw events, exactly once"),
    Entry("packets", "EMM and EMM-C datagrams to a table of good events and one of rejects"),
    Entry("health", "Heartbeats and hellos to the state of devices, gaps, and alerts"),
    Entry("rollup", "Rates, sizes and latencies per topic and window"),
    Entry("objects", "The current Coaty objects"),
    Entry("compact", "Small files of a table to large ones; old ones removed"),
    Entry("replay", "From the lake back into the mesh"),
    Entry("audit", "Lake against log: what is missing"),
)


def find(name: str) -> Entry:
    for entry in CATALOGUE:
        if entry.name == name:
            return entry
    known = [entry.name for entry in CATALOGUE]
    raise UsageError(f"no pipeline is called '{name}'{suggestion(name, known)} (there are: {', '.join(known)})")
