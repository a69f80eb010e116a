"""Whole connections, recorded from the reference and replayed: our side draws the same entropy again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases, identity, split_at
from weft.wire.libp2p import floodsub, identify, mplex, peer_id, secio
from weft.wire.libp2p.framing import VarintFrames
from weft.wire.libp2p.mplex import Mplex, StreamId
from weft.wire.libp2p.multistream import Dialler, Listener, Selected

LIVELINESS = "/coaty/liveliness/1.0.0"
CONNECTIONS = cases("connections")
NAMES = [f"{case['our_role']} with {case['key_type']}" for case in CONNECTIONS]


class Replay:
    """Our side of a recorded connection, fed with what the reference sent."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.dials = case["our_role"] == "dialler"
        pieces = [bytes.fromhex(piece) for piece in case["entropy"]]
        expected = peer_id.from_text_untrusted(case["remote"]) if self.dials else None
        self._handshake = secio.Handshake(
            identity(case["our_key_type"]), expected, lambda size: self._draw(pieces, size)
        )
        self._steps = [self._select_secio, self._shake_hands, self._select_mplex]
        self._negotiation = self._negotiator(secio.PROTOCOL)
        self.secured: secio.Secured | None = None
        self.sent = self._negotiation.data_to_send()
        self.plaintext = b""

    @staticmethod
    def _draw(pieces: list[bytes], size: int) -> bytes:
        piece = pieces.pop(0)
        assert len(piece) == size, "entropy is drawn as it was in the recording"
        return piece

    def _negotiator(self, protocol: str) -> Dialler | Listener:
        return Dialler([protocol]) if self.dials else Listener([protocol])

    def receive_data(self, data: bytes) -> None:
        if self.secured is not None:
            for plaintext in self.secured.channel.receive_data(data):
                self._on_plaintext(plaintext)
        elif data:
            self._steps[0](data)

    def _select_secio(self, data: bytes) -> None:
        outcome = self._negotiation.receive_data(data)
        self.sent += self._negotiation.data_to_send()
        if isinstance(outcome, Selected):
            self._steps.pop(0)
            self.sent += self._handshake.data_to_send()
            self.receive_data(outcome.rest)

    def _shake_hands(self, data: bytes) -> None:
        self.secured = self._handshake.receive_data(data)
        self.sent += self._handshake.data_to_send()
        if self.secured is not None:
            self._steps.pop(0)
            self._negotiation = self._negotiator(mplex.PROTOCOL)
            self.sent += self.secured.channel.send(self._negotiation.data_to_send())
            for plaintext in self.secured.received:
                self._on_plaintext(plaintext)

    def _on_plaintext(self, plaintext: bytes) -> None:
        self.plaintext += plaintext
        if self._steps:
            self._select_mplex(plaintext)

    def _select_mplex(self, data: bytes) -> None:
        outcome = self._negotiation.receive_data(data)
        assert self.secured is not None, "the previous step"
        self.sent += self.secured.channel.send(self._negotiation.data_to_send())
        if outcome is not None:
            self._steps.pop(0)


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", CONNECTIONS, ids=NAMES)
def test_replayed_to_the_last_byte(case: dict[str, Any]) -> None:
    replay = Replay(case)
    replay.receive_data(bytes.fromhex(case["received"]))
    assert replay.secured is not None
    assert str(replay.secured.remote.peer) == case["remote"]
    assert replay.secured.suite == secio.Suite(*case["suite"])
    assert replay.sent.hex() == case["sent_before_mplex"]
    assert replay.plaintext.hex() == case["plaintext"]


@pytest.mark.req("COA-01")
@settings(max_examples=40)
@given(case=st.sampled_from(CONNECTIONS), cuts=st.lists(st.integers(0, 5000), max_size=30))
def test_replayed_in_any_pieces(case: dict[str, Any], cuts: list[int]) -> None:
    replay = Replay(case)
    for piece in split_at(bytes.fromhex(case["received"]), cuts):
        replay.receive_data(piece)
    assert replay.sent.hex() == case["sent_before_mplex"]
    assert replay.plaintext.hex() == case["plaintext"]


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", CONNECTIONS, ids=NAMES)
def test_streams_of_the_reference_make_sense(case: dict[str, Any]) -> None:
    """What the reference opened by itself, read through all layers."""
    connection = Listener([mplex.PROTOCOL]).receive_data(bytes.fromhex(case["plaintext"]))
    assert connection is not None
    streams: dict[StreamId, bytes] = {}
    for event in Mplex().receive_data(connection.rest):
        if isinstance(event, mplex.StreamData):
            streams[event.stream] = streams.get(event.stream, b"") + event.data

    spoken = {}
    for data in streams.values():
        selected = Listener([identify.PROTOCOL, floodsub.PROTOCOL, LIVELINESS]).receive_data(data)
        if selected is not None:
            spoken[selected.protocol] = selected.rest
    assert set(spoken) == {identify.PROTOCOL, floodsub.PROTOCOL} | ({LIVELINESS} if is_dialled(case) else set())
    assert spoken[identify.PROTOCOL] == b""  # opened to be answered

    frames = VarintFrames()
    frames.feed(spoken[floodsub.PROTOCOL])
    messages: list[floodsub.Message] = []
    while (body := frames.next_frame_untrusted(1 << 22)) is not None:
        messages += floodsub.decode_untrusted(body).messages
    (message,) = messages
    assert str(message.origin) == case["remote"]
    assert message.data.decode() == "Größe"
    assert floodsub.distrust(message) is None


def is_dialled(case: dict[str, Any]) -> bool:
    """The reference announces its last will only to peers it has dialled itself."""
    return bool(case["our_role"] == "listener")
