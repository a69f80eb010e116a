"""A peer made of nothing but Weft's sans-I/O pieces and a blocking socket, to talk to the reference with.

It records every byte of the connection, so that a conversation can be kept as a vector and replayed.
"""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from weft.wire.libp2p import floodsub, identify, keys, mplex, multiaddr, secio, varint
from weft.wire.libp2p.framing import VarintFrames
from weft.wire.libp2p.mplex import Mplex, StreamId
from weft.wire.libp2p.multiaddr import Multiaddr
from weft.wire.libp2p.multistream import Dialler, Listener, Selected
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.private_keys import PrivateKey

LIVELINESS = "/coaty/liveliness/1.0.0"
PROTOCOLS = (identify.PROTOCOL, floodsub.PROTOCOL, LIVELINESS)
WAIT_S_MAX = 10.0
CHUNK_BYTES = 65536
PING_ALIVE, PING_ALIVE_ACK = 2, 3
ALL_ALGORITHMS = secio.Offer()

Entropy = Callable[[int], bytes]


def fixed_entropy(seed: str) -> Entropy:
    """The same unpredictable-looking bytes in every run."""
    numbers = count()

    def draw(size: int) -> bytes:
        return hashlib.shake_256(f"{seed} {next(numbers)}".encode()).digest(size)

    return draw


@dataclass
class Stream:
    negotiation: Dialler | Listener | None
    protocol: str = ""
    messages: list[bytes] = field(default_factory=list)
    ended: bool = False


@dataclass
class Record:
    """All bytes of one connection, as the socket saw them and as SECIO carried them."""

    received: bytearray = field(default_factory=bytearray)
    sent_before_mplex: bytearray = field(default_factory=bytearray)
    plaintexts: list[bytes] = field(default_factory=list)
    entropy: list[bytes] = field(default_factory=list)


class WirePeer:
    """One connection. ``expected`` is the peer that was dialled, None if it dialled us."""

    def __init__(
        self,
        connection: socket.socket,
        identity: PrivateKey,
        expected: PeerId | None,
        entropy: Entropy,
        listen: Multiaddr | None = None,
        offer: secio.Offer = ALL_ALGORITHMS,
    ) -> None:
        connection.settimeout(WAIT_S_MAX)
        self.record = Record()
        self.identity = identity
        self.router = floodsub.Router(identity)
        self.delivered: list[floodsub.Message] = []
        self.rpcs: list[bytes] = []
        self.streams: dict[StreamId, Stream] = {}
        self._socket = connection
        self._source = entropy
        self._listen = listen
        self._connected = False
        self._mux = Mplex()
        self._frames: dict[StreamId, VarintFrames] = {}
        self._floodsub_stream: StreamId | None = None
        self._secure(expected, offer)

    @classmethod
    def dial(
        cls, address: str, identity: PrivateKey, entropy: Entropy, offer: secio.Offer = ALL_ALGORITHMS
    ) -> WirePeer:
        target = multiaddr.parse(address)
        assert target.tcp_endpoint, f"{address} is no TCP address"
        connection = socket.create_connection(target.tcp_endpoint, WAIT_S_MAX)
        try:
            return cls(connection, identity, target.peer, entropy, offer=offer)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        self._socket.close()

    @property
    def remote(self) -> keys.PublicKey:
        return self._secured.remote

    @property
    def suite(self) -> secio.Suite:
        return self._secured.suite

    # --- connecting ----------------------------------------------------------------------------------------------

    def _secure(self, expected: PeerId | None, offer: secio.Offer) -> None:
        dialled = expected is not None
        data = self._negotiate(dialled, secio.PROTOCOL)
        handshake = secio.Handshake(self.identity, expected, self._entropy, offer)
        while True:
            secured = handshake.receive_data(data)
            self._write(handshake.data_to_send())
            if secured is not None:
                break
            data = self._read()
        self._secured = secured
        self.record.plaintexts += secured.received
        negotiator = Dialler([mplex.PROTOCOL]) if dialled else Listener([mplex.PROTOCOL])
        outcome = negotiator.receive_data(b"".join(secured.received))
        self._write_secured(negotiator.data_to_send())
        while outcome is None:
            outcome = negotiator.receive_data(self._read_secured())
            self._write_secured(negotiator.data_to_send())
        assert isinstance(outcome, Selected), "the reference speaks MPLEX"
        self._connected = True
        self._on_plaintext(outcome.rest)

    def _negotiate(self, dialled: bool, protocol: str) -> bytes:
        negotiator = Dialler([protocol]) if dialled else Listener([protocol])
        outcome = None
        while outcome is None:
            self._write(negotiator.data_to_send())
            outcome = negotiator.receive_data(self._read())
        self._write(negotiator.data_to_send())
        assert isinstance(outcome, Selected), f"the reference speaks {protocol}"
        return outcome.rest

    # --- streams -------------------------------------------------------------------------------------------------

    def open(self, protocol: str) -> StreamId:
        stream, data = self._mux.open_stream()
        negotiation = Dialler([protocol])
        self.streams[stream] = Stream(negotiation)
        self._write_secured(data + self._mux.send(stream, negotiation.data_to_send()))
        self.wait(lambda: self.streams[stream].negotiation is None)
        assert self.streams[stream].protocol == protocol, "the reference speaks it"
        return stream

    def send(self, stream: StreamId, data: bytes) -> None:
        self._write_secured(self._mux.send(stream, data))

    def close_stream(self, stream: StreamId) -> None:
        self._write_secured(self._mux.close(stream))

    def wait(self, holds: Callable[[], bool], seconds_max: float = WAIT_S_MAX) -> None:
        """Talk until ``holds``; fail if it takes too long or the connection ends."""
        deadline_s = time.monotonic() + seconds_max
        while not holds():
            assert time.monotonic() < deadline_s, f"it did not happen in {seconds_max} s"
            self._on_plaintext(self._read_secured())

    def inbound(self, protocol: str) -> list[Stream]:
        return [stream for at, stream in self.streams.items() if not at.ours and stream.protocol == protocol]

    def _on_plaintext(self, data: bytes) -> None:
        for event in self._mux.receive_data(data):
            match event:
                case mplex.StreamOpened(at):
                    self.streams[at] = Stream(Listener(PROTOCOLS))
                case mplex.StreamData(at, message):
                    self._on_message(at, self.streams[at], message)
                case mplex.StreamClosed(at) | mplex.StreamReset(at) | mplex.StreamRefused(at):
                    self.streams[at].ended = True
        self._write_secured(self._mux.data_to_send())

    def _on_message(self, at: StreamId, stream: Stream, message: bytes) -> None:
        if stream.negotiation is not None:
            outcome = stream.negotiation.receive_data(message)
            answer = stream.negotiation.data_to_send()
            if answer:
                self.send(at, answer)
            if outcome is None:
                return
            stream.negotiation = None
            if not isinstance(outcome, Selected):
                stream.ended = True
                return
            stream.protocol = outcome.protocol
            self._on_negotiated(at, stream)
            message = outcome.rest
        if message:
            stream.messages.append(message)
            self._on_application_data(at, stream, message)

    def _on_negotiated(self, at: StreamId, stream: Stream) -> None:
        if not at.ours and stream.protocol == identify.PROTOCOL:
            self.send(at, varint.prefixed(self._identify().encode()))
            self.close_stream(at)

    def _on_application_data(self, at: StreamId, stream: Stream, message: bytes) -> None:
        if at.ours:
            return
        if stream.protocol == floodsub.PROTOCOL:
            frames = self._frames.setdefault(at, VarintFrames())
            frames.feed(message)
            while (body := frames.next_frame_untrusted(1 << 22)) is not None:
                self.rpcs.append(body)
                self._perform(self.router.receive_rpc(self.remote.peer, body, time.monotonic()))
        elif stream.protocol == LIVELINESS and json.loads(message)["op"] == PING_ALIVE:
            self.send(at, json.dumps({"op": PING_ALIVE_ACK}, separators=(",", ":")).encode())

    # --- protocols -----------------------------------------------------------------------------------------------

    def _identify(self) -> identify.Identify:
        host, port = self._socket.getpeername()
        return identify.Identify(
            public_key=self.identity.public,
            listen_addrs=(self._listen,) if self._listen else (),
            protocols=PROTOCOLS,
            observed_addr=multiaddr.tcp(host, port),
            protocol_version="ipfs/0.1.0",
            agent_version="weft-test/0",
        )

    def ask_identity(self) -> bytes:
        """The reference's identify message, without its length."""
        stream = self.open(identify.PROTOCOL)
        frames = VarintFrames()
        self.wait(lambda: self.streams[stream].ended)
        frames.feed(b"".join(self.streams[stream].messages))
        body = frames.next_frame_untrusted(1 << 16)
        assert body is not None, "one whole message"
        self.close_stream(stream)
        return body

    def join_floodsub(self) -> None:
        self._floodsub_stream = self.open(floodsub.PROTOCOL)
        self._perform(self.router.peer_joined(self.remote.peer))

    def subscribe(self, topic: str) -> None:
        self._perform(self.router.subscribe(topic))

    def publish(self, topic: str, data: bytes) -> None:
        self._perform(self.router.publish(topic, data, self._entropy(8), time.monotonic()))

    def messages(self, topic: str) -> list[floodsub.Message]:
        return [message for message in self.delivered if topic in message.topics]

    def _perform(self, effects: list[floodsub.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, floodsub.Send) and self._floodsub_stream is not None:
                self.send(self._floodsub_stream, varint.prefixed(effect.body))
            elif isinstance(effect, floodsub.Deliver):
                self.delivered.append(effect.message)
            else:
                assert not isinstance(effect, floodsub.Dropped), f"the reference signs properly: {effect}"

    def _entropy(self, size: int) -> bytes:
        piece = self._source(size)
        self.record.entropy.append(piece)
        return piece

    # --- bytes ---------------------------------------------------------------------------------------------------

    def _read(self) -> bytes:
        data = self._socket.recv(CHUNK_BYTES)
        assert data, "the reference closed the connection"
        self.record.received += data
        return data

    def _write(self, data: bytes) -> None:
        if not self._connected:
            self.record.sent_before_mplex += data
        self._socket.sendall(data)

    def _read_secured(self) -> bytes:
        plaintexts = self._secured.channel.receive_data(self._read())
        self.record.plaintexts += plaintexts
        return b"".join(plaintexts)

    def _write_secured(self, data: bytes) -> None:
        self._write(self._secured.channel.send(data))


class WireListener:
    """A loopback port that the reference can dial."""

    def __init__(self, identity: PrivateKey, entropy: Entropy) -> None:
        self._identity = identity
        self._entropy = entropy
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(WAIT_S_MAX)
        host, port = self._socket.getsockname()
        self.listen_address = multiaddr.tcp(host, port)
        self.address = multiaddr.tcp(host, port, identity.peer)

    def accept(self) -> WirePeer:
        connection, _ = self._socket.accept()
        try:
            return WirePeer(connection, self._identity, None, self._entropy, self.listen_address)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        self._socket.close()
