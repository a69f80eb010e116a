"""Rights by topic pattern: what is allowed, and how a refusal reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.model import covers, matches, parse_pattern, parse_topic
from weft.model.topic import OWNER
from weft.security import Acl, Cause, NotAllowed
from weft.security.acl import owner_of, parse_group_right

ME, YOU, ID = "0123456789abcdef", "fedcba9876543210", "4f1c" * 8


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize(
    ("rights", "group", "allowed"),
    [
        ("", "billing", False),
        ("billing", "billing", True),
        ("billing", "billing-eu", False),
        ("billing*", "billing", True),
        ("billing*", "billing.eu", True),
        ("billing*", "bill", False),
        ("a billing*", "a", True),
        ("*", "anything.at-all", True),
    ],
)
def test_groups_by_name(rights: str, group: str, allowed: bool) -> None:
    key = Acl("key k3", groups=tuple(rights.split()))
    assert key.may_use_group(group) is allowed
    assert replace(key, admin=True).may_use_group(group), "who administers may use all of them"
    if not allowed:
        with pytest.raises(
            NotAllowed, match=f'not allowed to use group "{group}" with key k3: it has no right'
        ) as caught:
            key.check_group(group)
        assert caught.value.cause is Cause.GROUP


@pytest.mark.req("SEC-03")
def test_a_key_without_rights_to_groups_is_judged_by_what_they_read() -> None:
    old = replace(acl(subscribe="orders.> b"), groups=None)
    old.check_group("new", [])
    old.check_group("g", map(parse_pattern, ["orders.paid", "orders.*", "b"]))
    with pytest.raises(NotAllowed, match="older than rights to groups"):
        old.check_group("g", map(parse_pattern, ["orders.paid", "c"]))


@pytest.mark.parametrize("text", ["", "**", "a*b", "-a", "a b", "a" * 65, "ä", "a>", "a\n"])
def test_what_is_no_right_to_groups(text: str) -> None:
    with pytest.raises(UsageError, match="not a right to groups"):
        parse_group_right(text)


def acl(publish: str = "", subscribe: str = "", admin: bool = False) -> Acl:
    return Acl(
        "key k3",
        tuple(map(parse_pattern, publish.split())),
        tuple(map(parse_pattern, subscribe.split())),
        admin,
        ME,
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
        ("", f"weft.inbox.{ME}.{ID}", True),
        ("", f"weft.inbox.{YOU}.{ID}", True),  # a reply: the id was told with the request
        ("", f"weft.inbox.{YOU}.4f1c", False),  # ids are long: nobody tries them all
        ("", f"weft.inbox.{ID}", False),
        ("", f"weft.inbox.{ME}.{ID}.more", False),
        ("", "weft.inbox", False),
        ("", f"weft.inboxes.{ME}.{ID}", False),
        ("", f"weft.staging.{ME}.{ID}", True),
        ("", f"weft.staging.{YOU}.{ID}", False),
        (">", f"weft.staging.{YOU}.{ID}", False),
        ("", f"weft.decisions.{ME}.{ID}", True),
        ("", f"weft.decisions.{YOU}.{ID}", False),
        ("", "weft.decisions", False),
    ],
)
@pytest.mark.req("SEC-02", "SEC-03")
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
        ("", f"weft.inbox.{ME}.{ID}", True),
        ("", f"weft.inbox.{ME}.*", False),
        ("", "weft.inbox.>", False),
        ("weft.inbox.>", "weft.inbox.>", True),
        ("weft.inbox.>", f"weft.inbox.{YOU}.{ID}", True),
        ("", f"weft.staging.{ME}.{ID}", True),
        ("", f"weft.staging.{ME}.>", False),
        ("", "weft.decisions.>", False),
        ("", f"weft.*.{ME}.{ID}", False),
    ],
)
@pytest.mark.req("SEC-02", "SEC-03")
def test_subscribing(rights: str, pattern: str, allowed: bool) -> None:
    assert acl(subscribe=rights).may_subscribe(parse_pattern(pattern)) is allowed
    assert acl(subscribe=rights, publish=">", admin=True).may_subscribe(parse_pattern(pattern)) is allowed


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize("kind", ["inbox", "staging", "decisions"])
def test_what_belongs_to_somebody_is_read_by_its_owner_and_by_who_administers(kind: str) -> None:
    theirs = parse_pattern(f"weft.{kind}.{YOU}.{ID}")
    assert not acl(publish=">", subscribe=">").may_subscribe(theirs)
    assert acl(admin=True).may_subscribe(theirs)
    assert not Acl("a caller without a name", subscribe=(parse_pattern(">"),)).may_subscribe(theirs)


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize(
    ("publish", "subscribe", "refused"),
    [
        ("x.y", "x.z", ""),
        ("x.*", "x.>", ""),
        ("x.>", "x.y", "publish"),
        ("x.y", ">", "subscribe"),
        ("x.y", "weft.groups.>", "subscribe"),
        ("weft.>", "x.y", "publish"),
    ],
)
def test_nobody_gives_more_than_they_have(publish: str, subscribe: str, refused: str) -> None:
    giver = acl("x.*", "x.>", admin=True)
    given = (parse_pattern(publish),), (parse_pattern(subscribe),)
    if not refused:
        giver.check_give(*given)
        return
    with pytest.raises(NotAllowed, match=f"not allowed to give the right to {refused}") as caught:
        giver.check_give(*given)
    assert caught.value.cause is Cause.ADMIN


@pytest.mark.req("SEC-03")
def test_who_does_not_administer_gives_nothing() -> None:
    with pytest.raises(NotAllowed, match="not allowed to make keys"):
        acl(">", ">").check_give((), ())


@pytest.mark.req("SEC-03")
def test_owners_are_told_apart_by_their_names() -> None:
    names = [("key", "billing"), ("key", "billing2"), ("certificate", "billing"), ("anybody", "")]
    assert len({owner_of(*each) for each in names}) == len(names)
    assert all(OWNER.fullmatch(owner_of(*each)) for each in names)


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
