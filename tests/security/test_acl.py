"""Rights by topic pattern: what is allowed, and how a refusal reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model import covers, matches, parse_pattern, parse_topic
from weft.security import Acl, Cause, NotAllowed


def acl(publish: str = "", subscribe: str = "", admin: bool = False) -> Acl:
    return Acl(
        "key k3",
        tuple(map(parse_pattern, publish.split())),
        tuple(map(parse_pattern, subscribe.split())),
        admin,
    )


@pytest.mark.parametrize(
    ("rights", "topic", "allowed"),
    [
        ("", "x", False),
        ("x.y", "x.y", True),
        ("x.y", "x.z", False),
        ("x.*", "x.y", True),
        ("x.*", "x.y.z", False),
        ("x.> a.b", "a.b", True),
        (">", "x.y", True),
        (">", "weft.groups.g", False),
        ("*.groups.>", "weft.groups.g", False),
        ("weft.>", "weft.groups.g", True),
        ("weft.>", "x", False),
        ("", "weft.inbox.4f1c", True),
        ("", "weft.inbox.4f1c.more", False),
        ("", "weft.inbox", False),
        ("", "weft.inboxes.x", False),
        ("", "weft.staging.4f1c", True),
        ("", "weft.staging.4f1c.more", False),
        ("", "weft.decisions.4f1c", True),
        ("", "weft.decisions", False),
    ],
)
@pytest.mark.req("SEC-02")
def test_publishing(rights: str, topic: str, allowed: bool) -> None:
    assert acl(publish=rights).may_publish(parse_topic(topic)) is allowed
    assert acl(publish=rights, subscribe=">", admin=True).may_publish(parse_topic(topic)) is allowed


@pytest.mark.parametrize(
    ("rights", "pattern", "allowed"),
    [
        ("", "x", False),
        ("x.>", "x.y", True),
        ("x.>", "x.*", True),
        ("x.>", "x.>", True),
        ("x.>", ">", False),
        ("x.>", "*.y", False),
        ("x.*", "x.>", False),
        ("x.y x.z", "x.*", False),
        (">", ">", True),
        (">", "weft.>", False),
        ("> weft.>", "weft.>", True),
        ("weft.>", ">", False),
        ("", "weft.inbox.4f1c", True),
        ("", "weft.inbox.*", False),
        ("", "weft.inbox.>", False),
        ("weft.inbox.>", "weft.inbox.>", True),
        ("", "weft.staging.4f1c", True),
        ("", "weft.staging.*", False),
        ("", "weft.decisions.>", False),
        ("", "weft.*.4f1c", False),
    ],
)
@pytest.mark.req("SEC-02")
def test_subscribing(rights: str, pattern: str, allowed: bool) -> None:
    assert acl(subscribe=rights).may_subscribe(parse_pattern(pattern)) is allowed
    assert acl(subscribe=rights, publish=">", admin=True).may_subscribe(parse_pattern(pattern)) is allowed


@pytest.mark.req("SEC-02")
def test_refusals_say_what_and_with_which_key() -> None:
    nobody = acl()
    with pytest.raises(NotAllowed) as caught:
        nobody.check_publish(parse_topic("x.y"))
    assert (caught.value.cause, str(caught.value)) == (Cause.PUBLISH, 'not allowed to publish to "x.y" with key k3')
    with pytest.raises(NotAllowed) as caught:
        nobody.check_subscribe(parse_pattern("x.>"))
    assert (caught.value.cause, str(caught.value)) == (Cause.SUBSCRIBE, 'not allowed to subscribe to "x.>" with key k3')
    with pytest.raises(NotAllowed) as caught:
        nobody.check_admin("seek group g")
    words = "not allowed to seek group g with key k3: it needs the admin right"
    assert (caught.value.cause, str(caught.value)) == (Cause.ADMIN, words)
    everything = acl(">", ">", admin=True)
    everything.check_publish(parse_topic("x.y"))
    everything.check_subscribe(parse_pattern("x.>"))
    everything.check_admin("seek group g")


tokens = st.lists(st.sampled_from(["a", "b", "weft", "*"]), min_size=1, max_size=3).map(".".join)
patterns = st.tuples(tokens, st.sampled_from(["", ".>"])).map("".join).map(parse_pattern)
topics = st.lists(st.sampled_from(["a", "b", "weft"]), min_size=1, max_size=4).map(".".join).map(parse_topic)


@given(st.lists(patterns, max_size=3), topics, patterns)
@pytest.mark.req("SEC-02")
def test_who_may_subscribe_may_see_no_more_than_the_rights_say(rights: list[str], topic: str, wanted: str) -> None:
    """By the definitions of ``weft.model``: a subscription that is allowed selects only topics that a right selects."""
    mine = acl(publish=" ".join(rights), subscribe=" ".join(rights))
    found, asked = parse_topic(topic), parse_pattern(wanted)
    if mine.may_subscribe(asked) and matches(asked, found):
        assert any(matches(parse_pattern(right), found) for right in rights)
    if mine.may_publish(found):
        assert any(covers(parse_pattern(right), parse_pattern(topic)) for right in rights)
