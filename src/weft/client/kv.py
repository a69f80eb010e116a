"""Buckets of keys and values: ``client.kv("settings")``.

Every node holds every bucket, so any node answers. A value written through a node can be read there at once; other
nodes have it a moment later, and ``get(key, at_least=revision)`` waits for it. Of two writes of one key, the later
revision counts, everywhere (docs/kv.md).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

from google.protobuf.message import Message

from weft.client.admin import pages_of
from weft.client.errors import (
    BadNode,
    Busy,
    DiskFull,
    NodeShuttingDown,
    PublishInDoubt,
    Unavailable,
    error_of_call,
    is_retryable,
    parsed_untrusted,
)
from weft.client.nodes import Nodes
from weft.errors import UsageError, WeftError
from weft.model import Pattern, parse_node_id, parse_pattern
from weft.model.key_value import (
    HISTORY,
    HISTORY_MAX,
    TIME_MAX,
    Revision,
    check_ttl,
    check_value,
    parse_bucket,
    parse_key,
    parse_revision,
)
from weft.transport.grpc.channel import Unreachable
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.rpc import RpcError

R = TypeVar("R", bound=Message)
MESH: Final = "/weft.mesh.v1.Mesh/"
WATCH_TRIES_MAX: Final = 10  # without any progress; then the watcher decides


class Absent(Enum):
    """Used instead of a revision: only if the key has no value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
Expected = Revision | str | Literal[Absent.ABSENT]
State = Literal["put", "deleted", "expired"]


@dataclass(frozen=True, slots=True)
class KvEntry:
    """One write of a key. ``state`` says what it means now; only a ``put`` has a value."""

    bucket: str
    key: str
    state: State
    revision: Revision
    value: bytes
    author: str
    expires: datetime | None

    @property
    def written(self) -> datetime:
        """When it was written, by the hybrid logical clock of its node."""
        return datetime.fromtimestamp(self.revision.time_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class BucketInfo:
    bucket: str
    keys: int
    owner: str  # the only node that takes writes; empty: all nodes do
    history: int


class Bucket:
    """See ``Client.kv``."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.name: Final = parse_bucket(name)
        self._nodes = nodes

    # --- reading ---------------------------------------------------------------------------------------------------

    async def get(self, key: str, *, at_least: Revision | str | None = None) -> KvEntry | None:
        """Get the value of a key; None if it has none. ``at_least``: wait until the node has this revision of the
        key."""
        wanted = "" if at_least is None else str(_revision(at_least))
        request = pb.KvGetRequest(bucket=self.name, key=parse_key(key), at_least=wanted)
        reply = await self._nodes.call(f"{MESH}KvGet", request, pb.KvGetReply)
        return _entry_untrusted(self.name, reply.item) if reply.HasField("item") else None

    async def keys(self, pattern: str = ">") -> list[str]:
        """List the keys that have a value, in order."""
        return [item.key for item in await self._items(pattern, without_values=True)]

    async def entries(self, pattern: str = ">") -> list[KvEntry]:
        """List these keys with their values."""
        return [_entry_untrusted(self.name, item) for item in await self._items(pattern, without_values=False)]

    async def _items(self, pattern: str, *, without_values: bool) -> list[pb.KvItem]:
        request = pb.KvListRequest(bucket=self.name, pattern=parse_pattern(pattern), without_values=without_values)
        found: list[pb.KvItem] = []
        node = ""
        while True:
            reply = await self._nodes.call(f"{MESH}KvList", request, pb.KvListReply)
            if found and reply.node_id != node:  # another node: what it has does not fit what came before
                found.clear()
                request.token, node = b"", ""
                continue
            node = reply.node_id
            found.extend(reply.items)
            if not reply.next_page:
                return found
            if reply.next_page == request.token:
                raise BadNode("the node gives the same page again", bucket=self.name)
            request.token = reply.next_page

    async def history(self, key: str) -> list[KvEntry]:
        """List the last writes of a key, the latest first, including deletions."""
        request = pb.KvHistoryRequest(bucket=self.name, key=parse_key(key))
        replies = await pages_of(self._nodes, f"{MESH}KvHistory", request, pb.KvHistoryReply)
        return [_entry_untrusted(self.name, item) for reply in replies for item in reply.items]

    def watch(self, pattern: str = ">", *, snapshot: bool = True) -> KvWatch:
        """Iterate over changes as they come, and first over all existing keys."""
        return KvWatch(self._nodes, self.name, parse_pattern(pattern), snapshot)

    # --- writing ---------------------------------------------------------------------------------------------------

    async def put(
        self,
        key: str,
        value: bytes | str,
        *,
        ttl: float | None = None,
        if_revision: Expected | None = None,
        copies: int = 0,
    ) -> Revision:
        """Write a value; durable when this returns. ``ttl``: seconds until it expires.

        ``if_revision``: write only if the key is at this revision, or ABSENT. This works for buckets with an owner, at
        that node.
        """
        data = value.encode() if isinstance(value, str) else bytes(value)
        check_value(key, data)
        if ttl is not None:
            check_ttl(ttl)
        request = pb.KvWriteRequest(bucket=self.name, key=parse_key(key), value=data, ttl_s=ttl or 0.0, copies=copies)
        return await self._write(request, if_revision)

    async def delete(self, key: str, *, if_revision: Expected | None = None, copies: int = 0) -> Revision:
        """Delete the value of a key. Durable when this returns."""
        request = pb.KvWriteRequest(bucket=self.name, key=parse_key(key), deletes=True, copies=copies)
        return await self._write(request, if_revision)

    async def configure(self, *, owner: str = "", history: int = HISTORY, force: bool = False) -> None:
        """Set or remove the bucket's owner, and say how many revisions it keeps. Needs the right to administer.

        A bucket with an owner is configured at that node; ``force`` is for an owner that is lost.
        """
        if not 1 <= history <= HISTORY_MAX:
            raise UsageError("a history has at least one revision", history=history, limit=HISTORY_MAX)
        owner = parse_node_id(owner) if owner else ""
        request = pb.KvConfigureRequest(bucket=self.name, owner=owner, history=history, force=force)
        await self._once("KvConfigure", request, pb.KvConfigureReply)

    async def _write(self, request: pb.KvWriteRequest, if_revision: Expected | None) -> Revision:
        if if_revision is not None:
            request.if_revision = "" if if_revision is ABSENT else str(_revision(if_revision))
        reply = await self._once("KvWrite", request, pb.KvWriteReply)
        return _revision_untrusted(reply.time, reply.node)

    async def _once(self, method: str, request: Message, reply_type: type[R]) -> R:
        """A node that refuses, or cannot be reached, has done nothing, so the next one is asked. A node that was asked
        and did not answer may have done it."""
        attempts = self._nodes.attempts(method.lower(), self._nodes.backoff(), self._nodes.last_good)
        last: WeftError | None = None
        for _ in range(max(len(self._nodes.book.all()), 1) + 1):
            address = await attempts.next(last)
            try:
                await self._nodes.channel(address).connect()
            except Unreachable as error:
                last = Unavailable(error.what, node=address)
                continue
            try:
                reply = await self._nodes.call_one(
                    address, f"{MESH}{method}", request, reply_type, self._nodes.options.call_timeout_s
                )
            except (Busy, NodeShuttingDown, DiskFull) as error:
                last = error
                continue
            except Unavailable as error:
                what = f"a node was asked to write and did not answer: {error.what}"
                raise PublishInDoubt(what, node=address, bucket=self.name) from None
            self._nodes.last_good = address
            return reply
        raise last or Unavailable("no node answers")


class KvWatch:
    """Changes of a bucket. If a key changes faster than its changes are read, only the last one is seen. When a node is
    lost, another one is asked; changes that were seen do not come again."""

    def __init__(self, nodes: Nodes, bucket: str, pattern: Pattern, snapshot: bool) -> None:
        self._nodes = nodes
        self._bucket = bucket
        self._pattern = pattern
        self._snapshot = snapshot
        self._seen: dict[str, tuple[Revision, State]] = {}
        self._is_opened = False
        self._changes = self._all()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> KvEntry:
        while (change := await anext(self._changes)) is None:
            self._is_opened = True
        return change

    async def opened(self) -> None:
        """Wait until a node reports changes: from then on, every write is seen."""
        if not self._is_opened:
            assert await anext(self._changes) is None, "that comes first"
            self._is_opened = True

    async def close(self) -> None:
        await self._changes.aclose()

    async def __aenter__(self) -> Self:
        await self.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _all(self) -> AsyncGenerator[KvEntry | None, None]:
        """Yield changes, and None whenever a node has accepted the watch."""
        backoff = self._nodes.backoff()
        attempts = self._nodes.attempts("watch", backoff, self._nodes.last_good)
        reason: WeftError | None = None
        tries = 0
        is_again = False  # then what was missed is asked for, whatever the caller first wanted
        while True:
            address = await attempts.next(reason)
            try:
                async for entry in self._from_node(address, snapshot=self._snapshot or is_again, gone=is_again):
                    is_again, tries = True, 0
                    backoff.succeeded()
                    if entry is None or self._is_new(entry):
                        yield entry
                reason = Unavailable("the node ended the watch", node=address)
            except WeftError as error:
                if not is_retryable(error):
                    raise
                reason = error
            tries += 1
            if tries > WATCH_TRIES_MAX:
                raise reason

    def _is_new(self, entry: KvEntry) -> bool:
        """Whether it is later than what was reported of the key, or is the same and has expired since."""
        seen = self._seen.get(entry.key)
        now = (entry.revision, entry.state)
        if seen is not None and (entry.revision < seen[0] or now == seen):
            return False
        self._seen[entry.key] = now
        return True

    async def _from_node(self, address: str, *, snapshot: bool, gone: bool) -> AsyncIterator[KvEntry | None]:
        """Yield None first: from here on, the node reports changes."""
        request = pb.KvWatchRequest(bucket=self._bucket, pattern=self._pattern, snapshot=snapshot, gone=gone)
        call = await self._nodes.open(address, f"{MESH}KvWatch")
        try:
            call.write_nowait(request.SerializeToString())
            call.end()
            is_first = True
            while (data := await call.read()) is not None:
                reply = parsed_untrusted(pb.KvWatchReply, data, address)
                if is_first:
                    is_first, self._nodes.last_good = False, address
                    yield None
                for item in reply.items:
                    yield _entry_untrusted(self._bucket, item)
        except RpcError as error:
            raise error_of_call(error, node=address) from None
        finally:
            call.cancel()


async def buckets_of(nodes: Nodes) -> list[BucketInfo]:
    replies = await pages_of(nodes, f"{MESH}KvBuckets", pb.KvBucketsRequest(), pb.KvBucketsReply)
    return [BucketInfo(each.bucket, each.keys, each.owner, each.history) for reply in replies for each in reply.buckets]


STATES: Final[dict[int, State]] = {pb.KV_PUT: "put", pb.KV_DELETED: "deleted", pb.KV_EXPIRED: "expired"}


def _revision(given: Revision | str) -> Revision:
    return given if isinstance(given, Revision) else parse_revision(given)


def _revision_untrusted(time: int, node: str) -> Revision:
    try:
        if 0 < time <= TIME_MAX:
            return Revision(time, parse_node_id(node))
    except UsageError:
        pass
    raise BadNode("the node gives no proper revision", time=time, node=node[:64])


def _entry_untrusted(bucket: str, item: pb.KvItem) -> KvEntry:
    revision = _revision_untrusted(item.time, item.node)
    try:
        expires = datetime.fromtimestamp(item.expires_ms / 1000, UTC) if item.expires_ms else None
    except (OverflowError, ValueError, OSError):
        raise BadNode("the node gives a time that no calendar has", expires_ms=item.expires_ms) from None
    state = STATES.get(item.state, "put")
    return KvEntry(bucket, item.key, state, revision, bytes(item.value), item.author, expires)
