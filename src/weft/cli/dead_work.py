"""What ``weft dead`` and ``weft groups set`` do."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.markup import escape

from weft.cli.connection import with_client
from weft.cli.console import err, out
from weft.cli.options import Where, misused
from weft.cli.tables import human_bytes, human_time, print_json, print_table
from weft.client import Client, DeadLetter, GroupPolicy
from weft.errors import UsageError
from weft.model import parse_event_id
from weft.visible import visible

REASON_SHOWN_CHARS = 80


def show_letters(where: Where, group: str, json: bool) -> None:
    letters = with_client(where, lambda client: client.dead_letters(group))
    if json:
        print_json([_document(each) for each in letters])
    elif letters:
        rows = [
            (str(each.id), visible(each.reason)[:REASON_SHOWN_CHARS], human_time(each.died_us), str(each.tries))
            for each in letters
        ]
        print_table(("event", "reason", "given up", "tries"), rows, names=3)
    else:
        err.print(f"group {escape(group)} has no dead letters")


def show_letter(where: Where, group: str, event: str, json: bool) -> None:
    (letter,) = with_client(where, lambda client: _chosen(client, group, [event], everything=False))
    if json:
        print_json(_document(letter))
        return
    rows = [
        ("event", str(letter.id)),
        ("group", group),
        ("tries", str(letter.tries)),
        ("reason", visible(letter.reason)),
        ("given up", human_time(letter.died_us)),
        ("published", "not known" if letter.is_lost else human_time(letter.event.timestamp_us)),
        ("key", "" if letter.event.key is None else visible(letter.event.key.decode(errors="replace"))),
        *((f"header {visible(name)}", visible(text)) for name, text in sorted((letter.event.headers or {}).items())),
        *([("header left out", visible(letter.left_out))] if letter.left_out else []),
        ("payload", "lost" if letter.is_lost else human_bytes(len(letter.event.payload))),
    ]
    print_table(("what", "value"), rows, names=2)
    if letter.event.payload:
        out.print(escape(visible(letter.event.payload.decode(errors="replace"))), highlight=False, soft_wrap=True)


def replay_letters(where: Where, group: str, events: Sequence[str], everything: bool, json: bool) -> None:
    _check_choice(events, everything)

    async def work(client: Client) -> list[DeadLetter]:
        letters = await _chosen(client, group, events, everything)
        await client.replay_dead(group, letters)
        return letters

    _tell("sent again", with_client(where, work), json)


def drop_letters(where: Where, group: str, events: Sequence[str], everything: bool, json: bool) -> None:
    _check_choice(events, everything)

    async def work(client: Client) -> list[DeadLetter]:
        letters = await _chosen(client, group, events, everything)
        await client.drop_dead(group, letters)
        return letters

    _tell("dropped", with_client(where, work), json)


def set_policy(
    where: Where,
    group: str,
    max_deliveries: int | None,
    retry_s: tuple[float, float] | None,
    retry: str | None,
    dead_letter: str | None,
) -> None:
    given = {"max_deliveries": max_deliveries, "retry_s": retry_s, "retry": retry, "dead_letter": dead_letter}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not changes:
        misused("there is nothing to set: give --max-deliveries, --retry-s, --retry or --dead-letter")

    async def work(client: Client) -> GroupPolicy:
        found = next((each.policy for each in await client.groups(group) if each.policy), GroupPolicy())
        policy = replace(found, **changes)
        await client.set_group(group, policy)
        return policy

    policy = with_client(where, work)
    shortest, longest = policy.retry_s
    topic = policy.dead_letter or f"weft.dead.{group}"
    out.print(
        f"group {escape(group)}: {policy.max_deliveries} deliveries, retries after {shortest:g} to {longest:g} s "
        f"{policy.retry.replace('_', ' ')}, then to {escape(topic)}",
        soft_wrap=True,
    )


def _check_choice(events: Sequence[str], everything: bool) -> None:
    if bool(events) == everything:
        misused("name events, as weft dead ls prints them, or give --all")


async def _chosen(client: Client, group: str, events: Sequence[str], everything: bool) -> list[DeadLetter]:
    letters = await client.dead_letters(group)
    if everything:
        return letters
    known = {each.id: each for each in letters}
    wanted = [parse_event_id(each) for each in events]
    missing = next((each for each in wanted if each not in known), None)
    if missing is not None:
        raise UsageError(f"group {group} has no dead letter of {missing}")
    return [known[each] for each in wanted]


def _tell(what: str, letters: Sequence[DeadLetter], json: bool) -> None:
    if json:
        print_json([str(each.id) for each in letters])
    else:
        out.print(f"{len(letters):,} {what}")


def _document(letter: DeadLetter) -> dict[str, Any]:
    event = letter.event
    return {
        "event": str(letter.id),
        "group": letter.group,
        "tries": letter.tries,
        "reason": letter.reason,
        "died": human_time(letter.died_us),
        "time": None if letter.is_lost else human_time(event.timestamp_us),
        "key_base64": None if event.key is None else base64.b64encode(event.key).decode(),
        "headers": dict(event.headers or {}),
        "payload_base64": None if letter.is_lost else base64.b64encode(event.payload).decode(),
        "left_out": letter.left_out or None,
    }
