"""Random conversations between one of our ends and one of ``h2``'s, carried in pieces cut anywhere.

Every message of a stream that nobody reset arrives whole, once and in order; h2 finds nothing to complain of, windows
from one byte included; and in the end neither side has a stream left.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Final

import pytest
from h2.settings import SettingCodes
from h2.windows import WindowManager
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.http2.oracle import Oracle
from tests.wire.http2.support import REQUEST, RESPONSE, TRAILERS, End

SIZES: Final = (0, 1, 4, 5, 100, 4090, 4091, 16_379, 16_380, 70_000)
WINDOWS: Final = (1, 2, 10, 1000, 65_535, 1 << 20)
FRAMES: Final = (16_384, 16_385, 1 << 20, (1 << 24) - 1)
TABLES: Final = (0, 64, 4096, 1 << 16)
STREAMS_MAX: Final = 6

OPERATIONS: Final = (
    ["we end", "they end", "we reset", "they reset"] + 3 * ["we ping", "they ping", "they set", "the transport is full"]
    + 8 * ["open", "they grant"] + 24 * ["we send", "they send"] + 16 * ["carry there", "carry back"]
)  # fmt: skip

operations = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 255), st.integers(0, 255)), max_size=60)


@pytest.fixture(autouse=True, scope="module")
def negative_windows() -> Iterator[None]:
    """h2 refuses an empty DATA frame while a window is negative. It has no bytes, and so needs no window (6.9.1)."""
    consume = WindowManager.window_consumed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WindowManager, "window_consumed", lambda self, size: consume(self, size) if size else None)
        yield


class Conversation:
    """``is_client``: whether our end is."""

    def __init__(self, is_client: bool, first_window: int, chance: random.Random) -> None:
        self.we = End(is_client)
        self.they = Oracle(not is_client, {SettingCodes.INITIAL_WINDOW_SIZE: first_window})
        self.is_client = is_client
        self.numbers: list[int] = []
        self.by_us: dict[int, list[bytes]] = {}
        self.by_them: dict[int, list[bytes]] = {}
        self.pings = 0
        self.pongs = 0
        self._there = self._back = b""  # on the way
        self._chance = chance
        self._is_full = False
        self.carry_all()  # h2 does not wait for its SETTINGS to be acknowledged before it counts by them

    # --- steps ---------------------------------------------------------------------------------------------------

    def step(self, operation: str, which: int, how: int) -> None:
        match operation:
            case "open":
                self._open()
            case "carry there":
                self.carry_there(1 << how % 18)
            case "carry back":
                self.carry_back(1 << how % 18)
            case "we ping":
                self.pings += 1
                self.we.http2.ping(struct.pack(">Q", self.pings))
            case "they ping":
                self.pongs += 1
                self.they.h2.ping(struct.pack(">Q", self.pongs))
            case "they set":
                name, values = (
                    (SettingCodes.INITIAL_WINDOW_SIZE, WINDOWS),
                    (SettingCodes.MAX_FRAME_SIZE, FRAMES),
                    (SettingCodes.HEADER_TABLE_SIZE, TABLES),
                )[which % 3]
                self.they.change(name, values[how % len(values)])
            case "they grant":
                self.they.grant(WINDOWS[how % len(WINDOWS)])
            case "the transport is full":
                self._is_full = not self._is_full
                self.we.http2.transport_full(self._is_full)
            case _:
                if numbers := self._open_numbers():
                    self._step_of_stream(operation, numbers[which % len(numbers)], how)

    def _open_numbers(self) -> list[int]:
        """Streams that are open to our end, or have not reached it yet."""
        over = self.we.http2._closed
        return [number for number in self.numbers if number not in over]

    def _open(self) -> None:
        if len(self._open_numbers()) == STREAMS_MAX:
            return
        number = self.we.open().stream.id if self.is_client else self.they.open()
        self.numbers.append(number)
        self.by_us[number], self.by_them[number] = [], []

    def _step_of_stream(self, operation: str, number: int, how: int) -> None:
        heard = self.we.heard.get(number)  # None if the request has not reached us yet
        content = self._chance.randbytes(SIZES[how % len(SIZES)])
        match operation:
            case "we send" if heard is not None and heard.stream.is_sending:
                self._answer(number)
                heard.stream.send(content)
                self.by_us[number].append(content)
            case "they send" if self.they.is_sending(number):
                self.they.send(number, content)
                self.by_them[number].append(content)
            case "we end" if heard is not None:
                self._answer(number)
                heard.stream.end(() if self.is_client else TRAILERS)
            case "they end":
                self.they.end(number)
            case "we reset" if heard is not None:
                heard.stream.reset()
            case "they reset":
                self.they.reset(number)
            case _:
                pass  # not now

    def _answer(self, number: int) -> None:
        """A server's headers come first."""
        heard = self.we.heard[number]
        if not self.is_client and "answered" not in heard.__dict__:
            heard.__dict__["answered"] = True
            heard.stream.send_headers(RESPONSE)

    # --- the network ---------------------------------------------------------------------------------------------

    def carry_there(self, size: int) -> bool:
        """Up to so many bytes; whether there were any."""
        self._there += self.we.sent()
        piece, self._there = self._there[:size], self._there[size:]
        self.they.receive(piece)
        return bool(piece)

    def carry_back(self, size: int) -> bool:
        self._back += self.they.sent()
        piece, self._back = self._back[:size], self._back[size:]
        self.we.receive(piece)
        return bool(piece)

    def carry_all(self) -> None:
        for _ in range(5000):
            size = self._chance.choice((1, 7, 100, 1 << 20))
            there, back = self.carry_there(size), self.carry_back(size)
            if not there and not back:
                return
        raise AssertionError("they never come to an end")

    # --- the end -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Open every window, end every stream: clients first, so that no request is cut off by its answer."""
        self.we.http2.transport_full(False)
        self._settle()
        for number in self.numbers:
            self._step_of_stream("we end" if self.is_client else "they end", number, 0)
        self._settle()
        for number in self.numbers:
            self._step_of_stream("they end" if self.is_client else "we end", number, 0)
        self._settle()

    def _settle(self) -> None:
        for _ in range(3):
            self.carry_all()
            self.they.open_all_windows(1 << 20)
        self.carry_all()

    def check(self) -> None:
        assert self.we.http2.streams == {}
        assert self.they.open_streams == 0
        assert self.we.http2.assembling_bytes == 0
        assert self.they.pongs == [struct.pack(">Q", n + 1) for n in range(self.pongs)]
        assert self.we.pongs == [struct.pack(">Q", n + 1) for n in range(self.pings)]
        for number in self.numbers:
            self._check_stream(number)

    def _check_stream(self, number: int) -> None:
        heard = self.we.heard.get(number)
        to_us = [] if heard is None else heard.messages
        to_them = messages_of(self.they.content[number])
        assert to_us == self.by_them[number][: len(to_us)], "in order, and none twice"
        assert to_them == self.by_us[number][: len(to_them)]
        if number in self.they.resets or heard is None or heard.was_reset is not None or self.we.http2._closed[number]:
            return  # one of us reset it: a server does when its answer comes before the end of the request
        assert to_us == self.by_them[number]
        assert to_them == self.by_us[number]
        assert [kind for kind in heard.kinds if kind != "room"][-1] == "end"
        assert number in self.they.ended
        heads = [list(event[1]) for event in heard.events if event[0] == "headers"]
        ours, theirs = ([[*REQUEST]], [[*RESPONSE], [*TRAILERS]])
        assert heads == (theirs if self.is_client else ours)
        assert self.they.heads[number] == (ours if self.is_client else theirs)


def messages_of(content: bytes) -> list[bytes]:
    """The whole ones."""
    messages = []
    while len(content) >= 5:
        _, size = struct.unpack_from(">BI", content)
        if len(content) < 5 + size:
            break
        messages.append(content[5 : 5 + size])
        content = content[5 + size :]
    return messages


@pytest.mark.parametrize("is_client", [True, False], ids=["our client", "our server"])
@settings(max_examples=250)
@given(first_window=st.sampled_from(WINDOWS), steps=operations, chance=st.randoms(use_true_random=False))
def test_conversations(
    is_client: bool, first_window: int, steps: list[tuple[str, int, int]], chance: random.Random
) -> None:
    conversation = Conversation(is_client, first_window, chance)
    for step in steps:
        conversation.step(*step)
    conversation.finish()
    conversation.check()


@pytest.mark.parametrize("is_client", [True, False], ids=["our client", "our server"])
def test_a_long_one(is_client: bool) -> None:
    """By a seed of its own, without hypothesis: more steps than it would try."""
    chance = random.Random(9113)  # noqa: S311
    conversation = Conversation(is_client, 65_535, chance)
    for number in range(4000):
        conversation.step(chance.choice(OPERATIONS), chance.randrange(256), chance.randrange(256))
        if number % 200 == 199:
            conversation.finish()
            conversation.check()
            conversation.numbers.clear()
    assert sum(len(heard.messages) for heard in conversation.we.heard.values()) > 300, "the steps are worth something"
    assert sum(len(messages_of(content)) for content in conversation.they.content.values()) > 300
