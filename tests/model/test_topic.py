"""Names of topics, patterns, and what matches what."""

from __future__ import annotations

import sys
import unicodedata
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.strategies import PATTERNS, TOPICS
from weft.errors import UsageError
from weft.limits import TOPIC_BYTES_MAX
from weft.model import BadPattern, BadTopic, Pattern, Topic, covers, matches, overlaps, parse_pattern, parse_topic


@pytest.mark.parametrize(
    "text",
    ["a", "plant.line1.temp", "größe.温度", "a@b/c:d#e", "x" * 255, ".".join("a" * 128), "é" * 127, "$SYS.a", "🌡.x"],
)
@pytest.mark.req("MSH-04")
def test_good_topics(text: str) -> None:
    assert parse_topic(text) == text
    assert parse_pattern(text) == text
    assert matches(Pattern(text), Topic(text))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'topic "" is empty'),
        ("a..b", 'topic "a..b": token 2 is empty'),
        (".a", 'topic ".a": token 1 is empty'),
        ("a.", 'topic "a.": token 2 is empty'),
        (".", 'topic ".": token 1 is empty'),
        ("a.*", 'topic "a.*": token 2: "*" is only allowed in patterns'),
        ("a.>", 'topic "a.>": token 2: ">" is only allowed in patterns'),
        ("a*b", 'topic "a*b": token 1: "*" is only allowed in patterns'),
        ("a b", 'topic "a b" has a whitespace character U+0020 in token 1'),
        ("a.b.\x07", 'topic "a.b.\\x07" has a control character U+0007 in token 3'),
        ("a.b\n", 'topic "a.b\\n" has a control character U+000A in token 2'),
        ("a\u00a0", 'topic "a\\xa0" has a whitespace character U+00A0 in token 1'),
        ("a.\u2028", 'topic "a.\\u2028" has a whitespace character U+2028 in token 2'),
        ("a\u200bb", 'topic "a\\u200bb" has a format character U+200B in token 1'),
        ("\ud800", 'topic "\\ud800" has a surrogate character U+D800 in token 1'),
        ("\ue000", 'topic "\\ue000" has a private use character U+E000 in token 1'),
        ("\U000e0080", 'topic "\\U000e0080" has an unassigned character U+E0080 in token 1'),
        ("x" * 256, f'topic "{"x" * 64}..." is 256 bytes, the limit is 255'),
        ("é" * 128, f'topic "{"é" * 64}..." is 256 bytes, the limit is 255'),
        ("\ud800" * 100, 'topic "' + "\\ud800" * 64 + '..." is 300 bytes, the limit is 255'),
    ],
)
def test_bad_topics_say_what_and_where(text: str, fault: str) -> None:
    with pytest.raises(BadTopic) as caught:
        parse_topic(text)
    assert str(caught.value) == fault
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("text", ["*", ">", "a.*", "*.a", "a.*.b", "*.*", "a.>", "*.>", "a.*.>", "*.a.*.>"])
@pytest.mark.req("MSH-04")
def test_wildcards_make_patterns(text: str) -> None:
    assert parse_pattern(text) == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'pattern "" is empty'),
        ("a..>", 'pattern "a..>": token 2 is empty'),
        (">.a", 'pattern ">.a": token 1: ">" is only allowed as the last token'),
        ("a.>.>", 'pattern "a.>.>": token 2: ">" is only allowed as the last token'),
        ("a.b*", 'pattern "a.b*": token 2: "*" must be a whole token'),
        ("**", 'pattern "**": token 1: "*" must be a whole token'),
        ("a.b>", 'pattern "a.b>": token 2: ">" must be a whole token'),
        ("a.>>", 'pattern "a.>>": token 2: ">" must be a whole token'),
        ("a.*>", 'pattern "a.*>": token 2: "*" must be a whole token'),
        ("a .*", 'pattern "a .*" has a whitespace character U+0020 in token 1'),
        ("*." * 200, f'pattern "{"*." * 32}..." is 400 bytes, the limit is 255'),
    ],
)
@pytest.mark.req("MSH-04")
def test_bad_patterns_say_what_and_where(text: str, fault: str) -> None:
    with pytest.raises(BadPattern) as caught:
        parse_pattern(text)
    assert str(caught.value) == fault


def test_errors_stay_short_for_long_names() -> None:
    with pytest.raises(BadTopic) as caught:
        parse_topic("\x00" * 1_000_000)
    assert len(str(caught.value)) < 400


def test_visible_characters_are_those_of_the_documented_categories() -> None:
    category = unicodedata.category
    visible = {character for character in map(chr, range(sys.maxunicode + 1)) if category(character)[0] not in "CZ"}
    # The fast check of the parsers; the space is in their regular expressions.
    assert visible == {character for character in map(chr, range(sys.maxunicode + 1)) if character.isprintable()} - {
        " "
    }


def is_topic(text: str) -> bool:
    """The rule as the module's docstring has it."""
    return 1 <= len(text.encode("utf-8", "surrogatepass")) <= TOPIC_BYTES_MAX and all(
        token and all(unicodedata.category(sign)[0] not in "CZ" and sign not in "*>" for sign in token)
        for token in text.split(".")
    )


def is_pattern(text: str) -> bool:
    tokens = text.split(".")
    if len(text.encode("utf-8", "surrogatepass")) > TOPIC_BYTES_MAX:
        return False
    return all(
        token == "*" or (token == ">" and number == len(tokens)) or is_topic(token)
        for number, token in enumerate(tokens, 1)
    )


NEARLY_NAMES = st.text(st.sampled_from("ab.*> \x00é温\u200b\ud800")) | st.text()


@given(NEARLY_NAMES)
def test_any_text_is_a_topic_or_refused(text: str) -> None:
    if is_topic(text):
        assert parse_topic(text) == text
    else:
        with pytest.raises(BadTopic):
            parse_topic(text)


@given(NEARLY_NAMES)
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    if is_pattern(text):
        assert parse_pattern(text) == text
    else:
        with pytest.raises(BadPattern):
            parse_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.B", False),
        ("a.b", "a", False),
        ("a.b", "a.b.c", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.*.c", "a.b.c", True),
        ("a.*.c", "a.c", False),
        ("*.*", "a.b", True),
        (">", "a", True),
        (">", "a.b.c", True),
        ("a.>", "a", False),
        ("a.>", "a.b", True),
        ("a.>", "a.b.c.d", True),
        ("a.>", "b.c", False),
        ("*.>", "a", False),
        ("*.>", "a.b", True),
        ("a.*.>", "a.b", False),
        ("a.*.>", "a.b.c", True),
        ("plant.*.temp", "plant.line1.temp", True),
        ("plant.*.temp", "plant.line1.pressure", False),
    ],
)
@pytest.mark.req("MSH-04")
def test_matching(pattern: str, topic: str, expected: bool) -> None:
    assert matches(parse_pattern(pattern), parse_topic(topic)) is expected


def all_topics(alphabet: str, tokens_max: int) -> list[Topic]:
    return [Topic(".".join(tokens)) for size in range(1, tokens_max + 1) for tokens in product(alphabet, repeat=size)]


def all_patterns(alphabet: str, tokens_max: int) -> list[Pattern]:
    names = all_topics(alphabet + "*", tokens_max)
    open_ended = [f"{name}.>" for name in all_topics(alphabet + "*", tokens_max - 1)]
    return [parse_pattern(text) for text in (*names, *open_ended, ">")]


@pytest.mark.req("MSH-04")
def test_covering_is_what_matching_makes_it() -> None:
    """Every pair of patterns of up to three tokens, by every topic of up to four with one token that none names."""
    topics = all_topics("abz", 4)
    patterns = all_patterns("ab", 3)
    selected = {pattern: {topic for topic in topics if matches(pattern, topic)} for pattern in patterns}
    assert len(patterns) == 52
    for wide, narrow in product(patterns, repeat=2):
        assert covers(wide, narrow) == (selected[narrow] <= selected[wide]), (wide, narrow)
        assert overlaps(wide, narrow) == bool(selected[narrow] & selected[wide]), (wide, narrow)


@given(PATTERNS, PATTERNS, TOPICS)
@pytest.mark.req("MSH-04")
def test_what_is_covered_is_matched(wide: Pattern, narrow: Pattern, topic: Topic) -> None:
    if covers(wide, narrow) and matches(narrow, topic):
        assert matches(wide, topic)


@given(TOPICS, st.data())
@pytest.mark.req("MSH-04")
def test_blotting_out_tokens_keeps_a_match(topic: Topic, data: st.DataObject) -> None:
    tokens = topic.split(".")
    blotted = [data.draw(st.sampled_from([token, "*"])) for token in tokens]
    pattern = parse_pattern(".".join(blotted))
    assert matches(pattern, topic)
    assert covers(pattern, Pattern(topic))
    kept = data.draw(st.integers(0, len(tokens) - 1))
    assert matches(parse_pattern(".".join([*blotted[:kept], ">"])), topic)
    assert not matches(parse_pattern(".".join([*blotted, ">"])), topic), "one token more than there is"
    assert not matches(parse_pattern(".".join([*blotted, "*"])), topic)


@given(PATTERNS, PATTERNS, PATTERNS)
def test_covering_is_a_preorder(a: Pattern, b: Pattern, c: Pattern) -> None:
    assert covers(a, a)
    assert not (covers(a, b) and covers(b, c)) or covers(a, c)
    assert not (covers(a, b) and covers(b, a)) or a == b
