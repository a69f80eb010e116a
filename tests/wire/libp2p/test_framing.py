from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import split_at
from weft.wire.libp2p import varint
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.framing import U32Frames, VarintFrames, u32_prefixed

KINDS = [(VarintFrames, varint.prefixed), (U32Frames, u32_prefixed)]


@pytest.mark.parametrize(("kind", "prefixed"), KINDS)
@given(bodies=st.lists(st.binary(max_size=300), max_size=6), cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_gives_the_same_frames(kind: type[VarintFrames], prefixed, bodies: list[bytes], cuts) -> None:  # type: ignore[no-untyped-def]
    frames = kind()
    found = []
    for piece in split_at(b"".join(map(prefixed, bodies)) + b"", cuts):
        frames.feed(piece)
        while (frame := frames.next_frame_untrusted(300)) is not None:
            found.append(frame)
    assert found == bodies
    assert frames.take_rest() == b""


@pytest.mark.parametrize(
    ("kind", "head"), [(VarintFrames, varint.encode(1025)), (U32Frames, (1025).to_bytes(4, "big"))]
)
def test_oversize_is_decided_on_the_length_alone(kind: type[VarintFrames], head: bytes) -> None:
    frames = kind()
    frames.feed(head)
    with pytest.raises(BadFrame, match=r"too long \(need 1025, limit 1024\)"):
        frames.next_frame_untrusted(1024)


def test_what_follows_the_last_frame_is_handed_over() -> None:
    frames = VarintFrames()
    frames.feed(b"\x02hithe rest")
    assert frames.next_frame_untrusted(10) == b"hi"
    assert frames.take_rest() == b"the rest"
    assert frames.take_rest() == b""
