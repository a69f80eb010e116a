"""Peers that do not keep to the rules, on raw sockets and with halves of the protocol: bounded, named, gone."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

import pytest

from tests.transport.libp2p.hosts import Peer, eventually, new_identity, peer
from weft.doors import Doorkeeper, DoorLimits
from weft.errors import PeerError
from weft.limits import MPLEX_MESSAGE_BYTES_MAX
from weft.transport.libp2p import connection as room
from weft.transport.libp2p.host import _Asked
from weft.transport.libp2p.pubsub import FLOODSUB_RPCS_AT_ONCE, FLOODSUB_STREAMS_MAX
from weft.wire.libp2p import BadFrame, PeerId, floodsub, identify, varint
from weft.wire.libp2p.mplex import (
    MPLEX_STREAMS_MAX,
    Event,
    Flag,
    Mplex,
    StreamData,
    StreamId,
    StreamOpened,
    StreamReset,
)
from weft.wire.libp2p.multistream import encode_line
from weft.wire.libp2p.secio.handshake import SECIO_HANDSHAKE_BYTES_MAX
from weft.wire.libp2p.upgrade import Upgrade, Upgraded


async def hung_up(one: Peer, data: bytes) -> None:
    """Send this as the first bytes of a connection, and see that it is ended."""
    endpoint = one.address.tcp_endpoint
    assert endpoint is not None
    reader, writer = await asyncio.open_connection(*endpoint)
    writer.write(data)
    await ended(reader, writer)


async def ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(20):
        with suppress(ConnectionError):
            while await reader.read(65536):
                pass
    await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


GREETING = encode_line("/multistream/1.0.0")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X" * 100 + b"\r\n\r\n",
        b"\xff" * 64,
        encode_line("/multistream/9.0.0"),
        GREETING + encode_line("/noise") * 40,
        GREETING + encode_line("/secio/1.0.0") + (SECIO_HANDSHAKE_BYTES_MAX + 1).to_bytes(4, "big"),
        GREETING + encode_line("/secio/1.0.0") + b"\xff\xff\xff\xff",
        GREETING + encode_line("/secio/1.0.0") + (8).to_bytes(4, "big") + b"rubbish!",
    ],
    ids=["http", "no varint", "another version", "proposals without end", "oversized", "4 GiB", "no proposal"],
)
async def test_a_stranger_that_speaks_something_else_is_hung_up_on(data: bytes) -> None:
    async with peer() as one, peer() as friend:
        await hung_up(one, data)
        await friend.host.dial(one.address)  # and others are served as before
        await eventually(lambda: one.host.neighbours)


async def test_a_stranger_that_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LIBP2P_UPGRADE_S", 0.05)

    async with peer() as one:
        await hung_up(one, b"")


class RawPeer:
    """One that has shaken hands properly and then writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: Upgraded) -> None:
        self.reader, self.writer, self.up = reader, writer, up
        self.mux: Mplex = up.muxer
        self._early = up.rest

    @classmethod
    async def dial(cls, one: Peer) -> RawPeer:
        endpoint = one.address.tcp_endpoint
        assert endpoint is not None
        reader, writer = await asyncio.open_connection(*endpoint)
        upgrade = Upgrade(new_identity(), one.host.peer, secrets.token_bytes)
        upgraded = None
        while upgraded is None:
            writer.write(upgrade.data_to_send())
            upgraded = upgrade.receive_data(await reader.read(65536))
        writer.write(upgrade.data_to_send())
        return cls(reader, writer, upgraded)

    def write(self, plaintext: bytes) -> None:
        self.writer.write(self.up.channel.send(plaintext))

    async def events(self) -> list[Event]:
        """What happens next."""
        early, self._early = self._early, b""
        if early:
            return self.mux.receive_data(early)
        data = await self.reader.read(65536)
        assert data, "hung up"
        return self.mux.receive_data(b"".join(self.up.channel.receive_data(data)))

    async def over(self) -> None:
        await ended(self.reader, self.writer)


@pytest.mark.parametrize(
    "plaintext",
    [b"\x07\x00", b"\x00\xff\xff\xff\x7f", b"\x00\x010\x00\x010", b"\xff" * 11, b"\x0a\x00" * 4097],
    ids=["unknown flag", "oversized message", "the same stream twice", "no varint", "thousands at once"],
)
async def test_bad_frames_end_the_connection(plaintext: bytes) -> None:
    async with peer() as one:
        raw = await RawPeer.dial(one)
        (connection,) = one.host._all
        raw.write(plaintext)
        await raw.over()
        await connection.over
        assert isinstance(connection.reason, BadFrame)


async def test_a_frame_that_was_tampered_with_ends_the_connection() -> None:
    async with peer() as one:
        raw = await RawPeer.dial(one)
        frame = bytearray(raw.up.channel.send(raw.mux.open_stream()[1]))
        frame[-1] ^= 1
        raw.writer.write(bytes(frame))
        await raw.over()


async def test_half_open_streams_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LIBP2P_NEGOTIATION_S", 6.0)  # time to agree behind all the others, on a busy machine too

    async with peer() as one:
        raw = await RawPeer.dial(one)
        count = MPLEX_STREAMS_MAX - 1  # one is for being asked who it is
        raw.write(b"".join(raw.mux.open_stream()[1] for _ in range(count)))
        resets = 0
        async with asyncio.timeout(60):
            while resets < count:
                for event in await raw.events():
                    resets += isinstance(event, StreamReset)
                    if isinstance(event, StreamOpened):  # it agrees to be asked, and does not answer
                        agreed = GREETING + encode_line(identify.PROTOCOL)
                        raw.write(raw.mux.send(event.stream, agreed))
        await closed(raw.writer)


async def test_who_does_not_say_who_it_is_does_not_become_a_neighbour() -> None:
    async with peer(None, "t") as one:
        raw = await RawPeer.dial(one)
        stream, opened = raw.mux.open_stream()
        raw.write(opened + raw.mux.send(stream, GREETING + encode_line(floodsub.PROTOCOL)))
        raw.writer.write_eof()
        await raw.over()
        assert not one.host.neighbours


def message(stream: StreamId, data: bytes) -> bytes:
    """As the side that opened the stream writes it, whatever became of the stream."""
    return varint.encode(stream.number << 3 | Flag.MESSAGE_INITIATOR) + varint.prefixed(data)


def reset(stream: StreamId) -> bytes:
    flag = Flag.RESET_INITIATOR if stream.ours else Flag.RESET_RECEIVER
    return varint.encode(stream.number << 3 | flag) + varint.prefixed(b"")


async def agreed_floodsub(raw: RawPeer) -> StreamId:
    """A stream for RPCs, which the other side has agreed to."""
    stream, opened = raw.mux.open_stream()
    raw.write(opened + message(stream, GREETING + encode_line(floodsub.PROTOCOL)))
    async with asyncio.timeout(20):
        while not any(isinstance(each, StreamData) and each.stream == stream for each in await raw.events()):
            pass
    return stream


async def test_a_stream_that_is_reset_in_the_same_breath_harms_nobody() -> None:
    """The answer to its first lines used to be an error of ours, which ended the connection."""

    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with peer() as one:
        raw = await RawPeer.dial(one)
        stream, opened = raw.mux.open_stream()
        raw.write(opened + message(stream, GREETING + encode_line(floodsub.PROTOCOL)) + reset(stream))
        await agreed_floodsub(raw)  # the connection is as good as before
        await closed(raw.writer)
    assert not errors


async def test_what_is_for_a_stream_that_the_peer_has_just_reset_is_dropped() -> None:
    """The host says something on its own stream because of an RPC that came together with the stream's end."""

    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with peer() as one:
        one.pubsub.on_changed = lambda peer, changes: one.pubsub.subscribe("because of that")
        raw = await RawPeer.dial(one)
        asked, told = None, None
        async with asyncio.timeout(20):
            while told is None:  # it asks who we are, then opens its own Floodsub stream
                for event in await raw.events():
                    if isinstance(event, StreamData) and identify.PROTOCOL.encode() in event.data:
                        asked = event.stream
                        answer = identify.Identify(None, (), (floodsub.PROTOCOL,), None, "", "").encode()
                        lines = GREETING + encode_line(identify.PROTOCOL)
                        raw.write(raw.mux.send(asked, lines + varint.prefixed(answer)))
                    elif isinstance(event, StreamData) and floodsub.PROTOCOL.encode() in event.data:
                        told = event.stream
                        raw.write(raw.mux.send(told, GREETING + encode_line(floodsub.PROTOCOL)))
        stream = await agreed_floodsub(raw)
        await eventually(lambda: one.host.neighbours and one.pubsub._streams)
        rpc = floodsub.Rpc(subscriptions=(floodsub.Subscription("anything", True),)).encode()
        raw.write(message(stream, varint.prefixed(rpc)) + reset(told))
        await raw.over()  # without its Floodsub stream, the connection is useless
    assert not errors


async def test_what_a_peer_wants_is_forgotten_although_it_never_said_who_it_is() -> None:
    """Every stranger could leave 4,096 topics behind, under a new name each time."""

    async with peer() as one:
        left: list[PeerId] = []
        one.pubsub.on_left = left.append
        raw = await RawPeer.dial(one)
        stream = await agreed_floodsub(raw)
        rpc = floodsub.Rpc(subscriptions=(floodsub.Subscription("a topic", True),)).encode()
        raw.write(message(stream, varint.prefixed(rpc)))
        await eventually(lambda: one.pubsub._router.peers_of("a topic"))
        await closed(raw.writer)
        await eventually(lambda: left)
        assert not one.pubsub._router.peers_of("a topic")
        assert not one.host.neighbours and not one.lost


async def test_a_peer_cannot_have_many_streams_with_half_a_message_each() -> None:
    async with peer() as one:
        raw = await RawPeer.dial(one)
        for _ in range(FLOODSUB_STREAMS_MAX):
            await agreed_floodsub(raw)
        stream, opened = raw.mux.open_stream()
        (connection,) = one.host._all
        raw.write(opened + message(stream, GREETING + encode_line(floodsub.PROTOCOL)))
        await raw.over()
        await connection.over
        assert "too many Floodsub streams" in str(connection.reason)


async def test_a_megabyte_of_empty_messages_ends_the_connection() -> None:
    async with peer() as one:
        raw = await RawPeer.dial(one)
        stream = await agreed_floodsub(raw)
        (connection,) = one.host._all
        raw.write(message(stream, bytes(FLOODSUB_RPCS_AT_ONCE)))  # as many RPCs without anything in them
        rpc = floodsub.Rpc(subscriptions=(floodsub.Subscription("a topic", True),)).encode()
        raw.write(message(stream, varint.prefixed(rpc)))
        await eventually(lambda: one.pubsub._router.peers_of("a topic"))
        raw.write(message(stream, bytes(MPLEX_MESSAGE_BYTES_MAX)))
        await raw.over()
        await connection.over
        assert "too many RPCs at once" in str(connection.reason)


@pytest.mark.req("SEC-05")
async def test_others_have_their_turns_while_much_is_taken_from_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 signatures in one RPC, and a thousand RPCs in one message, held up the loop for half a second."""
    monkeypatch.setattr(room, "LIBP2P_TURN_S", 0.0)

    def wants(topic: str, wanted: bool = True) -> bytes:
        return varint.prefixed(floodsub.Rpc(subscriptions=(floodsub.Subscription(topic, wanted),)).encode())

    async with peer() as one:
        raw = await RawPeer.dial(one)
        stream = await agreed_floodsub(raw)
        raw.write(message(stream, b"".join(wants(f"topic {number}") for number in range(50))))
        raw.write(message(stream, wants("topic 0", False) + wants("last")))
        known: list[int] = []
        async with asyncio.timeout(20):
            while not one.pubsub._router.peers_of("last"):
                await asyncio.sleep(0)
                known.append(sum(map(len, one.pubsub._router._wanted.values())))
        assert set(range(1, 50)) <= set(known), "one at a time"
        assert not one.pubsub._router.peers_of("topic 0"), "in order"
        (connection,) = one.host._all
        await closed(raw.writer)
        await connection.over
        assert connection.reason is None


async def test_a_stream_for_messages_may_follow_one_that_has_ended() -> None:
    async with peer() as one:
        raw = await RawPeer.dial(one)
        for _ in range(2 * FLOODSUB_STREAMS_MAX):
            raw.write(raw.mux.close(await agreed_floodsub(raw)))
        await closed(raw.writer)


async def test_what_is_said_behind_an_identity_is_not_kept() -> None:
    """One message of the muxer after the other, each with a thousand answers more, of which one was taken out."""

    asked = _Asked(asyncio.get_running_loop().create_future())
    answer = varint.prefixed(identify.Identify(None, (), (), None, "", "").encode())
    for _ in range(3):
        asked.on_message(answer * 1000)
    assert len(asked._frames.take_rest()) <= 1000 * len(answer)
    assert asked.answer.done()


@pytest.mark.req("SEC-04")
async def test_strangers_make_room_and_neighbours_stay() -> None:
    keeper = Doorkeeper()
    door = keeper.door("coaty", DoorLimits(2, 2, 2, 2, grace_s=0.0))
    async with peer(door=door) as one, peer() as friend, peer() as late:
        await friend.host.dial(one.address)
        await eventually(lambda: friend.host.peer in one.host.neighbours)
        endpoint = one.address.tcp_endpoint
        assert endpoint is not None
        silent = await asyncio.open_connection(*endpoint)
        await eventually(lambda: door.connections == 2)
        await late.host.dial(one.address)
        await ended(*silent)
        await eventually(lambda: one.host.neighbours.keys() == {friend.host.peer, late.host.peer})
        await hung_up(one, b"")  # there is no stranger to go for this one
        with pytest.raises(PeerError, match="too many connections to dial another one"):
            await one.host.dial_apart(friend.address)
        assert keeper.turned_away == {("coaty", "address"): 3}
    assert door.connections == 0
