"""All links of one node: it dials and accepts them, keeps at most one per peer, and dials again when one breaks
(PL-01)."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from itertools import count
from typing import Any, Final

from weft.core.messages import PeerEffect
from weft.errors import PeerError
from weft.membership import Chance, Message
from weft.model import NodeId
from weft.security import CertificateRefused, Fault
from weft.security.key_exchange import KeyTalk
from weft.security.notary import Notary
from weft.transport.backoff import Backoff
from weft.transport.peers.byte_streams import (
    AcceptedCall,
    AcceptedStream,
    ByteStream,
    DialledStream,
    LinkBroken,
    begin_call,
)
from weft.transport.peers.dialler import ClosedHere, Dialler, DuplicateLink, TwinRefused, status_of
from weft.transport.peers.election import Election
from weft.transport.peers.gate import PeerGate, Proof
from weft.transport.peers.greetings import Greetings
from weft.transport.peers.introducing import Introductions, read_hello, within, write_hello
from weft.transport.peers.link import LINK_FAREWELL_TIMEOUT_S, PeerConnection
from weft.transport.peers.settings import LinkSettings
from weft.transport.peers.signed_states import StateNotary
from weft.transport.peers.watching import LinkListener, LinkObserver, LinkView
from weft.wire.mesh.features import Hello, OwnId
from weft.wire.rpc import RpcError, metadata_value

LINK_ACCEPTED_MAX: Final = 2048  # links that others dialled, from their hello on: twice a hub's neighbours
EVENT_STREAM: Final = "/PeerLink/EventStream"  # without a package, as in the document
CONTROL_STREAM: Final = "/PeerLink/ControlStream"

# Metadata that both streams of a dial share, so that the peer knows which belong together.
DIAL_NUMBER: Final = "weft-dial"


class PeerLinks:
    """The links of a node. ``hello`` makes the hello for every handshake. ``gate`` finds out which node is at the other
    end. ``notary`` checks signatures on what is said about other nodes; ``states`` checks signatures on what nodes say
    about themselves."""

    def __init__(
        self,
        hello: Callable[[], Hello],
        mesh: str,
        settings: LinkSettings,
        listener: LinkListener,
        chance: Chance,
        observer: LinkObserver,
        gate: PeerGate,
        notary: Notary,
        states: StateNotary,
    ) -> None:
        self._hello = hello
        self._mesh = mesh
        self._settings = settings
        self._listener = listener
        self._chance = chance
        self._observer = observer
        self._gate = gate
        self._notary = states
        self._running = False
        self._links: dict[PeerConnection, None] = {}  # all links from their hello on, in the order of the hellos
        self._up: dict[NodeId, PeerConnection] = {}
        self._uncommitted: dict[tuple[NodeId, str], PeerConnection] = {}  # no control stream yet
        self._accepted = 0
        self._greetings = Greetings()
        self._introductions = Introductions(hello, mesh, notary, listener, observer, _loop_s)
        self._diallers: dict[str, Dialler] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._dial_numbers = count(1)

    @cached_property
    def _election(self) -> Election[PeerConnection]:
        return Election(self._hello().node_id)

    # --- what the node asks for ----------------------------------------------------------------------------------

    def handlers(self) -> Mapping[str, Callable[[AcceptedCall], Awaitable[None]]]:
        """The handlers that serve peers, for the node's gRPC server."""
        return {EVENT_STREAM: self._on_event_stream, CONTROL_STREAM: self._on_control_stream}

    async def start(self) -> None:
        self._running = True
        for dialler in self._diallers.values():
            self._begin(dialler)

    async def stop(self, reason: str, leaving: bool = False) -> None:
        """Send what waits, within the time in the settings, say goodbye and close."""
        self._running = False
        for link in self._links:
            if self._up.get(link.peer) is link:
                link.finish(reason, leaving)
            else:
                link.end(ClosedHere("this node is closing"))
        await self._wait_done(self._settings.drain_timeout_s)
        for link in self._links:
            link.end(LinkBroken("closed by this node, with frames left to send"))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._wait_done(LINK_FAREWELL_TIMEOUT_S)

    async def _wait_done(self, timeout_s: float) -> None:
        waits = [asyncio.create_task(link.done.wait()) for link in self._links]
        if waits:
            _, late = await asyncio.wait(waits, timeout=timeout_s)
            for wait in late:
                wait.cancel()

    def dial(self, address: str) -> None:
        """Keep a link to the node at this address, until ``undial``."""
        if address in self._diallers:
            return
        dialler = self._diallers[address] = Dialler(address, self._new_backoff())
        if self._running:
            self._begin(dialler)

    def undial(self, address: str) -> None:
        """Stop dialling, and close the link that was dialled there."""
        dialler = self._diallers.pop(address, None)
        if dialler is None:
            return
        if dialler.replacing is not None:
            dialler.replacing.cancel()
        if dialler.link is not None:
            dialler.link.end(ClosedHere("the address is no longer to be dialled"))
        elif dialler.task is not None:
            dialler.task.cancel()

    def renew(self) -> None:
        """We have a new certificate: make all links that we dialled again, and close the old connections after that."""
        for dialler in self._diallers.values():
            self._begin_replacing(dialler)

    def disconnect(self, peer: NodeId, reason: str) -> None:
        """Close the link to a peer; the side that dialled dials again. For silent peers (PL-03)."""
        link = self._up.get(peer)
        if link is not None:
            link.end(ClosedHere(reason))

    def send(self, effect: PeerEffect) -> None:
        """Never blocks. Effects for a peer without a link are dropped: the log keeps the events."""
        link = self._up.get(effect.peer)
        if link is not None:
            link.send(effect)

    def send_member(self, peer: NodeId, message: Message) -> None:
        """Send a message of membership: a heartbeat on the event stream, anything else on the control stream."""
        link = self._up.get(peer)
        if link is not None:
            link.send_member(message)

    def send_keys(self, peer: NodeId, talk: KeyTalk) -> None:
        """Send news about API keys on the control stream. Without a link they are dropped: a new link begins with a
        comparison."""
        link = self._up.get(peer)
        if link is not None:
            link.send_keys(talk)

    def links(self) -> list[LinkView]:
        """The links that stand, then the addresses that have none."""
        views = [link.view() for link in self._up.values()]
        return views + [
            LinkView(dialler.node_id, dialler.address, connected=False, dialled_by_us=True, trouble=dialler.trouble)
            for dialler in self._diallers.values()
            if dialler.node_id not in self._up
        ]

    # --- one link's life -----------------------------------------------------------------------------------------

    def _open(
        self,
        ours: Hello,
        theirs: Hello,
        address: str,
        stream: AcceptedStream | DialledStream,
        proof: Proof | None,
        replaced: PeerConnection | None = None,
    ) -> PeerConnection:
        self._refuse_twin(theirs)
        dialled_by_us = isinstance(stream, DialledStream)
        link = PeerConnection(
            ours, theirs, address, dialled_by_us, stream, self._settings, self._listener, self._observer, self._notary
        )
        if not self._election.on_hello(link, replaced):
            raise DuplicateLink("there is a link to this node already", peer=link.peer)
        self._links[link] = None
        if proof is not None:
            # A node that gets no new certificate must lose its link when its last one ends, not at its next connection.
            link.end_in(
                proof.end_s - time.time(), CertificateRefused(Fault.EXPIRED, "the peer's certificate has ended")
            )
        return link

    def _refuse_twin(self, theirs: Hello) -> None:
        """Of two nodes with one id, the one that was started earlier keeps its link: raise TwinRefused for the other
        one."""
        standing, lives = self._election.standing(theirs.node_id), self._introductions.lives
        if standing is None or standing.life is None or theirs.life is None:
            return
        lives.linked(theirs.node_id, standing.life, _loop_s())
        if lives.are_twins(theirs.node_id) and standing.life < theirs.life:
            raise TwinRefused("another node runs with this id, and was started earlier", id=theirs.node_id)

    def _stand(self, link: PeerConnection) -> None:
        """Put a link into service, because both sides agree on it. Raise DuplicateLink if there is a better one after
        all."""
        if link.ended.done():
            raise link.ended.result()
        if not self._running:
            raise ClosedHere("this node is closing")
        losers = self._election.on_commit(link)
        if losers is None:
            raise self._end(link, DuplicateLink("there is a link to this node already", peer=link.peer))
        for loser in losers:
            self._end(loser, DuplicateLink("replaced by another connection of the two nodes", peer=link.peer))
        self._up[link.peer] = link
        link.up_s = asyncio.get_running_loop().time()
        self._observer.link_up(link.peer, link.address, link.dialled_by_us, link.features)
        self._listener.link_up(link.peer, link.hello, link.plain)

    def _end(self, link: PeerConnection, error: PeerError) -> PeerError:
        """End a link, at any step. If it was reported as up, report it as down. Return why it ended."""
        link.end(error)
        error = link.ended.result()
        self._election.on_closed(link)
        if self._up.get(link.peer) is link:
            del self._up[link.peer]
            self._observer.link_down(link.peer, str(error))
            self._listener.link_down(link.peer, str(error))
            for dialler in self._diallers.values():
                dialler.unlinked.set()
        return error

    async def _run(self, link: PeerConnection) -> PeerError:
        return self._end(link, await link.run())

    def _forget(self, link: PeerConnection) -> None:
        """Forget a link whose streams are closed, or will be in a moment."""
        self._end(link, LinkBroken("the stream was cancelled"))
        self._links.pop(link, None)
        link.done.set()

    # --- dialling ------------------------------------------------------------------------------------------------

    def _new_backoff(self) -> Backoff:
        settings = self._settings
        return Backoff(settings.backoff_s_min, settings.backoff_s_max, settings.backoff_jitter, self._chance)

    def _begin(self, dialler: Dialler) -> None:
        # In an empty context: the span of the frame that named the address ends long before the link does.
        dialler.task = contextvars.Context().run(asyncio.create_task, self._keep_dialling(dialler))
        self._tasks[dialler.task] = None
        dialler.task.add_done_callback(self._on_dialler_done)

    def _on_dialler_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Whatever a peer does wrong is a PeerError. So this is a bug of ours, and must not go unnoticed.
            task.get_loop().call_exception_handler({"message": "dialling failed", "exception": error, "task": task})

    async def _keep_dialling(self, dialler: Dialler) -> None:
        while self._running and self._diallers.get(dialler.address) is dialler:
            if dialler.node_id in self._up:
                dialler.unlinked.clear()
                await dialler.unlinked.wait()
                continue
            self._observer.dialling(dialler.address, dialler.node_id)
            try:
                error = await self._dial_once(dialler)
            except PeerError as trouble:
                error = trouble
                if isinstance(trouble, CertificateRefused):
                    self._observer.link_refused(dialler.address, trouble)
            dialler.trouble = str(error)
            if dialler.node_id not in self._up and self._running:
                delay_s = dialler.backoff.next_s()
                self._observer.dial_failed(dialler.address, dialler.trouble, delay_s)
                await asyncio.sleep(delay_s)

    def _begin_replacing(self, dialler: Dialler) -> None:
        if self._running and dialler.link is not None and dialler.replacing is None:
            dialler.replacing = contextvars.Context().run(asyncio.create_task, self._replace(dialler, dialler.link))
            self._tasks[dialler.replacing] = None
            dialler.replacing.add_done_callback(self._on_dialler_done)

    async def _replace(self, dialler: Dialler, old: PeerConnection) -> None:
        """Dial until a new link has replaced this one, and serve the new one. Stop if this one has ended before."""
        backoff = self._new_backoff()
        try:
            while dialler.link is old and not old.ended.done():
                try:
                    await self._dial_once(dialler, old)
                except PeerError as trouble:
                    delay_s = backoff.next_s()
                    self._observer.dial_failed(dialler.address, str(trouble), delay_s)
                    await asyncio.sleep(delay_s)
        finally:
            if dialler.replacing is asyncio.current_task():
                dialler.replacing = None

    async def _dial_once(self, dialler: Dialler, replaced: PeerConnection | None = None) -> PeerError:
        """Make a link and serve it until it ends, then return why; raise PeerError if there was none."""
        async with within(self._settings.dial_timeout_s, "dialling"):
            channel, proof = await self._gate.dial(dialler.address)
        link = renewal = None
        try:
            ours = self._introductions.to(dialler.node_id if proof is None else NodeId(proof.name), None)
            metadata = ((DIAL_NUMBER, f"{ours.incarnation}.{next(self._dial_numbers)}"),)
            stream = DialledStream(await begin_call(channel, EVENT_STREAM, metadata))
            async with within(self._settings.dial_timeout_s, "dialling"):
                await write_hello(stream, ours)
            async with within(self._settings.handshake_timeout_s, "the handshake"):
                theirs = await self._read_hello(stream, ours, proof, dialler.address)
                dialler.node_id = theirs.node_id
                link = self._open(ours, theirs, dialler.address, stream, proof, replaced)
                if not link.plain:
                    control = DialledStream(await begin_call(channel, CONTROL_STREAM, metadata))
                    await write_hello(control, self._introductions.to(theirs.node_id, theirs))
                    await read_hello(control, ours, self._mesh)
                    link.control = control
            dialler.link = link
            self._stand(link)
            if replaced is not None:
                dialler.replacing = None  # the new link has taken over, and may be replaced in its turn
            if proof is not None:
                renewal = asyncio.get_running_loop().call_later(
                    proof.renew_in_s(time.time()), self._begin_replacing, dialler
                )
            error = await self._run(link)
            dialler.backoff.on_lived(asyncio.get_running_loop().time() - link.up_s)
            return error
        finally:
            if renewal is not None:
                renewal.cancel()
            if link is not None:
                self._forget(link)
                if dialler.link is link:
                    dialler.link = None
            channel.close()
            await channel.wait_closed()

    async def _read_hello(self, stream: ByteStream, ours: Hello, proof: Proof | None, address: str) -> Hello:
        """Read the hello of the node at the other end; raise PeerError if it is not the node that it names, or is
        ourselves."""
        try:
            theirs = await read_hello(stream, ours, self._mesh)
        except OwnId as ourselves:
            if self._introductions.meet(ourselves, proof, address) and isinstance(stream, AcceptedStream):
                await write_hello(stream, ours)  # so that the other side knows why, too
            raise
        self._introductions.hear(theirs, proof, address)
        return theirs

    # --- accepting -----------------------------------------------------------------------------------------------

    async def _on_event_stream(self, call: AcceptedCall) -> None:
        try:
            if not self._running:
                raise ClosedHere("this node is not open for links, or is closing")
            error = await self._accept(call)
        except PeerError as trouble:
            error = trouble
            self._observer.link_refused(call.peer, error)
        if not isinstance(error, LinkBroken):
            raise RpcError(status_of(error), str(error))

    async def _accept(self, call: AcceptedCall) -> PeerError:
        """Serve a link that a peer dialled until it ends, then return why; raise PeerError if there was none."""
        ours = self._hello()
        stream = AcceptedStream(call)
        link = None
        proof = self._gate.admit_untrusted(call.certificate)
        call.widen()
        try:
            async with within(self._settings.handshake_timeout_s, "the handshake"):
                with self._greetings.waiting(proof):
                    theirs = await self._read_hello(stream, ours, proof, call.peer)
                ours = self._introductions.to(theirs.node_id, theirs)
                if self._accepted >= LINK_ACCEPTED_MAX:
                    raise ClosedHere("too many links that others dialled", limit=LINK_ACCEPTED_MAX)
                try:
                    link = self._open(ours, theirs, call.peer, stream, proof)
                except TwinRefused:
                    await write_hello(stream, ours)  # without the other twin's signature in it, none would stop
                    raise
                self._accepted += 1
                if link.plain:
                    self._stand(link)
                    await write_hello(stream, ours)
                else:
                    await self._await_control(link, stream, ours, (link.peer, _dial_number(call)))
            return await self._run(link)
        finally:
            if link is not None:
                self._accepted -= 1
                self._forget(link)

    async def _await_control(
        self, link: PeerConnection, stream: AcceptedStream, ours: Hello, key: tuple[NodeId, str]
    ) -> None:
        self._uncommitted[key] = link
        try:
            await write_hello(stream, ours)
            waits: list[asyncio.Future[Any]] = [link.ended, link.committed]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._uncommitted.get(key) is link:
                del self._uncommitted[key]

    async def _on_control_stream(self, call: AcceptedCall) -> None:
        stream = AcceptedStream(call)
        ours = self._hello()
        link = None
        try:
            proof = self._gate.admit_untrusted(call.certificate)
            call.widen()
            async with within(self._settings.handshake_timeout_s, "the handshake"):
                with self._greetings.waiting(proof):
                    theirs = await self._read_hello(stream, ours, proof, call.peer)
                link = self._uncommitted.pop((theirs.node_id, _dial_number(call)), None)
                if link is None:
                    raise ClosedHere("a control stream without its event stream", peer=theirs.node_id)
                link.control = stream
                self._stand(link)
                await write_hello(stream, ours)
            link.committed.set_result(None)
            await link.done.wait()
        except PeerError as error:
            self._observer.link_refused(call.peer, error)
            raise RpcError(status_of(error), str(error)) from None
        finally:
            if link is not None:
                self._end(link, LinkBroken("the control stream has ended"))


def _loop_s() -> float:
    return asyncio.get_running_loop().time()


def _dial_number(call: AcceptedCall) -> str:
    return str(metadata_value(call.metadata, DIAL_NUMBER) or "")
