"""What tests of the source do to a mesh: fill it, let retention pass, wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from weft.client.blocking import Client
from weft.log.retention import Expired, RetentionRule, retain
from weft.model import parse_pattern
from weft.testing.live_blocking import BlockingMesh

WAIT_S = 60.0  # for what takes milliseconds on a machine that is not busy
LONG_AGO_US = 1_000_000  # 1970
PADDING = bytes(128 * 1024)  # nine of them are more than the index of a log takes together: retention can cut between
OLD_EVENTS = 20


def fill(client: Client, topic: str, payloads: Iterable[str]) -> None:
    for future in [client.publish_nowait(topic, payload) for payload in payloads]:
        future.result(WAIT_S)


def fill_old(client: Client, topic: str) -> None:
    """Events that retention may take."""
    for _ in range(OLD_EVENTS):
        client.publish(topic, PADDING, timestamp_us=LONG_AGO_US)


def let_retention_pass(mesh: BlockingMesh, client: Client, name: str, topic: str) -> int:
    """Take what is older than an hour; how many events are gone.

    A log takes only what is in table files, and hears of those at a sync: so others publish meanwhile.
    """
    rules = [RetentionRule(parse_pattern(topic), 3600 * 1_000_000)]
    log = mesh._mesh.node(name).log
    taken: list[Expired] = []

    def has_taken() -> bool:
        client.publish("tick", b"")
        taken.extend(retain(log, rules, time.time_ns() // 1000))
        return bool(taken)

    until(has_taken)
    return sum(each.end - each.first for each in taken)


def until(condition: Callable[[], object]) -> None:
    give_up_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < give_up_s, "it did not come to pass"
        time.sleep(0.02)
