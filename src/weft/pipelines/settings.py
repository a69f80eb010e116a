"""The settings that every pipeline has: how to reach the mesh, what to read from it, how to run.

One TOML or YAML file configures one pipeline. A pipeline adds its own sections to ``StreamingSettings`` or
``JobSettings``. ``docs/pipelines.md`` has an example file for each pipeline.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from weft.configuration import Section
from weft.errors import UsageError
from weft.limits import OFFSET_MAX
from weft.model import parse_topic
from weft.spark.options import Members
from weft.spark.selection import parse_selection

AVAILABLE_NOW: Final = "available-now"
INTERVAL: Final = re.compile(r"[1-9][0-9]{0,6} (millisecond|second|minute|hour)s?")
MASTER: Final = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+")
STORE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=//)")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _checked_by(parse: Any) -> AfterValidator:
    def check(text: str) -> str:
        try:
            parse(text)
        except UsageError as error:
            raise ValueError(str(error)) from None  # what pydantic collects
        return text

    return AfterValidator(check)


def _trigger(text: str) -> str:
    if text != AVAILABLE_NOW and not INTERVAL.fullmatch(text):
        raise ValueError(f'has to be "{AVAILABLE_NOW}" or a time like "5 seconds"')
    return text


def _master(text: str) -> str:
    """Check the master here: Spark itself reports a wrong one with a page of text, and exits."""
    if not MASTER.fullmatch(text):
        raise ValueError("has to be local[N], local[*], spark://HOST:PORT, k8s://..., yarn, or sc://HOST:PORT")
    return text


def _directory(given: object) -> object:
    """Refuse the address of a store: as a Path it would look like a directory."""
    if isinstance(given, str) and (found := STORE.match(given)):
        raise ValueError(
            f"Spark keeps its checkpoint in a directory here, not in {found[0]}//: without a jar it has no way to an "
            "object store. Tables may be there. archive goes on behind what its table has if a checkpoint is lost"
        )
    return given


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("has to be letters, digits, '-', '_' and '.', at most 64")
    return text


SelectionText = Annotated[str, _checked_by(partial(parse_selection, "subscribe"))]
TopicText = Annotated[str, _checked_by(parse_topic)]
Trigger = Annotated[str, AfterValidator(_trigger)]
Name = Annotated[str, AfterValidator(_name)]


class MeshSection(Section):
    """How to reach the mesh. If nothing is set, the current context is used (`weft context`)."""

    nodes: tuple[str, ...] = Field(default=(), description="Nodes to read from and write to, `host:port`.")
    context: str | None = Field(default=None, description="A context, instead of nodes and files.")
    token: str | None = Field(
        default=None, description="Where the API key is: `file:PATH` or `env:NAME`. Never the key itself."
    )
    tls_root: Path | None = Field(default=None, description="The mesh's CA certificate.")
    tls_certificate: Path | None = Field(default=None, description="This client's certificate.")
    tls_key: Path | None = Field(default=None, description="Its key.")
    insecure: bool = Field(default=False, description="Plain text, for a node that was started so.")

    def options(self) -> dict[str, str]:
        """As options of ``format("weft")``."""
        named = {
            "nodes": ",".join(self.nodes) or None,
            "context": self.context,
            "token": self.token,
            "tlsRoot": self.tls_root,
            "tlsCertificate": self.tls_certificate,
            "tlsKey": self.tls_key,
            "insecure": "true" if self.insecure else None,
        }
        return _given(named)


class SourceSection(Section):
    """What to read from the mesh."""

    subscribe: SelectionText = Field(
        description="Topics and patterns, with commas between them; `!` before one leaves out what it selects."
    )
    members: Members = Field(
        default=Members.REACHABLE,
        description="Whose events: of `all` members of the mesh, of those `reachable`, or of the `named` nodes.",
    )
    starting: Literal["earliest", "latest"] = Field(default="earliest", description="Where the first run begins.")
    starting_timestamp: datetime | None = Field(default=None, description="Begin at this time instead.")
    max_events_per_trigger: int | None = Field(default=None, ge=1, le=OFFSET_MAX)
    max_bytes_per_trigger: int | None = Field(default=None, ge=1, le=OFFSET_MAX)
    min_partitions: int | None = Field(default=None, ge=1, le=100_000)
    fail_on_data_loss: bool = Field(
        default=True, description="Stop if retention took events that were not read yet; else go on without them."
    )
    group: str | None = Field(
        default=None, description="The group under which `weft lag` shows the progress; unset: the run's name."
    )

    def options(self, group: str) -> dict[str, str]:
        """As options of ``format("weft")``; ``group`` is the default group."""
        timestamp = self.starting_timestamp
        named = {
            "subscribe": self.subscribe,
            "members": self.members.value,
            "startingOffsets": None if timestamp else self.starting,
            "startingTimestamp": None if timestamp is None else timestamp.isoformat(),
            "maxEventsPerTrigger": self.max_events_per_trigger,
            "maxBytesPerTrigger": self.max_bytes_per_trigger,
            "minPartitions": self.min_partitions,
            "failOnDataLoss": "true" if self.fail_on_data_loss else "false",
            "group": self.group or group,
        }
        return _given(named)


class SparkSection(Section):
    """The Spark session. Under ``spark-submit``, its own settings count instead."""

    master: Annotated[str, AfterValidator(_master)] | None = Field(
        default=None, description="Any Spark master, or `sc://host:port` for Spark Connect; unset: local[*]."
    )
    conf: dict[str, str] = Field(default={}, description="Spark's own settings, by their names.")


class RunSection(Section):
    """How a streaming pipeline runs."""

    checkpoint: Annotated[Path, BeforeValidator(_directory)] = Field(
        description="The directory of Spark's progress. Keep it as long as the tables."
    )
    trigger: Trigger = Field(
        default="5 seconds", description=f'How often to look for more, or "{AVAILABLE_NOW}": all there is, then end.'
    )

    def trigger_arguments(self) -> dict[str, Any]:
        """For ``DataStreamWriter.trigger``."""
        return {"availableNow": True} if self.trigger == AVAILABLE_NOW else {"processingTime": self.trigger}


class PipelineSettings(Section):
    """The settings of all pipelines."""

    name: Name | None = Field(default=None, description="What this run is called by `weft pipeline status`.")
    report: bool = Field(
        default=True, description="Tell the mesh how the run is doing, in the bucket `weft-pipelines`: for its console."
    )
    mesh: MeshSection = MeshSection()
    spark: SparkSection = SparkSection()

    def run_name(self, pipeline: str) -> str:
        """The name of the run; only one run of a name is alive at a time."""
        return self.name or pipeline

    def uses_mesh(self) -> bool:
        """Whether the pipeline talks to nodes. A pipeline with a source does, if the source is set."""
        return getattr(self, "source", None) is not None

    def reads(self) -> str | None:
        """The topics and patterns that the pipeline reads from the mesh; None if it reads nothing there."""
        source: SourceSection | None = getattr(self, "source", None)
        return None if source is None else source.subscribe


class StreamingSettings(PipelineSettings):
    """Pipelines that run until they are stopped, or until they have read all there is."""

    run: RunSection


class JobSettings(PipelineSettings):
    """Pipelines that do one thing and end."""


def _given(named: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in named.items() if value is not None}
