"""``packets``: EMM and EMM-C datagrams into a table of good events and a table of refused ones, with reasons. (SPK-03)

Datagrams come from topics of the mesh (a payload is a datagram, the header ``source`` its sender's address) or from
captures. Each is decoded, authenticated and checked for freshness (``packet.decoding``), then compared with those of
the last 300 seconds to find replays (``packet.state``). It ends in one of two tables (``packet.tables``). See
``docs/packets.md``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from weft.configuration import Section
from weft.errors import UsageError
from weft.lake.settings import IDENTIFIER
from weft.limits import KIB, MIB, REPLAY_WINDOW_S
from weft.model import parse_pattern
from weft.pipelines import lake
from weft.pipelines.base import Streaming
from weft.pipelines.packet.captures import CapturesSection, capture_reader, read_captures
from weft.pipelines.packet.keys import KeyFiles, keys_here
from weft.pipelines.packet.marks import KEY_BYTES
from weft.pipelines.packet.replays import Window
from weft.pipelines.packet.schema import INPUT
from weft.pipelines.packet.state import PacketIntake, Packing, with_replays_marked
from weft.pipelines.packet.tables import PARTITION_BY, TwoTables
from weft.pipelines.ranges import fetched, only_ranges, read_ranges
from weft.pipelines.settings import SourceSection, StreamingSettings
from weft.security.files import private_directory, read_private, write_private
from weft.wire import emm
from weft.wire.emm.encryption import KEY_ID_BYTES as SEAL_ID_BYTES
from weft.wire.emm.fields import DEFAULT_RULES, HEADER_BYTES, UDP_PAYLOAD_BYTES_MAX
from weft.wire.emm_compact import judge as compact_judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PACKET_BUCKETS_MAX: Final = 4096  # of replay state: more than a cluster has cores, and each costs a call per batch
PACKET_EVENTS_PER_TRIGGER: Final = 1_000_000  # the default: 400 MB over all tasks, and seconds of work
PACKET_LATE_S_MAX: Final = 86_400  # what a bucket remembers beyond its window: at 1,000 packets/s, 2 GB of state a day
SEALED_MAX: Final = 256  # patterns; each name is compared with all of them
NO_KEY_ID: Final = bytes(SEAL_ID_BYTES)  # this pipeline only reads packets, it never seals one
NAME: Final = "packets"
SOURCE_HEADER: Final = "source"


class TrustSection(Section):
    """Whom to trust. Keys are in files, and Spark gets only their paths, because it logs its options."""

    file: Path | None = Field(
        default=None, description="`trust.json` or a data directory that has one, on every executor; or sent along."
    )
    seals: Path | None = Field(default=None, description="A JSON file of keys that sealed packets are opened with.")
    carried_keys: Literal["pinned", "any"] = Field(
        default="pinned", description="What a public key inside a packet is worth: it must be a known one, or `any`."
    )
    unsigned: bool = Field(default=False, description="Take packets that have neither HMAC nor signature.")
    profile: emm.Profile | None = Field(default=None, description="What packets must have: `interop-v1`.")
    packet_bytes_max: int = Field(
        default=DEFAULT_RULES.packet_bytes_max,
        ge=HEADER_BYTES,
        le=UDP_PAYLOAD_BYTES_MAX,
        description="The largest EMM packet that is taken.",
    )
    inflated_bytes_max: int = Field(
        default=DEFAULT_RULES.inflated_bytes_max,
        ge=KIB,
        le=16 * MIB,
        description="What a compressed EMM packet may come to.",
    )
    sealed: tuple[str, ...] = Field(
        default=(), max_length=SEALED_MAX, description="Patterns of names whose EMM events must be encrypted."
    )
    epochs: compact_judge.Epochs = Field(
        default=compact_judge.Epochs.CLOCK,
        description="What epochs of EMM-C count: seconds since 1970 (`clock`); or `any`thing, so they tell no age.",
    )

    def key_files(self) -> KeyFiles:
        trust, seals = (None if path is None else str(path) for path in (self.file, self.seals))
        return KeyFiles(trust, seals, emm.TrustPolicy(self.carried_keys))

    def terms(self) -> emm.Terms:
        rules = emm.Rules(self.packet_bytes_max, DEFAULT_RULES.tlvs_max, self.inflated_bytes_max, self.profile)
        sealed = tuple(emm.SealRule(parse_pattern(pattern), NO_KEY_ID) for pattern in self.sealed)
        return emm.Terms(rules, self.unsigned, sealed)

    @field_validator("sealed")
    @classmethod
    def _patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        try:
            for pattern in patterns:
                parse_pattern(pattern)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return patterns

    def compact_terms(self) -> compact_judge.Terms:
        return compact_judge.Terms(epochs=self.epochs)


class ReplaysSection(Section):
    """How replays are found."""

    buckets: int = Field(
        default=16, ge=1, le=PACKET_BUCKETS_MAX, description="Shares of the state: at least the cores that work on it."
    )
    late_s: int = Field(
        default=REPLAY_WINDOW_S,
        ge=0,
        le=PACKET_LATE_S_MAX,
        description="How far apart in time topics may be read. Packets further behind are marked `late`.",
    )


class QuarantineSection(lake.TableSection):
    """The table of refused packets."""

    identifier: str = Field(
        default="weft.quarantine", pattern=IDENTIFIER.pattern, description="Iceberg: its name in the catalog."
    )


class PacketsSettings(StreamingSettings):
    source: SourceSection | None = None
    captures: CapturesSection | None = None
    trust: TrustSection = TrustSection()
    replays: ReplaysSection = ReplaysSection()
    events: lake.TableSection
    quarantine: QuarantineSection

    @model_validator(mode="after")
    def _one_input(self) -> Self:
        if (self.source is None) == (self.captures is None):
            raise ValueError("packets come from topics ([source]) or from captures ([captures]): give one of them")
        return self


def start(spark: SparkSession, settings: PacketsSettings) -> Sequence[StreamingQuery]:
    """One query with two outputs."""
    name = settings.name or NAME
    checkpoint = private_directory(settings.run.checkpoint)
    key_files = settings.trust.key_files()
    keys_here(key_files)  # report problems with the keys now, in the driver
    query = checkpoint / "query"
    tables = TwoTables(
        settings.events.settings(PARTITION_BY),
        settings.quarantine.settings(PARTITION_BY),
        checkpoint / "decisions",
        query,
    )
    tables.prepare()
    hashing = _hashing(checkpoint / "replays.json", settings.replays.buckets)
    found, intake = _sightings(spark, settings, name)
    trust = settings.trust
    packing = Packing(
        intake, key_files, trust.terms(), bytes.fromhex(hashing.key), hashing.buckets, trust.compact_terms()
    )
    marked = with_replays_marked(found, packing, Window(late_s=settings.replays.late_s))
    writer = marked.writeStream.foreachBatch(tables).queryName(name).outputMode("append")
    writer = writer.option("checkpointLocation", str(query))
    return [writer.trigger(**settings.run.trigger_arguments()).start()]


def _sightings(spark: SparkSession, settings: PacketsSettings, name: str) -> tuple[DataFrame, PacketIntake]:
    """A stream of places where packets are, and the function that reads packets from these places in executors."""
    if settings.captures is not None:
        return read_captures(spark, settings.captures), capture_reader(settings.captures)
    assert settings.source is not None, "the settings were checked"
    source = settings.source
    if source.max_events_per_trigger is None and source.max_bytes_per_trigger is None:
        source = source.model_copy(update={"max_events_per_trigger": PACKET_EVENTS_PER_TRIGGER})
    return only_ranges(read_ranges(spark, settings.mesh.options() | source.options(name))), of_ranges


def of_ranges(ranges: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Events of the mesh as ``INPUT``."""
    return map(of_events, fetched(ranges))


def of_events(events: pa.RecordBatch) -> pa.RecordBatch:
    sources = pc.map_lookup(events.column("headers"), pa.scalar(SOURCE_HEADER), "first")
    changed = {
        "arrived": events.column("timestamp"),
        "source": sources,
        "datagram": events.column("value"),
        "problem": pa.nulls(events.num_rows, pa.string()),
    }
    columns = [changed[name] if name in changed else events.column(name) for name in INPUT.names]
    return pa.RecordBatch.from_arrays(columns, schema=INPUT)


class _Hashing(msgspec.Struct, frozen=True):
    """What must stay the same while the state is in use: a change would make the state worthless."""

    key: str
    buckets: int

    def __repr__(self) -> str:
        return f"_Hashing(***, {self.buckets})"


def _hashing(path: Path, buckets: int) -> _Hashing:
    """The values that were chosen when the checkpoint was begun."""
    data = read_private(path)
    if data is None:
        made = _Hashing(secrets.token_hex(KEY_BYTES), buckets)
        write_private(path, msgspec.json.encode(made))
        return made
    try:
        found = msgspec.json.decode(data, type=_Hashing)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is damaged: {error}; without it, begin a new checkpoint") from None
    if found.buckets != buckets:
        raise UsageError(
            "the number of buckets is fixed when a checkpoint is begun", checkpoint=found.buckets, settings=buckets
        )
    return found


PIPELINE: Final = Streaming(NAME, PacketsSettings, start)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
