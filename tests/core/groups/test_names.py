from __future__ import annotations

import pytest

from weft.core.groups import parse_group, parse_member
from weft.core.groups.names import group_of, is_member, topic_of, unnamed
from weft.core.topics import GROUPS
from weft.errors import UsageError
from weft.log.places import check_owner
from weft.model import NodeId, Topic, matches, parse_topic

GOOD = ["a", "9", "_", "billing", "billing-2", "team.billing", "a.-b", "_x_", "A" * 64]
BAD = ["", ".", "a.", ".a", "a..b", "-a", "a b", "a*", ">", "a#1", "ä", "a/b", "a\n", "A" * 65]


@pytest.mark.parametrize("name", GOOD)
def test_a_group_is_an_owner_in_the_log_and_the_tail_of_a_topic(name: str) -> None:
    assert parse_group(name) == parse_member(name) == name
    check_owner(name)
    topic = parse_topic(topic_of(name))
    assert matches(GROUPS, topic)
    assert group_of(topic) == name
    assert is_member(name)


@pytest.mark.parametrize("name", BAD)
def test_other_names_are_refused(name: str) -> None:
    for parse, kind in ((parse_group, "group"), (parse_member, "member")):
        with pytest.raises(UsageError, match=f"is not a name for a {kind}: 1 to 64 "):
            parse(name)


def test_a_long_name_is_not_repeated_in_full() -> None:
    with pytest.raises(UsageError) as caught:
        parse_group("x" * 100_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "topic", ["weft.groups", "weft.groups.-a", "weft.plain.a", "plant.t", "weft.groups." + "x" * 65]
)
def test_other_topics_are_about_no_group(topic: str) -> None:
    assert group_of(Topic(topic)) is None


def test_who_chose_no_name_has_one_that_nobody_can_choose() -> None:
    name = unnamed(NodeId("n" * 64), 12)
    assert is_member(name)
    with pytest.raises(UsageError):
        parse_member(name)
    assert not is_member("n#01")
    assert not is_member("#1")
