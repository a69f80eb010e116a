"""One connection to a peer, from its hello on: what is sent, what comes in, and how it ends.

A link has an event stream. It also has a control stream, unless the peer knows only the four messages of the protocol's
document. Each stream has its own reader and writer. When one of these ends, all of them end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from weft.core.messages import FramesDropped, PeerEffect, SendPlain, SendPlainAck
from weft.errors import PeerError, UsageError
from weft.limits import KIB
from weft.membership import Heartbeat, Message
from weft.model import NodeId
from weft.security.key_exchange import KeyTalk
from weft.transport.peers.byte_streams import ByteStream, LinkBroken
from weft.transport.peers.key_messages import key_message
from weft.transport.peers.member_messages import member_message
from weft.transport.peers.messages import LINK_READ_BYTES, message_of
from weft.transport.peers.outbox import ControlQueue, PeerOutbox
from weft.transport.peers.receiving import Receiver
from weft.transport.peers.settings import LinkSettings
from weft.transport.peers.signed_states import StateNotary
from weft.transport.peers.watching import LinkListener, LinkObserver, LinkView, Traffic
from weft.wire.mesh.features import Feature, Hello, agreed_features
from weft.wire.mesh.frames import write_peer_message
from weft.wire.mesh.peerlink_pb2 import PeerClosing, PeerMessage

LINK_TELL_S_MIN: Final = 0.1  # between two reports of dropped frames: each report makes the core send them again
LINK_FAREWELL_TIMEOUT_S: Final = 1.0  # for the message that says why a link is given up; then we close without it
LINK_WRITE_BYTES: Final = 256 * KIB  # of frames written before other tasks have their turn: 4 ms if batches are small


# A peer that lacks one of these gets the four messages of the document, and nothing else.
FULL: Final = frozenset({Feature.BATCHES, Feature.POSITIONS, Feature.GOSSIP})


async def _lingering(loop: Callable[[], Awaitable[None]]) -> None:
    """Run a loop of the control stream. When that stream ends, wait a moment before the link ends: the peer may have
    closed both streams, and its last frames may still come on the other one."""
    try:
        await loop()
    except LinkBroken:
        await asyncio.sleep(LINK_FAREWELL_TIMEOUT_S)
        raise


class PeerConnection:
    """Made when the peer has said hello. Call ``run`` once both sides have agreed on this link."""

    def __init__(
        self,
        ours: Hello,
        theirs: Hello,
        address: str,
        dialled_by_us: bool,
        events: ByteStream,
        settings: LinkSettings,
        listener: LinkListener,
        observer: LinkObserver,
        notary: StateNotary,
    ) -> None:
        self.hello = theirs
        self.peer: NodeId = theirs.node_id
        self.incarnation = theirs.incarnation
        self.life = theirs.life
        self.address = address
        self.dialled_by_us = dialled_by_us
        self.features = agreed_features(ours.features, theirs.features)
        self.plain = not self.features >= FULL
        if self.plain:
            self.features -= FULL
        self.control: ByteStream | None = None  # set when it is open
        self.up_s = 0.0  # when the link was agreed on
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[PeerError] = self._loop.create_future()
        self.committed: asyncio.Future[None] = self._loop.create_future()  # done when its control stream is open
        self.done = asyncio.Event()  # set when none of its tasks is running any longer
        self._events = events
        self._settings = settings
        self._listener = listener
        self._observer = observer
        self._receiver = Receiver(
            self.peer,
            self.incarnation,
            self.plain,
            Feature.KEYS in self.features,
            Feature.PAST in self.features,
            settings.max_message_bytes,
            listener,
            self.ended.done,
            observer,
            notary,
        )
        self._outbox = PeerOutbox(self.peer, settings)
        self._control_queue = ControlQueue()
        self._something = asyncio.Event()  # there is something to send
        self._something_to_control = asyncio.Event()
        self._control_written = asyncio.Event()  # everything was written
        self._control_written.set()
        self._farewell: PeerClosing | None = None
        self._expiry: asyncio.TimerHandle | None = None  # drops what has waited for room too long
        self._telling: asyncio.TimerHandle | None = None  # reports dropped frames
        self._last_moment: asyncio.TimerHandle | None = None  # ends the link when the peer's certificate expires
        self._told_s = float("-inf")
        self._drops_told = 0
        self._traffic = Traffic()

    # --- sending -------------------------------------------------------------------------------------------------

    def send(self, effect: PeerEffect) -> None:
        if self._farewell is not None or self.ended.done():
            return  # the log keeps it
        try:
            self._outbox.put(effect, self._loop.time())
        except PeerError as error:
            self.end(error)
            return
        self._something.set()
        self._watch_data()

    def send_member(self, message: Message) -> None:
        if self._farewell is not None or self.ended.done():
            return
        if isinstance(message, Heartbeat):
            self._outbox.put_heartbeat(message, self._loop.time())
            self._something.set()
        elif not self.plain:
            self._put_control(message)

    def send_keys(self, talk: KeyTalk) -> None:
        if self._farewell is None and not self.ended.done() and not self.plain and Feature.KEYS in self.features:
            self._put_control(talk)

    def _put_control(self, message: Message | KeyTalk) -> None:
        self._control_queue.put(message)
        self._control_written.clear()
        self._something_to_control.set()

    def _watch_data(self) -> None:
        """Make sure that nothing waits for too long, and that the core is told of dropped frames (PL-02)."""
        data = self._outbox.data
        if self.ended.done():
            return
        if self._expiry is None and (deadline_s := data.get_timer()) is not None:
            self._expiry = self._loop.call_at(deadline_s, self._expire)
        if self._telling is None and data.dropped:
            # Do not report too often: after each report the core sends everything again, and the peer is still slow.
            pause_s = max(self._settings.send_timeout_s, LINK_TELL_S_MIN)
            self._telling = self._loop.call_at(max(self._loop.time(), self._told_s + pause_s), self._tell_dropped)

    def _expire(self) -> None:
        self._expiry = None
        self._outbox.data.expire(self._loop.time())
        self._watch_data()

    def _tell_dropped(self) -> None:
        """Report everything that was dropped since the last report."""
        self._telling = None
        self._told_s = self._loop.time()
        data = self._outbox.data
        self._observer.dropped(self.peer, data.drops - self._drops_told)
        self._drops_told = data.drops
        data.tell()
        self._listener.received(FramesDropped(self.peer))

    # --- running -------------------------------------------------------------------------------------------------

    async def run(self) -> PeerError:
        """Run until it ends; return why."""
        loops = [self._read(self._events, self._receiver.take_event_frame), self._write_events()]
        if self.control is not None:
            loops.append(_lingering(partial(self._read, self.control, self._receiver.take_control_frame)))
            loops.append(_lingering(partial(self._write_control, self.control)))
        tasks = [asyncio.create_task(loop) for loop in loops]
        for task in tasks:
            task.add_done_callback(self._on_loop_done)
        try:
            error = await asyncio.shield(self.ended)
            if self.dialled_by_us and not isinstance(error, LinkBroken):
                await self._say_farewell(str(error), tasks[1])
            return error
        finally:
            self.end(LinkBroken("the stream was cancelled"))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def end(self, error: PeerError) -> None:
        """End the link now. If it is called several times, the first reason counts."""
        if self.ended.done():
            return
        self.ended.set_result(error)
        for timer in (self._expiry, self._telling, self._last_moment):
            if timer is not None:
                timer.cancel()

    def end_in(self, seconds: float, error: PeerError) -> None:
        """End the link after this time, whatever happens. Call this only once."""
        self._last_moment = self._loop.call_later(max(0.0, seconds), self.end, error)

    def finish(self, reason: str, leaving: bool) -> None:
        """Accept nothing more, send what waits, say goodbye, and end."""
        self._farewell = PeerClosing(reason=reason, leaving=leaving)
        self._something.set()

    def _on_loop_done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self.end(LinkBroken("the stream was cancelled"))
            return
        error = task.exception()
        if error is None:
            self.end(LinkBroken("closed by this node"))
        elif isinstance(error, PeerError):
            self.end(error)
        else:
            # This is a bug of ours and not the peer's fault: it must not go unnoticed.
            self._loop.call_exception_handler(
                {"message": f"handling a frame of {self.peer} failed", "exception": error, "task": task}
            )
            self.end(LinkBroken(f"internal error: {error!r}"))

    async def _say_farewell(self, reason: str, writer: asyncio.Task[None]) -> None:
        """Tell the peer why its link is dropped, if it takes the time to listen. (If the peer dialled, gRPC's status
        says it.)"""
        self._outbox.clear()
        self.finish(reason, leaving=False)
        await asyncio.wait([writer], timeout=LINK_FAREWELL_TIMEOUT_S)

    async def _read(self, stream: ByteStream, take: Callable[[bytes], Awaitable[None] | None]) -> None:
        unyielded_bytes = 0
        while True:
            frame = await stream.read()
            if self.ended.done():
                return  # the link has ended, so late frames are ignored
            self._traffic.received(len(frame))
            self._observer.received(self.peer, len(frame))
            taking = take(frame)
            if taking is not None:
                await taking
            unyielded_bytes += len(frame)
            if unyielded_bytes >= LINK_READ_BYTES:
                unyielded_bytes = 0
                await asyncio.sleep(0)

    async def _write_events(self) -> None:
        written = 0  # bytes, since other tasks had their turn
        while True:
            portion = self._outbox.take()
            if portion is not None:
                written += await self._write(self._events, self._message_of(portion.what), portion.since_s)
                if written >= LINK_WRITE_BYTES:
                    written = 0
                    await asyncio.sleep(0)
            elif self._farewell is not None:
                if self._farewell.leaving and self.control is not None:
                    await self._control_written.wait()  # it says that we leave; after Closing, the peer reads no more
                if Feature.CLOSING in self.features:
                    await self._write(self._events, PeerMessage(closing=self._farewell), self._loop.time())
                await self._events.finish()
                return
            else:
                self._something.clear()
                await self._something.wait()

    def _message_of(self, what: PeerEffect | Heartbeat) -> PeerMessage:
        if isinstance(what, Heartbeat):
            return member_message(what)
        fits = isinstance(what, SendPlain | SendPlainAck) == self.plain
        assert fits, f"a plain peer gets plain messages only, and nobody else does: {type(what).__name__}"
        return message_of(what)

    async def _write_control(self, stream: ByteStream) -> None:
        while True:
            message = self._control_queue.take()
            if message is None:
                self._control_written.set()
                self._something_to_control.clear()
                await self._something_to_control.wait()
            else:
                features = self.features
                said = key_message(message) if isinstance(message, KeyTalk) else member_message(message, features)
                await self._write(stream, said, self._loop.time())

    async def _write(self, stream: ByteStream, message: PeerMessage, since_s: float) -> int:
        """Return the size of the frame."""
        compressed = self._settings.compression and Feature.ZSTD in self.features
        frame = write_peer_message(message, compressed=compressed)
        if len(frame) > self._settings.max_message_bytes:
            raise UsageError("a frame to a peer is too large", size=len(frame), limit=self._settings.max_message_bytes)
        await stream.write(frame)
        latency_s = self._loop.time() - since_s
        self._traffic.sent(len(frame), latency_s)
        self._observer.sent(self.peer, len(frame), latency_s)
        return len(frame)

    # --- seen from outside ---------------------------------------------------------------------------------------

    def view(self) -> LinkView:
        traffic = self._traffic
        return LinkView(
            peer=self.peer,
            address=self.address,
            connected=True,
            dialled_by_us=self.dialled_by_us,
            plain=self.plain,
            features=self.features,
            since_s=self.up_s,
            queue_frames=len(self._outbox) + len(self._control_queue),
            queue_bytes=self._outbox.data.bytes,
            drops=self._outbox.data.drops + self._control_queue.drops,
            messages_sent=traffic.messages_sent,
            messages_received=traffic.messages_received,
            bytes_sent=traffic.bytes_sent,
            bytes_received=traffic.bytes_received,
            send_latency_s_p50=traffic.latency_s(0.5),
            send_latency_s_p95=traffic.latency_s(0.95),
        )
