"""``weft kv``, on one node that other tests use, too: with buckets of its own (CON-05)."""

from __future__ import annotations

import pytest

from tests.cli.commands import Outcome, Weft
from tests.up import RunningNode

pytestmark = pytest.mark.req("CON-05")


def test_a_bucket_from_the_first_value_to_an_owner(weft: Weft, node: RunningNode) -> None:
    def kv(*arguments: str, stdin: bytes = b"") -> Outcome:
        outcome = weft("kv", *arguments, *node.flags, stdin=stdin)
        assert outcome.status == 0, outcome.err
        return outcome

    def refused(*arguments: str) -> str:
        outcome = weft("kv", *arguments, *node.flags)
        assert outcome.status == 1
        return outcome.err

    revision = kv("put", "settings", "color", "green").out.strip()
    assert revision.endswith("@node-a")
    kv("put", "settings", "color", "blue", "--ttl", "3600")
    assert kv("get", "settings", "color", "--at-least", revision).out == "blue"
    assert "has no value" in refused("get", "settings", "shape")
    kv("put", "settings", "notes.long", "-", "--json", stdin=b"from standard input")
    (listed,) = kv("ls", "settings", "notes.*", "--json").document
    assert (listed["key"], listed["value"], listed["expires"]) == ("notes.long", "from standard input", None)
    assert [line.split()[:2] for line in kv("watch", "settings", "--count", "2").out.splitlines()] == [
        ["color", "put"],
        ["notes.long", "put"],
    ]
    kv("del", "settings", "color")
    assert [each["state"] for each in kv("history", "settings", "color", "--json").document] == [
        "deleted",
        "put",
        "put",
    ]
    assert "give it an owner" in refused("put", "settings", "x", "1", "--if-revision", "absent")
    assert "node node-a takes writes" in kv("configure", "settings", "--owner", "node-a", "--history", "3").out
    kv("put", "settings", "x", "1", "--if-revision", "absent")
    assert "another revision" in refused("put", "settings", "x", "1", "--if-revision", "absent")
    (bucket,) = (each for each in kv("buckets", "--json").document if each["bucket"] == "settings")
    assert bucket == {"bucket": "settings", "keys": 2, "owner": "node-a", "history": 3}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("get", "a b", "x"), "whitespace"),
        (("get", "b", "x..y"), "token 2 is empty"),
        (("put", "b", "x", "1", "--ttl", "-1"), "time to live"),
        (("del", "b", "x", "--if-revision", "yesterday"), "is not a revision"),
        (("ls", "b", "x.>.y"), "only allowed as the last token"),
    ],
)
def test_what_cannot_be_is_told_in_plain_words(
    weft: Weft, node: RunningNode, arguments: tuple[str, ...], told: str
) -> None:
    outcome = weft("kv", *arguments, *node.flags)
    assert outcome.status == 1 and told in outcome.err
