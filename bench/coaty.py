"""Coaty agents, ours and the reference's: ``python -m bench.coaty [--rounds N] [--json | --markdown]``.

Channel events of one small object from one agent to another, each in a process of its own on loopback, for every type
of key. The rate is the receiver's, from the first event to the last. Needs node and its packages (``make test`` has
installed them).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.figures import Figure, Format, add_formats, report
from rich.console import Console

from tests.interop.coaty.js_agent import KEY_TYPES, JsAgent, unavailable
from weft.coaty import Agent, KeyType, new_id, new_identity
from weft.wire.libp2p import PrivateKey

ROUNDS = 3
NAMESPACE = "h-coaty"
CHANNEL = "bench"
EVENTS = {"RSA": 1000, "Ed25519": 300, "secp256k1": 1000}  # the reference takes 20 ms for a signature of Ed25519
GOAL = 3.0  # times the reference to itself
WAIT_S_MAX = 60.0
OURS = {"RSA": KeyType.RSA, "Ed25519": KeyType.ED25519, "secp256k1": KeyType.SECP256K1}
THING = {"objectId": new_id(), "coreType": "CoatyObject", "objectType": "com.weft.Thing", "name": "0"}
console = Console(stderr=True)


# --- our receiver, in a process of its own ---------------------------------------------------------------------------


async def receive(key_type: str, count: int) -> None:
    """Say where we are, take so many events, and say how long they took from the first to the last."""
    async with Agent(NAMESPACE, name="receiver", identity=fresh(key_type)) as agent:
        events = agent.observe_channel(CHANNEL)
        print(agent.addresses[0], flush=True)
        await events.next(WAIT_S_MAX)
        begin = time.perf_counter()
        for _ in range(count - 1):
            await events.next(WAIT_S_MAX)
        print((count - 1) / (time.perf_counter() - begin), flush=True)


@contextmanager
def receiver(key_type: str, count: int) -> Iterator[subprocess.Popen[str]]:
    command = (sys.executable, "-m", "bench.coaty", "--receive", key_type, "--events", str(count))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None, "a pipe"
    return process.stdout.readline().strip()


# --- the four ways ---------------------------------------------------------------------------------------------------


def ours_to_ours(key_type: str) -> float:
    count = EVENTS[key_type] * 5
    with receiver(key_type, count) as process:
        return asyncio.run(publish(key_type, line_of(process), count, lambda: float(line_of(process))))


def ours_to_js(key_type: str) -> float:
    count = EVENTS[key_type]
    with JsAgent.start(key_type, "--settle", "0") as js:
        js.wait("ready")
        js.command("count", id=CHANNEL, n=count, ms=120_000)
        return asyncio.run(publish(key_type, js.address, count, lambda: counted(js)))


def js_to_ours(key_type: str) -> float:
    count = EVENTS[key_type]
    with receiver(key_type, count) as process, JsAgent.start(key_type, "--settle", "0") as js:
        js.wait("ready")
        dial(js, line_of(process))
        js.command("burst", id=CHANNEL, n=count, object=THING)
        return float(line_of(process))


def js_to_js(key_type: str) -> float:
    count = EVENTS[key_type]
    with (
        tempfile.NamedTemporaryFile("w", suffix=".json") as file,
        JsAgent.start(key_type, "--settle", "0") as target,
    ):
        json.dump(identity_document(fresh(key_type)), file)
        file.flush()
        with JsAgent("--peer-id", file.name, "--settle", "0") as source:
            return between(target, source, count)


def between(target: JsAgent, source: JsAgent, count: int) -> float:
    for each in (target, source):
        each.wait("ready", WAIT_S_MAX)
    target.command("count", id=CHANNEL, n=count, ms=120_000)
    dial(source, target.address)
    source.command("burst", id=CHANNEL, n=count, object=THING)
    return counted(target)


def dial(js: JsAgent, address: str) -> None:
    """Connect, and wait until it knows that the other side wants the channel."""
    js.command("dial", addr=address)
    topic = f"coaty/1/{NAMESPACE}/CHN{CHANNEL}"
    js.wait_for(lambda event: event["ev"] == "subs" and [True, topic] in event["subs"], WAIT_S_MAX)


def counted(js: JsAgent) -> float:
    result: dict[str, Any] = js.wait("count", 130.0)
    assert result["ordered"] and result["n"] == result["unique"], result
    return float(result["n"] - 1) * 1000 / float(result["ms"])


async def publish(key_type: str, address: str, count: int, outcome: Callable[[], float]) -> float:
    async with Agent(NAMESPACE, name="publisher", identity=fresh(key_type), bootstrap=[address]) as agent:
        topic = f"coaty/1/{NAMESPACE}/CHN{CHANNEL}"
        async with asyncio.timeout(WAIT_S_MAX):
            while not agent.peer.wanted_by(topic):
                await asyncio.sleep(0.01)
        await agent.ready()
        for number in range(count):
            await agent.channel(CHANNEL, {**THING, "name": str(number)})
        return await asyncio.to_thread(outcome)


def fresh(key_type: str) -> PrivateKey:
    return new_identity(OURS[key_type])


WAYS = {"ours to ours": ours_to_ours, "ours to JS": ours_to_js, "JS to ours": js_to_ours, "JS to JS": js_to_js}


def identity_document(identity: PrivateKey) -> dict[str, str]:
    """As the reference reads it."""
    secret, public = identity.to_protobuf(), identity.public.serialised
    return {
        "id": str(identity.peer),
        "privKey": base64.b64encode(secret).decode(),
        "pubKey": base64.b64encode(public).decode(),
    }


def main(rounds: int, output: Format) -> None:
    if (reason := unavailable()) is not None:
        sys.exit(f"cannot compare with the reference: {reason}")
    rates: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for key_type in KEY_TYPES:
            for way, run in WAYS.items():
                console.print(f"round {number + 1} of {rounds}: {way}, {key_type}", style="dim")
                rates.setdefault((way, key_type), []).append(run(key_type))
    figures = []
    for key_type in KEY_TYPES:
        reference = statistics.median(rates["JS to JS", key_type])
        for way in WAYS:
            rate = statistics.median(rates[way, key_type])
            goal = GOAL * reference if way == "ours to ours" else None
            note = f"{rate / reference:.1f} times JS to JS"
            figures.append(Figure(f"{way}, {key_type}", rate, "events/s", goal, limit=way == "JS to JS", note=note))
    report(figures, "Coaty events between two agents", output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    add_formats(parser)
    parser.add_argument("--receive", metavar="KEY_TYPE", choices=KEY_TYPES, help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.receive:
        asyncio.run(receive(given.receive, given.events))
    else:
        main(given.rounds, given.format)
