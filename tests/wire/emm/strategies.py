"""Hypothesis strategies: drafts of any shape, and packets that are valid but for one thing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from weft.errors import UsageError
from weft.wire.emm import Credentials, Draft, EventType, SigningKey, build
from weft.wire.emm.fields import Field, Value

SECRET = b"s" * 32
SIGNING_KEY = SigningKey(bytes(range(32)))

json_objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(max_size=8),
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=12)
    | st.lists(st.integers(0, 9), max_size=4),
    max_size=4,
)
values: st.SearchStrategy[Value] = st.one_of(
    st.text(max_size=40),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(width=32, allow_nan=False),
    st.binary(max_size=80),
    st.sampled_from([255, 256, 300]).map(lambda size: b"v" * size),
    json_objects,
)
unknown_fields = st.tuples(st.sampled_from([0x00, 0x06, 0x0F, 0x19, 0x40, 0xFF]), st.binary(max_size=12))
known_extras = st.sampled_from([(int(Field.NONCE), b"n" * 12), (int(Field.KEY_ID), b"k" * 16)])
extras = st.lists(unknown_fields | known_extras, max_size=3, unique_by=lambda field: field[0]).map(tuple)

credentials = st.builds(
    Credentials,
    auth_key_id=st.sampled_from([None, b"key1"]),
    hmac_key=st.sampled_from([None, SECRET]),
    signing_key=st.just(SIGNING_KEY),
    carry_public_key=st.booleans(),
) | st.builds(Credentials, auth_key_id=st.sampled_from([None, b"key1"]), hmac_key=st.sampled_from([None, SECRET]))


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """Any packet that is not sealed."""
    event_type = draw(st.sampled_from(EventType))
    content = draw(st.lists(values, max_size=4))
    more = list(draw(extras))
    if event_type is EventType.EVENT:
        content.append(draw(st.text(max_size=20)))
    elif event_type is EventType.HELLO:
        content.append(draw(st.binary(max_size=10)))
    else:
        more.append((int(Field.TIMESTAMP), draw(st.binary(min_size=8, max_size=8))))
    return Draft(
        event_type,
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(0, 2**64 - 1)),
        tuple(content),
        node_id=draw(st.uuids()),
        urgent=draw(st.booleans()),
        extra=tuple(more),
    )


@st.composite
def packets(draw: st.DrawFn) -> bytes:
    """Valid packets of every shape that fit the limit."""
    draft = draw(drafts())
    try:
        return build(draft, draw(credentials))
    except UsageError:  # too large: one that surely fits
        return build(Draft(EventType.EVENT, draft.message_id, 0, ("n",), UUID(int=1)), Credentials(hmac_key=SECRET))


@st.composite
def mangled_packets(draw: st.DrawFn) -> bytes:
    """Valid packets with a few bytes changed, cut, doubled or added, so that errors lie deep."""
    data = bytearray(draw(packets()))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.integers(0, 3)):
            case 0 if data:
                data[at] = draw(st.integers(0, 255))
            case 1:
                del data[at : at + draw(st.integers(1, 40))]
            case 2:
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
            case _:
                data[at:at] = draw(st.binary(max_size=6))
    if draw(st.booleans()) and len(data) >= 17:  # make the length right again, so that the fields are looked at
        data[15:17] = min(len(data) - 17, 65535).to_bytes(2, "big")
    return bytes(data)
