"""Hypothesis strategies for the values of this room."""

from __future__ import annotations

from hypothesis import strategies as st

from weft.wire.exmp import (
    REQUEST_ID_MAX,
    Bye,
    Error,
    Failure,
    Hello,
    Message,
    Operation,
    Outcome,
    Ping,
    Pong,
    Request,
    Response,
    Success,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)

operations: st.SearchStrategy[Operation] = st.builds(Operation, texts, st.none() | json_objects)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Success, st.none() | json_objects),
    st.builds(Failure, texts, st.none() | texts, st.none() | json_objects),
)

ids = st.integers(1, REQUEST_ID_MAX) | st.integers(1, 10)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, st.integers(0, 255)),
    st.just(Bye()),
    st.builds(Ping, st.binary(max_size=3)),
    st.just(Pong()),
    st.builds(Error, st.integers(0, 255), texts),
    st.builds(Request, ids, st.binary(max_size=30)),
    st.builds(Response, ids, st.binary(max_size=30)),
)
