"""Attack every port of a running node with damaged messages, with rights of each kind. Run by ``make fuzz-ports``.

A secured ``weft up`` with all its ports has clients at each of them (``tools/fuzzing/port_clients.py``): strangers, a
client whose key has few rights, a device, and a node with a good certificate. All of them at once, for ``--seconds``.
Meanwhile the node's memory, its file descriptors and the delay of its event loop are written down.

It is a finding if the node ends, logs a defect, does not answer its health check, is held up for more than 100 ms by
its own doing, or ends with more descriptors or memory than it had once it was warm. The same ``--seed`` gives the same
inputs to each client; how those of several clients mix is up to the machine.

Exit status: 0; 1 if there were findings.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # as pytest does; a script has only its own folder there

from tests.security.attacks.hostile import memory_bytes  # noqa: E402
from tests.security.attacks.test_strangers import open_files  # noqa: E402
from tests.up import RunningNode, up  # noqa: E402
from tools.fuzzing.port_clients import CLIENTS, DEVICE, MESH, PEER, Victim  # noqa: E402
from tools.fuzzing.targets import load_targets  # noqa: E402
from weft.security import Authority, KeyRequest, LocalSource, Names, ca_directory, create_key, node  # noqa: E402
from weft.security.files import private_directory  # noqa: E402
from weft.security.quota import Quota  # noqa: E402

CONFIG: Final = """
[gateway.exmp]
tls = "127.0.0.1:0"
[gateway.emm]
udp = "127.0.0.1:0"
quic = "127.0.0.1:0"
[gateway.coaty]
namespace = "plant"
"""
HELD_UP_S: Final = 0.1
HEALTH_S: Final = 10.0  # on a busy machine
HEALTH_ATTEMPTS: Final = 4
WARM: Final = 0.25  # of the time: until then memory and descriptors may grow
LAST_ATTEMPT_S: Final = 40.0
SETTLE_S: Final = 25.0  # at most, for connections that are given up to be closed
GROWTH_BYTES: Final = 48 << 20  # that is no growth: garbage, caches that fill, and what the allocator keeps
GROWTH_SHARE: Final = 0.15
GROWTH_SECONDS: Final = 60.0  # a run that is shorter never gets warm
FILES_MORE: Final = 8
DEFECTS: Final = ("Traceback", "exception", '"level":"error"', "handler_failed")
SAMPLES_SHOWN: Final = 12


@dataclass(frozen=True)
class Sample:
    at_s: float
    memory_bytes: int
    files: int
    attempts: int


@dataclass(frozen=True)
class Outcome:
    attempts: Counter[str]
    samples: Sequence[Sample]
    held_up: Sequence[dict[str, Any]]
    findings: Sequence[str]


@contextmanager
def victim_in(directory: Path, seed: int) -> Iterator[Victim]:
    file, data = directory / "weft.toml", private_directory(directory / "a")
    file.write_text(CONFIG)
    DEVICE.trust(data)
    environ = {"WEFT_LOG_HELD_UP_S": str(HELD_UP_S)}
    with up(data, "--config", str(file), "--node-id", "a", "--ca-listen", "127.0.0.1:0", environ=environ) as running:
        few = KeyRequest(
            "few",
            publish=("fuzz.>", "kv.fuzz"),
            subscribe=("fuzz.>", "kv.fuzz"),
            groups=("fuzz*",),
            quota=Quota(topics=50, groups=20, subscriptions=100),
        )
        now_s = time.time()
        _, key = create_key(data, few, bytes(range(48)), now_s)
        authority = Authority.open(ca_directory(data))
        certificate = LocalSource(authority).enrol(Names(node(MESH, PEER)), now_s)
        yield Victim(running, key.reveal(), certificate, load_targets(ROOT / "tests" / "fuzz"), seed)


async def attack(victim: Victim, names: Sequence[str], seconds: float) -> Outcome:
    attempts: Counter[str] = Counter()
    findings: list[str] = []
    samples: list[Sample] = []

    over = asyncio.Event()

    async def run(name: str) -> None:
        async for _ in CLIENTS[name](victim):
            attempts[name] += 1
            if over.is_set():
                return
            await asyncio.sleep(0)

    clients = {name: asyncio.create_task(run(name), name=name) for name in names}
    begin_s = time.monotonic()
    while (passed_s := time.monotonic() - begin_s) < seconds and victim.node.process.poll() is None:
        samples.append(await _sample(victim.node, passed_s, attempts.total(), findings))
        await asyncio.sleep(min(1.0, seconds / 10))
        findings += [f"{name}: {task.exception()!r}" for name, task in clients.items() if _has_failed(task)]
        if any(map(_has_failed, clients.values())):
            break
    over.set()  # they end after an attempt: one that is cancelled may leave a socket behind
    _, late = await asyncio.wait(clients.values(), timeout=LAST_ATTEMPT_S)
    for task in late:
        task.cancel()
    await asyncio.gather(*clients.values(), return_exceptions=True)
    await _settled(victim.node, samples, begin_s, attempts.total())
    held_up = [line for line in victim.node.logged() if line["event"] == "loop_held_up"]
    findings += judge(samples, held_up, seconds) + _defects(victim.node)
    return Outcome(attempts, samples, held_up, findings)


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


async def _sample(running: RunningNode, passed_s: float, attempts: int, findings: list[str]) -> Sample:
    try:
        await asyncio.to_thread(_check_health, running)
    except OSError as error:
        if running.process.poll() is None:
            findings.append(f"after {passed_s:.0f} s, no answer to the health check: {error}")
    return Sample(passed_s, memory_bytes(running), open_files(running), attempts)


def _check_health(running: RunningNode) -> None:
    """Whoever asks from the address that floods the port may have to ask again."""
    for attempt in range(HEALTH_ATTEMPTS):
        try:
            with urlopen(f"http://{running.admin}/healthz", timeout=HEALTH_S) as answer:
                answer.read()
            return
        except OSError:
            if attempt == HEALTH_ATTEMPTS - 1:
                raise


async def _settled(running: RunningNode, samples: list[Sample], begin_s: float, attempts: int) -> None:
    """The last sample: what is left once the clients are gone."""
    if running.process.poll() is not None:
        return
    end_s = time.monotonic() + SETTLE_S
    while open_files(running) > samples[0].files + FILES_MORE and time.monotonic() < end_s:
        await asyncio.sleep(0.2)
    samples.append(Sample(time.monotonic() - begin_s, memory_bytes(running), open_files(running), attempts))


def judge(samples: Sequence[Sample], held_up: Sequence[dict[str, Any]], seconds: float) -> list[str]:
    """What of it should not be. A loop that waited for its turn on a busy machine was not held up by its own doing."""
    found = []
    own = [min(line["delay_s"], line["cpu_s"]) for line in held_up]
    if worst := [line for line, each_s in zip(held_up, own, strict=True) if each_s > HELD_UP_S]:
        found.append(f"the loop was held up {len(worst)} times, for {max(own):.2f} s at worst: {worst[0]['where']}")
    first, last = samples[0], samples[-1]
    if last.files > first.files + FILES_MORE:
        found.append(f"{last.files} descriptors at the end, {first.files} at the beginning")
    warm = next((each for each in samples if each.at_s >= WARM * seconds), last)
    is_long = seconds >= GROWTH_SECONDS
    if is_long and last.memory_bytes > warm.memory_bytes * (1 + GROWTH_SHARE) + GROWTH_BYTES:
        found.append(f"memory grew from {warm.memory_bytes >> 20} MiB, when it was warm, to {last.memory_bytes >> 20}")
    return found


def _defects(running: RunningNode) -> list[str]:
    said = running.said()
    lines = [line for line in said.splitlines() if any(each in line for each in DEFECTS)]
    return [f"{len(lines)} lines of the log tell of a defect: {lines[0][-2500:]}"] if lines else []


def markdown(outcome: Outcome) -> str:
    """The tables for docs/testing.md."""
    lines = ["| client | attempts |", "|---|--:|"]
    lines += [f"| `{name}` | {count:,} |" for name, count in outcome.attempts.items()]
    lines += ["", "| after | attempts | memory | descriptors |", "|--:|--:|--:|--:|"]
    step = max(len(outcome.samples) // SAMPLES_SHOWN, 1)
    for each in [*outcome.samples[:-1:step], outcome.samples[-1]]:
        lines.append(f"| {each.at_s:.0f} s | {each.attempts:,} | {each.memory_bytes >> 20} MiB | {each.files} |")
    longest = max(outcome.held_up, key=lambda line: min(line["delay_s"], line["cpu_s"]), default=None)
    told = "none over 100 ms" if longest is None else f"{longest['delay_s']} s, of which {longest['cpu_s']} s CPU time"
    lines += ["", f"Longest delay of the loop: {told}."]
    lines += ["", *(f"FINDING: {each}" for each in outcome.findings or ())]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz_ports", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--client", action="append", choices=list(CLIENTS), help="only this one (repeatable)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long (default: an hour)")
    parser.add_argument("--seed", type=int, default=1, help="other inputs for another number (default 1)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory, victim_in(Path(directory), options.seed) as victim:
        outcome = asyncio.run(attack(victim, options.client or list(CLIENTS), options.seconds))
        findings = list(outcome.findings)
        if victim.node.process.poll() is not None or victim.node.end() != 0:
            findings.append(f"the node ended with {victim.node.process.returncode}: {victim.node.said()[-2000:]}")
    print(markdown(Outcome(outcome.attempts, outcome.samples, outcome.held_up, findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
