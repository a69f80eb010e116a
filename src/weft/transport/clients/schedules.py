"""The calls of ``Mesh`` about schedules (CON-03).

A caller that may publish to a topic may have a schedule publish there. The schedule stops when its owner loses that
right.
"""

from __future__ import annotations

import asyncio
from typing import Final

from weft.core.schedules.cron import parse_cron
from weft.core.schedules.firing import CatchUp
from weft.errors import UsageError
from weft.model.schedules import Schedule, check_event, parse_schedule_name
from weft.port.access import Caller
from weft.port.later import NoSchedule, ScheduleStore, ScheduleView
from weft.port.node import MeshNode
from weft.port.pages import read_text_token_untrusted, room_for
from weft.port.schemas import check_one
from weft.port.topics import read_topic_untrusted
from weft.wire.mesh import mesh_pb2 as pb

LISTED_AT_ONCE: Final = 64  # schedules whose next time is looked for in one turn of the loop: a few milliseconds


class ScheduleCalls:
    def __init__(self, node: MeshNode, store: ScheduleStore) -> None:
        self._node = node
        self._store = store

    async def list(self, request: pb.SchedulesRequest, caller: Caller) -> pb.SchedulesReply:
        reply = pb.SchedulesReply(node_id=self._node.node_id)
        if request.name:
            found = await self._store.find(parse_schedule_name(request.name), _whose(caller))
            if found is None:
                raise NoSchedule("there is no schedule of that name for you", name=request.name)
            reply.schedules.append(schedule_message(found))
            return reply
        after, room = read_text_token_untrusted(request.page.token), room_for(request)
        while some := await self._store.list(_whose(caller), after, LISTED_AT_ONCE):
            for view in some:
                if room.is_full:
                    reply.next_page = after.encode()
                    return reply
                message = schedule_message(view)
                reply.schedules.append(message)
                room.take(message.ByteSize())
                after = view.name
            await asyncio.sleep(0)  # to find out when each fires next takes a while: others have their turn
        return reply

    async def put(self, request: pb.PutScheduleRequest, caller: Caller) -> pb.PutScheduleReply:
        wanted = request.schedule
        name, topic = parse_schedule_name(wanted.name), read_topic_untrusted(wanted.topic)
        caller.check_publish(topic)
        cron = parse_cron(wanted.cron, wanted.zone or "UTC")
        if wanted.catch_up not in ("", *CatchUp):
            raise UsageError("catch_up is last or none", have=wanted.catch_up[:80])
        key, headers = wanted.key if wanted.HasField("key") else None, dict(wanted.headers)
        check_event(topic, wanted.payload, key, headers)
        await check_one(self._node.checks, topic, wanted.payload)
        schedule = Schedule(
            cron=cron.text,
            topic=topic,
            payload=wanted.payload,
            owner=caller.owner,
            by=caller.who,
            since_us=self._store.now_us(),
            zone=cron.zone,
            key=key,
            headers=headers,
            catch_up=wanted.catch_up or CatchUp.LAST.value,
            paused=wanted.paused,
        )
        next_us = await self._store.put(name, schedule, _whose(caller), replace=request.replace)
        return pb.PutScheduleReply(next_us=next_us or 0)

    async def remove(self, request: pb.RemoveScheduleRequest, caller: Caller) -> pb.RemoveScheduleReply:
        await self._store.remove(parse_schedule_name(request.name), _whose(caller))
        return pb.RemoveScheduleReply()

    async def pause(self, request: pb.PauseScheduleRequest, caller: Caller) -> pb.PauseScheduleReply:
        name = parse_schedule_name(request.name)
        next_us = await self._store.pause(name, _whose(caller), caller.who, paused=request.paused)
        return pb.PauseScheduleReply(next_us=next_us or 0)


def _whose(caller: Caller) -> str | None:
    """Whose schedules a caller may see; None means everybody's."""
    caller.check()
    return None if caller.acl.admin else caller.owner


def schedule_message(view: ScheduleView) -> pb.Schedule:
    schedule, fired = view.schedule, view.fired
    return pb.Schedule(
        name=view.name,
        cron=schedule.cron,
        zone=schedule.zone,
        topic=schedule.topic,
        key=schedule.key,
        headers=schedule.headers,
        payload=schedule.payload,
        catch_up=schedule.catch_up,
        paused=schedule.paused,
        by=schedule.by,
        next_us=view.next_us or 0,
        last_us=0 if fired is None else fired.at_us,
        last_node="" if fired is None else fired.node,
        stopped=view.stopped,
    )
