"""The calls of ``Mesh`` about buckets of keys and values (CON-05).

The rights to the topic ``kv.<bucket>`` count: a caller that may subscribe to it may read the bucket, and one that may
publish to it may write the bucket. Changing a bucket's settings takes the right to administer.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Final

from weft.core.errors import TopicReserved
from weft.errors import UsageError, WeftError
from weft.limits import COPIES_MAX, KIB, MIB
from weft.model import Pattern, parse_node_id, parse_pattern
from weft.model.key_value import (
    AUTHOR_CHARS_MAX,
    HISTORY,
    HISTORY_MAX,
    BucketSettings,
    check_ttl,
    check_value,
    is_of_mesh,
    parse_bucket,
    parse_key,
    parse_revision,
    right_to,
    topic_of,
)
from weft.port.access import Access, Caller
from weft.port.held import Use
from weft.port.kv import Item, KeyValueStore, State, Write
from weft.port.node import MeshNode
from weft.port.pages import read_text_token_untrusted, room_for
from weft.transport.clients.failing import failure_of
from weft.transport.grpc.calls import ServerCall
from weft.wire.mesh import mesh_pb2 as pb

PAGE_BYTES: Final = 1 * MIB  # of values in one reply
WATCH_BYTES: Final = 256 * KIB  # of values in one message to a watcher
EVENT_BYTES: Final = 512  # what an entry costs in the log beside its value, roughly

STATES: Final = {State.PUT: pb.KV_PUT, State.DELETED: pb.KV_DELETED, State.EXPIRED: pb.KV_EXPIRED}


class KvCalls:
    """The methods that serve these calls. An error that a method raises ends its call."""

    def __init__(self, node: MeshNode, store: KeyValueStore, access: Access) -> None:
        self._access = access
        self._node = node
        self._store = store
        self._loop = asyncio.get_running_loop()

    # --- reading -------------------------------------------------------------------------------------------------

    async def get(self, request: pb.KvGetRequest, caller: Caller) -> pb.KvGetReply:
        bucket = self._readable(request.bucket, caller)
        at_least = parse_revision(request.at_least) if request.at_least else None
        item = await self._store.get(bucket, parse_key(request.key), at_least)
        return pb.KvGetReply(item=None if item is None else item_message(item), node_id=self._node.node_id)

    async def list(self, request: pb.KvListRequest, caller: Caller) -> pb.KvListReply:
        bucket = self._readable(request.bucket, caller)
        pattern = parse_pattern(request.pattern or ">")
        after = read_text_token_untrusted(request.token)
        items, last = await self._store.items(bucket, pattern, after, PAGE_BYTES)
        messages = [item_message(item, with_value=not request.without_values) for item in items]
        return pb.KvListReply(items=messages, next_page=last.encode(), node_id=self._node.node_id)

    async def history(self, request: pb.KvHistoryRequest, caller: Caller) -> pb.KvHistoryReply:
        bucket = self._readable(request.bucket, caller)
        token = read_text_token_untrusted(request.page.token)
        before = parse_revision(token) if token else None
        items, last = await self._store.history(bucket, parse_key(request.key), before, room_for(request))
        next_page = b"" if last is None else str(last).encode()
        return pb.KvHistoryReply(items=map(item_message, items), next_page=next_page, node_id=self._node.node_id)

    async def buckets(self, request: pb.KvBucketsRequest, caller: Caller) -> pb.KvBucketsReply:
        """List the buckets that the caller may read, and hide the rest."""

        def may_see(name: str) -> bool:
            return not is_of_mesh(name) and caller.may_subscribe(Pattern(right_to(name)))

        after = read_text_token_untrusted(request.page.token)
        found, last = await self._store.buckets(after, may_see, room_for(request))
        return pb.KvBucketsReply(
            buckets=[
                pb.KvBucket(bucket=each.name, keys=each.keys, owner=each.settings.owner, history=each.settings.history)
                for each in found
            ],
            next_page=last.encode(),
            node_id=self._node.node_id,
        )

    async def watch(self, request: pb.KvWatchRequest, call: ServerCall, caller: Caller) -> None:
        """Send changes to a watcher. While it does not read, one message is held for it; a key that changes meanwhile
        is sent with its latest value."""
        usage = self._node.quotas.usage(caller)
        try:
            bucket = self._readable(request.bucket, caller)
            usage.subscribe()
            try:
                await self._watch(request, bucket, call, caller)
            finally:
                usage.unsubscribed()
        except WeftError as error:
            self._node.count_refusal(error)
            raise failure_of(error) from None

    async def _watch(self, request: pb.KvWatchRequest, bucket: str, call: ServerCall, caller: Caller) -> None:
        pattern = parse_pattern(request.pattern or ">")
        watch = await self._store.watch(bucket, pattern, snapshot=request.snapshot, gone=request.gone)
        holding = self._node.held.holding(caller.who, Use.SUBSCRIBE)
        with closing(watch), closing(holding), self._access.watching(caller, watch.end):
            await call.write(pb.KvWatchReply(node_id=self._node.node_id).SerializeToString())
            while True:
                items = await watch.next(WATCH_BYTES)
                caller.check_subscribe(Pattern(right_to(bucket)))
                await holding.room()
                data = pb.KvWatchReply(items=map(item_message, items)).SerializeToString()
                holding.take(len(data))
                call.write_nowait(data)
                await call.wait_sent()
                holding.keep(0)

    def _readable(self, text: str, caller: Caller) -> str:
        bucket = _bucket_untrusted(text)
        caller.check_subscribe(Pattern(right_to(bucket)))
        return bucket

    # --- writing -------------------------------------------------------------------------------------------------

    async def write(self, request: pb.KvWriteRequest, caller: Caller) -> pb.KvWriteReply:
        bucket, key = _bucket_untrusted(request.bucket), parse_key(request.key)
        caller.check_publish(right_to(bucket))
        check_value(key, request.value)
        if request.ttl_s:
            check_ttl(request.ttl_s)
        if request.copies > COPIES_MAX:
            raise UsageError("too many copies asked for", copies=request.copies, limit=COPIES_MAX)
        size = len(request.value) + EVENT_BYTES
        usage = self._node.quotas.usage(caller)
        usage.publish(self._node.log, self._node.node_id, topic_of(bucket), 1, size, self._loop.time())
        write = Write(
            bucket,
            key,
            None if request.deletes else request.value,
            caller.who[:AUTHOR_CHARS_MAX],
            request.ttl_s or None,
            request.if_revision if request.HasField("if_revision") else None,
            request.copies,
        )
        if write.if_revision:
            parse_revision(write.if_revision)
        with closing(self._node.held.holding(caller.who, Use.PUBLISH)) as holding:
            await holding.room()
            holding.take(size)
            revision = await self._store.write(write)
        return pb.KvWriteReply(time=revision.time, node=revision.node)

    async def configure(self, request: pb.KvConfigureRequest, caller: Caller) -> pb.KvConfigureReply:
        bucket = _bucket_untrusted(request.bucket)
        caller.check_admin(f"change the settings of bucket {bucket}")
        if request.history > HISTORY_MAX:
            raise UsageError("too long a history", history=request.history, limit=HISTORY_MAX)
        owner = parse_node_id(request.owner) if request.owner else ""
        settings = BucketSettings(owner, request.history or HISTORY)
        await self._store.configure(bucket, settings, caller.who[:AUTHOR_CHARS_MAX], force=request.force)
        return pb.KvConfigureReply()


def _bucket_untrusted(text: str) -> str:
    bucket = parse_bucket(text)
    if is_of_mesh(bucket):
        raise TopicReserved("buckets whose names begin with weft. belong to the mesh", bucket=bucket)
    return bucket


def item_message(item: Item, *, with_value: bool = True) -> pb.KvItem:
    return pb.KvItem(
        key=item.key,
        state=STATES[item.state],
        time=item.revision.time,
        node=item.revision.node,
        expires_ms=item.expires_ms,
        author=item.author,
        value=item.value if with_value else b"",
    )
