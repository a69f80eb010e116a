"""The calls of ``Mesh`` about schemas of topics (LAK-02).

Setting and removing a schema takes the right to administer. A caller that may read or publish one topic of a schema may
see it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from weft.errors import UsageError
from weft.model import Pattern, Topic, parse_pattern, parse_topic
from weft.port.access import Caller
from weft.port.node import MeshNode
from weft.port.pages import read_text_token_untrusted, room_for
from weft.port.schemas import SchemaStore
from weft.schema import Kind, parse_schema
from weft.schema.compatibility import Compatibility
from weft.schema.errors import NoSchema
from weft.schema.registry import Change, Mode, TopicSchema
from weft.wire.mesh import mesh_pb2 as pb

E = TypeVar("E", bound=StrEnum)


class SchemaCalls:
    def __init__(self, node: MeshNode, store: SchemaStore) -> None:
        self._node = node
        self._store = store

    async def list(self, request: pb.SchemasRequest, caller: Caller) -> pb.SchemasReply:
        caller.check()
        reply = pb.SchemasReply(node_id=self._node.node_id)
        if request.topic:
            found = await self._of_topic(parse_topic(request.topic), caller)
            reply.schemas.extend([] if found is None else [schema_message(found)])
            return reply
        if request.pattern:
            reply.schemas.append(schema_message(await self._of_pattern(parse_pattern(request.pattern), caller)))
            return reply
        after = read_text_token_untrusted(request.page.token)
        room = room_for(request)
        for each in await self._store.list():
            if each.pattern <= after or not caller.acl.reaches(Pattern(each.pattern)):
                continue
            if room.is_full:
                reply.next_page = reply.schemas[-1].pattern.encode()
                break
            reply.schemas.append(schema_message(each, versions=1))
            room.take(reply.schemas[-1].ByteSize())
        return reply

    async def _of_topic(self, topic: Topic, caller: Caller) -> TopicSchema | None:
        """Return the schema for a caller that may read or publish this topic, whatever other topics the schema is
        for."""
        if not caller.acl.admin and not caller.acl.may_publish(topic):
            caller.check_subscribe(Pattern(topic))
        return await self._store.of_topic(topic)

    async def _of_pattern(self, pattern: Pattern, caller: Caller) -> TopicSchema:
        found = next((each for each in await self._store.list() if each.pattern == pattern), None)
        if found is None or not caller.acl.reaches(pattern):
            raise NoSchema("no schema is set for that pattern, or none that you may see", pattern=pattern)
        return found

    async def put(self, request: pb.PutSchemaRequest, caller: Caller) -> pb.PutSchemaReply:
        pattern = parse_pattern(request.pattern)
        caller.check_admin(f'set the schema of "{pattern}"')
        change = Change(
            parse_schema(_one_of(Kind, "kind", request.kind), request.text) if request.text else None,
            _one_of(Mode, "mode", request.mode) if request.mode else None,
            _one_of(Compatibility, "compatibility", request.compatibility) if request.compatibility else None,
        )
        record = await self._store.put(pattern, change, caller.who, dry_run=request.dry_run)
        return pb.PutSchemaReply(schema=schema_message(record, versions=1))

    async def remove(self, request: pb.RemoveSchemaRequest, caller: Caller) -> pb.RemoveSchemaReply:
        pattern = parse_pattern(request.pattern)
        caller.check_admin(f'remove the schema of "{pattern}"')
        await self._store.remove(pattern, caller.who)
        return pb.RemoveSchemaReply()


def _one_of(kind: type[E], name: str, text: str) -> E:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{name} is one of {', '.join(kind)}", have=text[:80]) from None


def schema_message(record: TopicSchema, versions: int = 0) -> pb.TopicSchema:
    """Encode a schema with its latest ``versions``; 0: with all versions."""
    return pb.TopicSchema(
        pattern=record.pattern,
        mode=record.mode,
        compatibility=record.compatibility,
        versions=[
            pb.SchemaVersion(number=each.number, kind=each.kind, text=each.text, at_us=each.at_us, by=each.by)
            for each in record.versions[-versions:]
        ],
    )
