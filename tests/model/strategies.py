"""Hypothesis strategies for the values of weft.model."""

from __future__ import annotations

from hypothesis import strategies as st

from weft.limits import EVENT_TIMESTAMP_US_MAX, EVENT_TIMESTAMP_US_MIN
from weft.model import Epoch, Event, NodeId, Pattern, Stream, Topic, parse_pattern, parse_topic

TIMES_US = st.integers(EVENT_TIMESTAMP_US_MIN, EVENT_TIMESTAMP_US_MAX)

_SMALL_TOKENS = st.sampled_from(["a", "b", "c"])  # so that two of them often meet
_TOKENS = _SMALL_TOKENS | st.text(st.sampled_from("abz09-_@/:é温"), min_size=1, max_size=6)


def _patterns(tokens: list[str], rest: bool) -> Pattern:
    return parse_pattern(".".join([*tokens, ">"] if rest or not tokens else tokens))


TOPICS: st.SearchStrategy[Topic] = st.lists(_TOKENS, min_size=1, max_size=5).map(".".join).map(parse_topic)
PATTERNS: st.SearchStrategy[Pattern] = st.builds(
    _patterns, st.lists(_SMALL_TOKENS | st.just("*"), max_size=4), st.booleans()
)
NODE_IDS: st.SearchStrategy[NodeId] = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True).map(NodeId)
STREAMS = st.builds(Stream, TOPICS, NODE_IDS, st.integers(0, 65535))
EPOCHS: st.SearchStrategy[Epoch] = st.integers(1, (1 << 63) - 1).map(Epoch)
OFFSETS = st.integers(0, (1 << 63) - 1)

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
HEADERS = st.none() | st.dictionaries(_TEXT, _TEXT, max_size=4)
EVENTS = st.builds(Event, st.binary(max_size=40), TIMES_US, key=st.none() | st.binary(max_size=10), headers=HEADERS)
EVENT_LISTS = st.lists(EVENTS, min_size=1, max_size=8)
COMPRESSIONS = st.sampled_from([None, "lz4", "zstd"])
