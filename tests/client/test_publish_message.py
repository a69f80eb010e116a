"""Messages with batches: the bytes that protobuf would write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.client.publish_message import PublishMessage, place_bytes
from weft.wire.mesh import mesh_pb2 as pb

TOPICS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
U32, U64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
BATCHES = st.tuples(U64, TOPICS, U32, st.binary(max_size=300), U32, st.booleans(), U64)


@given(st.lists(BATCHES, min_size=1, max_size=5))
def test_a_message_says_what_was_put_into_it(batches: list[tuple[int, str, int, bytes, int, bool, int]]) -> None:
    ours, wanted = PublishMessage(), pb.PublishRequest()
    assert not ours
    for request, topic, partition, data, copies, later, after in batches:
        ours.add(request, place_bytes(topic, partition, later), data, copies, after)
        wanted.batches.batches.add(
            request=request, topic=topic, partition=partition, batch=data, copies=copies, later=later, after=after
        )
    assert ours
    assert pb.PublishRequest.FromString(ours.to_bytes()) == wanted
