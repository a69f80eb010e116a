"""Our client with our server in memory: random operations, with checkers that watch both while they run.

Messages keep their order, memory stays within bounds, and when everything is released, everything arrives.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.http2.support import RESPONSE, SERVER, TRAILERS, End, Heard
from weft.wire.http2 import CLIENT_SETTINGS, Http2Settings

SIZES: Final = 8 * (0, 1, 11, 250, 4090, 4091, 4092, 40_000) + (200_000,)
STREAMS_MAX: Final = 8
MESSAGE_BYTES_MAX: Final = 100_000  # so the largest are refused
ASSEMBLY_BYTES_MAX: Final = 150_000
OPERATIONS: Final = (
    ["end there", "end back", "reset there", "reset back", "drop there", "drop back"]
    + 4 * ["full there", "full back", "hold there", "hold back", "release there", "release back"]
    + 8 * ["open"] + 24 * ["send there", "send back"] + 16 * ["carry there", "carry back"]
)  # fmt: skip
WINDOWS: Final = ((65_535, 65_535), (65_535, 1 << 20), (100_000, 80_000))  # at first, and once welcome


def settings_of(base: Http2Settings, windows: tuple[int, int]) -> Http2Settings:
    return replace(
        base,
        first_window_bytes=windows[0],
        stream_window_bytes=windows[1],
        connection_window_bytes=100_000,
        message_bytes_max=MESSAGE_BYTES_MAX,
        assembly_bytes_max=ASSEMBLY_BYTES_MAX,
    )


class Sent:
    """What was sent on a stream in one direction, and what became of it."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.is_cut = False  # reset or dropped: what arrives is a beginning

    def check(self, heard: Heard | None, is_done: bool) -> None:
        got = [] if heard is None else heard.messages
        assert got == self.messages[: len(got)], "in order, whole, and none twice"
        if is_done and not self.is_cut:
            assert heard is not None and got == self.messages


class Pair:
    def __init__(self, windows: tuple[tuple[int, int], tuple[int, int]], chance: random.Random) -> None:
        self.client = End(True, settings_of(CLIENT_SETTINGS, windows[0]))
        self.server = End(False, settings_of(SERVER, windows[1]))
        self.there: dict[int, Sent] = {}
        self.back: dict[int, Sent] = {}
        self._on_way = {"there": b"", "back": b""}
        self._is_full = {"there": False, "back": False}
        self._chance = chance

    def _side(self, way: str) -> End:
        return self.client if way == "there" else self.server

    def step(self, operation: str, which: int, how: int) -> None:
        what, _, way = operation.partition(" ")
        if what == "open":
            if len(self.client.http2.streams) < STREAMS_MAX:
                number = self.client.open().stream.id
                self.there[number], self.back[number] = Sent(), Sent()
        elif what == "carry":
            self.carry(way, 1 << how % 18)
        elif what == "full":
            self._is_full[way] = not self._is_full[way]
            self._side(way).http2.transport_full(self._is_full[way])
        elif numbers := list(self.client.http2.streams):
            self._step_of_stream(what, way, numbers[which % len(numbers)], how)
        self.check()

    def _step_of_stream(self, what: str, way: str, number: int, how: int) -> None:
        heard = self._side(way).heard.get(number)
        if heard is None:
            return  # the request is on its way
        stream, sent = heard.stream, (self.there if way == "there" else self.back)[number]
        if way == "back" and "answered" not in heard.__dict__ and what in ("send", "end"):
            heard.__dict__["answered"] = True
            stream.send_headers(RESPONSE)
        match what:
            case "send" if stream.is_sending:
                content = self._chance.randbytes(SIZES[how % len(SIZES)])
                stream.send(content)
                sent.messages.append(content)
                if len(content) > MESSAGE_BYTES_MAX:
                    self._cut(number)  # it will be refused
            case "end":
                stream.end(() if way == "there" else TRAILERS)
                if way == "back" and not stream.ended_by_peer:
                    self.there[number].is_cut = True  # an answer ends the request
            case "reset":
                stream.reset()
                self._cut(number)
            case "drop" if stream.waiting_bytes:
                stream.drop_waiting()
                self._cut(number)
            case "hold":
                stream.hold()
            case "release":
                stream.release()
            case _:
                pass

    def _cut(self, number: int) -> None:
        self.there[number].is_cut = self.back[number].is_cut = True

    def carry(self, way: str, size: int) -> bool:
        source, target = (self.client, self.server) if way == "there" else (self.server, self.client)
        whole = self._on_way[way] + source.sent()
        self._on_way[way] = whole[size:]
        target.receive(whole[:size])
        return bool(whole)

    def finish(self) -> None:
        """Release everything, end everything."""
        for way in ("there", "back"):
            self._side(way).http2.transport_full(False)
        for _ in range(2):  # requests that come now may be held as well
            self._release_all()
            self._carry_all()
        for way in ("there", "back"):
            for number in self.there:
                self._step_of_stream("end", way, number, 0)
            self._carry_all()

    def _release_all(self) -> None:
        for heard in (*self.client.heard.values(), *self.server.heard.values()):
            heard.stream.release()

    def _carry_all(self) -> None:
        for _ in range(200_000):
            size = self._chance.choice((3, 1000, 1 << 20))
            there, back = self.carry("there", size), self.carry("back", size)
            if not there and not back:
                return
        raise AssertionError("they never come to an end")

    # --- checkers ------------------------------------------------------------------------------------------------

    def check(self, is_done: bool = False) -> None:
        for number in self.there:
            there, back = self.server.heard.get(number), self.client.heard.get(number)
            for heard in (there, back):
                if heard is not None and not {"refused", "crowded"}.isdisjoint(heard.kinds):
                    self._cut(number)  # too much was incomplete at a time
            self.there[number].check(there, is_done)
            self.back[number].check(back, is_done)
        for end in (self.client, self.server):
            check_memory(end)
            if is_done:
                assert end.http2.streams == {}
                assert end.http2.assembling_bytes == 0


def check_memory(end: End) -> None:
    """What is counted is what is there, and it is within bounds."""
    http2 = end.http2
    streams = list(http2.streams.values())
    partial = sum(stream._partial.tell() for stream in streams if stream._partial is not None)
    assert http2.assembling_bytes == partial <= ASSEMBLY_BYTES_MAX
    assert 0 <= http2.window.room_bytes <= http2.settings.connection_window_bytes
    for stream in streams:
        assert stream.waiting_bytes == sum(map(len, stream._pending))
        assert 0 <= stream.unacked_bytes <= stream.window_bytes
        if not stream.waiting_bytes:
            assert stream._trailers is None or stream.ended_by_us, "nothing is in the way of its end"
    assert http2.out.waiting_bytes == sum(stream.waiting_bytes for stream in streams)
    for sender in http2.out.turns.values():
        assert sender.id in http2.streams, "no turns for streams that are over"
    held = sum(stream.held_bytes for stream in streams if stream.held)
    assert end.http2.is_client or held <= http2.settings.connection_window_bytes


steps = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 255), st.integers(0, 255)), max_size=60)


@settings(max_examples=300)
@given(
    windows=st.tuples(st.sampled_from(WINDOWS), st.sampled_from(WINDOWS)),
    steps=steps,
    chance=st.randoms(use_true_random=False),
)
def test_random_operations(
    windows: tuple[tuple[int, int], tuple[int, int]], steps: list[tuple[str, int, int]], chance: random.Random
) -> None:
    pair = Pair(windows, chance)
    for step in steps:
        pair.step(*step)
    pair.finish()
    pair.check(is_done=True)


@pytest.mark.parametrize("seed", range(6))
def test_long_runs(seed: int) -> None:
    """With more steps than hypothesis would try."""
    chance = random.Random(seed)  # noqa: S311  a seed is the point
    pair = Pair((chance.choice(WINDOWS), chance.choice(WINDOWS)), chance)
    for number in range(4000):
        pair.step(chance.choice(OPERATIONS), chance.randrange(256), chance.randrange(256))
        if number % 200 == 199:
            pair.finish()
            pair.check(is_done=True)
            pair.there.clear()
            pair.back.clear()
    for end in (pair.client, pair.server):
        assert sum(len(heard.messages) for heard in end.heard.values()) > 200, "the steps are worth something"
