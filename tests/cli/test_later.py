"""``weft later`` and ``weft schedule``, and the page about them, against a real node (CON-03)."""

from __future__ import annotations

import re

import pytest

from tests.cli.commands import Weft
from tests.up import RunningNode

pytestmark = pytest.mark.req("CON-03")
WAIT_S = 60.0


def test_what_waits_is_listed_and_cancelled(weft: Weft, node: RunningNode) -> None:
    receipt = weft(
        *("pub", "cli.later", "hello", "--key", "k", "--header", "n=1"),
        *("--deliver-at", "2027-01-01T12:00:00Z", "--json", *node.flags),
    ).document
    assert receipt["topic"].startswith("weft.later.") and receipt["origin"] == "node-a"
    listed = weft("later", "ls", "--json", *node.flags).document
    (found,) = [each for each in listed["events"] if each["topic"] == "cli.later"]
    assert found["due"] == "2027-01-01T12:00:00.000000Z" and found["payload_base64"] == "aGVsbG8="
    assert listed["unreached"] == {} and found["headers"]["n"] == "1"
    table = weft("later", "ls", *node.flags).out
    assert "cli.later" in table and "due" in table
    assert weft("later", "cancel", found["event"], *node.flags).out == "1 cancelled\n"
    again = weft("later", "cancel", found["event"], *node.flags)
    assert again.status == 1 and "it was delivered or cancelled" in again.err
    assert weft("later", "cancel", "cli.later@node-a/0:e1:0", *node.flags).status == 1


def test_a_delay_is_waited_for(weft: Weft, node: RunningNode) -> None:
    assert weft("pub", "cli.soon", "x", "--delay", "0.2", *node.flags).status == 0
    got = weft("sub", "cli.soon", "--from", "earliest", "--count", "1", "--timeout", "60", "--json", *node.flags)
    assert got.document["payload"] == "x" and got.document["headers"]["weft-later"]


@pytest.mark.parametrize("time", ["tomorrow", "2027-01-01T12:00:00"])
def test_a_time_without_a_zone_is_none(weft: Weft, node: RunningNode, time: str) -> None:
    refused = weft("pub", "cli.later", "x", "--deliver-at", time, *node.flags)
    assert refused.status == 2 and "not a time with a zone" in refused.err


def test_a_schedule_is_added_shown_paused_resumed_and_removed(weft: Weft, node: RunningNode) -> None:
    flags = node.flags
    added = weft("schedule", "add", "cli.tick", "cli.ticks", "hello", "--cron", "0 3 1 1 *", *flags)
    assert re.fullmatch(r"schedule cli.tick fires next at \d{4}-01-01T03:00:00Z\n", added.out)
    assert weft("schedule", "add", "cli.tick", "cli.ticks", "x", "--cron", "@daily", *flags).status == 1
    replaced = weft(
        *("schedule", "add", "cli.tick", "cli.ticks", "hello", "--cron", "0 3 * * mon-fri", "--zone", "Europe/Berlin"),
        *("--catch-up", "none", "--replace", "--json", *flags),
    ).document
    assert replaced["name"] == "cli.tick" and replaced["next"]
    (listed,) = weft("schedule", "ls", "--json", *flags).document
    assert (listed["cron"], listed["zone"], listed["catch_up"]) == ("0 3 * * mon-fri", "Europe/Berlin", "none")
    assert "cli.ticks" in weft("schedule", "ls", *flags).out
    assert weft("schedule", "pause", "cli.tick", *flags).status == 0
    assert "paused" in weft("schedule", "show", "cli.tick", *flags).out
    assert weft("schedule", "resume", "cli.tick", "--json", *flags).document["next"]
    assert weft("schedule", "show", "cli.tick", "--json", *flags).document["paused"] is False
    assert weft("schedule", "rm", "cli.tick", *flags).status == 0
    assert weft("schedule", "ls", *flags).err == "there are no schedules\n"
    missing = weft("schedule", "show", "cli.tick", *flags)
    assert missing.status == 1 and "no schedule of that name" in missing.err
    wrong = weft("schedule", "add", "x", "cli.ticks", "x", "--cron", "61 * * * *", *flags)
    assert wrong.status == 1 and "is no minute" in wrong.err
