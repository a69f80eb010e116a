"""The schemas of topics: ``client.schemas``.

Every node has all schemas. If several patterns with a schema match a topic, the most specific one counts
(docs/schemas.md). Setting and removing schemas takes a key with the right to administer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from weft.client.admin import pages_of
from weft.client.errors import BadNode
from weft.client.nodes import Nodes
from weft.client.received import Received
from weft.client.sampling import Sampling
from weft.errors import UsageError
from weft.model import Pattern, parse_pattern, parse_topic
from weft.schema.errors import Fault
from weft.schema.kinds import parse_schema
from weft.schema.values import Kind, Schema
from weft.wire.mesh import mesh_pb2 as pb

if TYPE_CHECKING:
    from weft.schema.inference import Inferred

MESH: Final = "/weft.mesh.v1.Mesh/"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SchemaKind = Literal["json", "ddl", "avro"]
SchemaMode = Literal["off", "warn", "reject"]
SchemaRule = Literal["backward", "forward", "full", "none"]


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version as it was set."""

    number: int
    kind: str
    text: str
    at: datetime
    by: str

    def parse(self) -> Schema:
        """Parse this version into columns and checks. BadSchema if this version of weft cannot read it."""
        try:
            kind = Kind(self.kind)
        except ValueError:
            raise UsageError("this version of weft does not know that kind of schema", kind=self.kind[:64]) from None
        return parse_schema(kind, self.text)


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """The schema of the topics of one pattern. ``versions``: the latest comes last; the others may be left out."""

    pattern: Pattern
    mode: str
    compatibility: str
    versions: tuple[SchemaVersion, ...]

    @property
    def latest(self) -> SchemaVersion:
        return self.versions[-1]

    @property
    def version(self) -> int:
        return self.latest.number


@dataclass(frozen=True, slots=True)
class CheckedEvents:
    """The result of a check. ``checked``: how many of the events found have a topic with a schema."""

    events: int
    checked: int
    faults: tuple[tuple[Received, Fault], ...]
    unreached: Mapping[str, str]  # addresses of nodes that could not be asked, with the reasons


class Schemas:
    """See ``Client.schemas``."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def list(self) -> list[TopicSchema]:
        """List the schemas of the topics that this client may read or publish, ordered by pattern; the latest version
        of each."""
        replies = await pages_of(self._nodes, f"{MESH}Schemas", pb.SchemasRequest(), pb.SchemasReply)
        return [_read_untrusted(each) for reply in replies for each in reply.schemas]

    async def get(self, pattern: str) -> TopicSchema:
        """Return the schema that was set for exactly this pattern, with all versions. UsageError if there is none."""
        found = await self._ask(pb.SchemasRequest(pattern=parse_pattern(pattern)))
        if not found:
            raise BadNode("the node does not tell what it was asked for", pattern=pattern)
        return found[0]

    async def of_topic(self, topic: str) -> TopicSchema | None:
        """Return the schema that counts for a topic, with all versions; None if it has none."""
        found = await self._ask(pb.SchemasRequest(topic=parse_topic(topic)))
        return found[0] if found else None

    async def _ask(self, request: pb.SchemasRequest) -> tuple[TopicSchema, ...]:
        reply = await self._nodes.call(f"{MESH}Schemas", request, pb.SchemasReply)
        return tuple(_read_untrusted(each) for each in reply.schemas)

    async def set(
        self,
        pattern: str,
        schema: str | Schema | None = None,
        *,
        kind: SchemaKind | None = None,
        mode: SchemaMode | None = None,
        compatibility: SchemaRule | None = None,
        dry_run: bool = False,
    ) -> TopicSchema:
        """Set the schema of the matching topics. If it is text, it needs its ``kind``.

        A text that differs from the latest is a new version, which must be compatible (IncompatibleSchema). Arguments
        that are not given change nothing; for a new pattern, mode is "warn" and compatibility "backward".

        ``dry_run``: nothing is set; the result is checked and returned.
        """
        if isinstance(schema, str):
            if kind is None:
                raise UsageError("a schema as text needs its kind: json, ddl or avro")
            schema = SchemaVersion(0, kind, schema, EPOCH, "").parse()
        request = pb.PutSchemaRequest(
            pattern=parse_pattern(pattern),
            kind="" if schema is None else schema.kind,
            text="" if schema is None else schema.text,
            mode=mode or "",
            compatibility=compatibility or "",
            dry_run=dry_run,
        )
        reply = await self._nodes.call(f"{MESH}PutSchema", request, pb.PutSchemaReply)
        return _read_untrusted(reply.schema)

    async def check(self, pattern: str, schema: Schema | None = None, *, last: int = 1000) -> CheckedEvents:
        """Find out which of the last events of topics, anywhere in the mesh, break a schema. Nothing is set. Without
        ``schema``, each topic's own schema is used, and topics without one are left out."""
        from weft.schema.kinds import find_faults

        events, unreached = await self._sample(pattern, last)
        by_topic: dict[str, list[Received]] = {}
        for event in events:
            by_topic.setdefault(event.topic, []).append(event)
        checked, faults = 0, []
        for topic, some in by_topic.items():
            known, others = (schema, ()) if schema is not None else await self._schemas_of(topic)
            if known is None:
                continue
            checked += len(some)
            found = find_faults(known, [each.payload for each in some], others)
            faults += [(some[at], fault) for at, fault in found.items()]
        return CheckedEvents(len(events), checked, tuple(faults), unreached)

    async def _schemas_of(self, topic: str) -> tuple[Schema | None, tuple[Schema, ...]]:
        """The schema that counts, and earlier versions, because Avro payloads may be written with those."""
        found = await self.of_topic(topic)
        if found is None:
            return None, ()
        return found.latest.parse(), tuple(each.parse() for each in found.versions[:-1])

    async def infer(self, pattern: str, *, last: int = 1000) -> Inferred:
        """Infer a schema from the last events of topics. BadSchema if none of them is a JSON object."""
        from weft.schema.inference import infer

        events, _ = await self._sample(pattern, last)
        return infer(event.payload for event in events)

    async def _sample(self, pattern: str, last: int) -> tuple[Sequence[Received], dict[str, str]]:
        sampling = Sampling(self._nodes)
        return await sampling.last(parse_pattern(pattern), last), sampling.unreached

    async def remove(self, pattern: str) -> None:
        """Remove a schema with all versions. UsageError if there is none."""
        request = pb.RemoveSchemaRequest(pattern=parse_pattern(pattern))
        await self._nodes.call(f"{MESH}RemoveSchema", request, pb.RemoveSchemaReply)


def _read_untrusted(found: pb.TopicSchema) -> TopicSchema:
    try:
        pattern = parse_pattern(found.pattern)
        versions = tuple(
            SchemaVersion(each.number, each.kind, each.text, datetime.fromtimestamp(each.at_us / 1e6, UTC), each.by)
            for each in found.versions
        )
    except (UsageError, ValueError, OverflowError, OSError) as error:
        raise BadNode(f"the node tells of a schema that cannot be: {error}") from None
    if not versions:
        raise BadNode("the node tells of a schema without a version", pattern=pattern)
    return TopicSchema(pattern, found.mode, found.compatibility, versions)
