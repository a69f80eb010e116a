from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases, split_at
from weft.errors import UsageError
from weft.wire.libp2p import varint
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.multistream import (
    HEADER,
    MULTISTREAM_REFUSALS_MAX,
    Dialler,
    Listener,
    Refused,
    Selected,
    encode_line,
)

SPOKEN = ("/secio/1.0.0", "/mplex/6.7.0")


def lines(*texts: str) -> bytes:
    return b"".join(map(encode_line, texts))


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("multistream")["lines"])
def test_lines_are_written_as_the_reference_writes_them(case: dict[str, str]) -> None:
    assert encode_line(case["text"]).hex() == case["bytes"]


@pytest.mark.req("COA-01")
def test_protocols_are_listed_as_the_reference_lists_them() -> None:
    case = cases("multistream")["listing"]
    listener = Listener(case["protocols"])
    assert listener.receive_data(lines(HEADER, "ls")) is None
    assert listener.data_to_send() == lines(HEADER) + bytes.fromhex(case["bytes"])


# --- transcripts: what one side says, what the other answers, how it ends ---------------------------------------------


def test_dialler_sends_header_and_proposal_together() -> None:
    dialler = Dialler(["/secio/1.0.0"])
    assert dialler.data_to_send() == lines(HEADER, "/secio/1.0.0")
    assert dialler.data_to_send() == b""
    assert dialler.receive_data(lines(HEADER, "/secio/1.0.0") + b"rest") == Selected("/secio/1.0.0", b"rest")


def test_dialler_proposes_the_next_after_a_refusal() -> None:
    dialler = Dialler(["/tls/1.0.0", "/secio/1.0.0"])
    assert dialler.data_to_send() == lines(HEADER, "/tls/1.0.0")
    assert dialler.receive_data(lines(HEADER, "na")) is None
    assert dialler.data_to_send() == lines("/secio/1.0.0")
    assert dialler.receive_data(lines("/secio/1.0.0")) == Selected("/secio/1.0.0", b"")


def test_dialler_is_refused() -> None:
    dialler = Dialler(["/tls/1.0.0", "/noise"])
    assert dialler.receive_data(lines(HEADER, "na", "na")) == Refused(("/tls/1.0.0", "/noise"))


def test_listener_selects_what_it_speaks_and_keeps_the_rest() -> None:
    listener = Listener(SPOKEN)
    assert listener.receive_data(lines(HEADER)) is None
    assert listener.data_to_send() == lines(HEADER)
    assert listener.receive_data(lines("/noise", "/mplex/6.7.0") + b"\0\1") == Selected("/mplex/6.7.0", b"\0\1")
    assert listener.data_to_send() == lines("na", "/mplex/6.7.0")


def test_ends_talk_to_each_other_one_byte_at_a_time() -> None:
    dialler, listener = Dialler(["/noise", "/mplex/6.7.0"]), Listener(SPOKEN)
    chosen: list[object] = []
    for _ in range(10):
        for byte in dialler.data_to_send():
            chosen.append(listener.receive_data(bytes((byte,))))
        for byte in listener.data_to_send():
            chosen.append(dialler.receive_data(bytes((byte,))))
    assert [outcome for outcome in chosen if outcome] == [Selected("/mplex/6.7.0", b"")] * 2


@given(st.lists(st.integers(0, 1000), max_size=8))
def test_any_split_gives_the_same_answer(cuts: list[int]) -> None:
    said = lines(HEADER, "/noise", "ls", "/secio/1.0.0")
    listener, whole = Listener(SPOKEN), Listener(SPOKEN)
    outcomes = [listener.receive_data(piece) for piece in split_at(said, cuts) if not listener._ended]
    assert [outcome for outcome in outcomes if outcome] == [whole.receive_data(said)]
    assert listener.data_to_send() == whole.data_to_send()


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (lines("/secio/1.0.0"), "does not speak multistream"),
        (lines("/multistream/2.0.0"), "does not speak multistream"),
        (b"\x02hi", "newline"),
        (b"\x00", "newline"),
        (b"\x03\xff\xff\n", "UTF-8"),
        (varint.encode(1025), "too long"),
        (b"\xff" * 10, "does not end"),
    ],
)
@pytest.mark.parametrize("side", [Dialler, Listener])
@pytest.mark.req("COA-01")
def test_bad_lines(side: type[Dialler] | type[Listener], said: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        side(SPOKEN).receive_data(said)


def test_a_line_of_exactly_the_limit_is_read() -> None:
    listener = Listener(SPOKEN)
    assert listener.receive_data(lines(HEADER, "x" * 1023)) is None
    assert listener.data_to_send() == lines(HEADER, "na")


def test_dialler_hears_something_it_did_not_propose() -> None:
    with pytest.raises(BadFrame, match="neither"):
        Dialler(["/secio/1.0.0"]).receive_data(lines(HEADER, "/mplex/6.7.0"))


@pytest.mark.parametrize("line", ["/noise", "ls", HEADER])
@pytest.mark.req("COA-01")
def test_proposing_without_end(line: str) -> None:
    listener = Listener(SPOKEN)
    assert listener.receive_data(lines(HEADER, *[line] * MULTISTREAM_REFUSALS_MAX)) is None
    with pytest.raises(BadFrame, match="without end"):
        listener.receive_data(lines(line))


@pytest.mark.parametrize("name", ["x" * 1024, "two\nlines"])
def test_impossible_names_are_the_callers_mistake(name: str) -> None:
    with pytest.raises(UsageError):
        Dialler([name])


def test_nothing_to_propose_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError):
        Dialler([])


def test_bytes_after_the_end_belong_elsewhere() -> None:
    listener = Listener(SPOKEN)
    listener.receive_data(lines(HEADER, "/secio/1.0.0"))
    with pytest.raises(UsageError, match="ended"):
        listener.receive_data(b"x")


@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_are_answered_or_refused(data: bytes, greeted: bool) -> None:
    for side in (Dialler(SPOKEN), Listener(SPOKEN)):
        try:
            side.receive_data((lines(HEADER) if greeted else b"") + data)
        except BadFrame:
            continue
        assert len(side.data_to_send()) <= 100 * (len(data) + 2)
