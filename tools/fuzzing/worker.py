"""A process that runs a target on one input after the other.

Before each execution it puts the input into memory shared with the supervisor. If it hangs or dies then, the supervisor
knows on what. Exceptions are reported over the pipe, the first of each kind.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

from tools.fuzzing.mutator import GROWTH_BYTES, inputs
from tools.fuzzing.targets import INPUT_BYTES_MAX, Target, load_file

MEMORY_BYTES_MAX = 512 << 20  # what a target may allocate on top of what its seeds needed
SLOT_BYTES = 8 + INPUT_BYTES_MAX
LENGTH_BITS = 24

Memory = ctypes.Array[ctypes.c_ubyte]  # of SLOT_BYTES, shared by supervisor and worker


@dataclass(frozen=True, slots=True)
class Job:
    """Inputs number ``first`` + 1 to ``last`` of the sequence that ``seed`` stands for."""

    target: str
    path: Path
    seed: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that did what none may do. ``what`` is the same for all inputs that show the same fault."""

    target: str
    what: str
    detail: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The job is finished."""


class Slot:
    """The shared memory: number:40 length:24 (one 64-bit word, native order), then the input.

    The number says how many executions of the job have begun; 0 says that none has.
    """

    def __init__(self, memory: Memory) -> None:
        whole = memoryview(memory).cast("B")
        self.word = whole[:8].cast("Q")
        self.room = whole[8:]

    def read(self) -> tuple[int, bytes]:
        word = self.word[0]
        return word >> LENGTH_BITS, bytes(self.room[: word & (1 << LENGTH_BITS) - 1])


class Runner:
    """Executes one target and reports each kind of fault once."""

    def __init__(self, target: Target, slot: Slot, report: Callable[[Finding], None]) -> None:
        self.target = target
        self.slot = slot
        self.report = report
        self.known: set[str] = set()

    def run(self, datas: Iterable[bytes], number: int) -> int:
        """Execute all of them, counting on from ``number``; return the number reached."""
        target, word, room = self.target.run, self.slot.word, self.slot.room
        for data in datas:
            number += 1
            size = len(data)
            room[:size] = data
            word[0] = number << LENGTH_BITS | size
            try:
                target(data)
            except BaseException as error:  # not only Exception: panics of Rust libraries and SystemExit count, too
                self.note(error, data)
        return number

    def note(self, error: BaseException, data: bytes) -> None:
        finding = describe(self.target.name, error, data)
        if finding.what not in self.known:
            self.known.add(finding.what)
            self.report(finding)


def describe(target: str, error: BaseException, data: bytes) -> Finding:
    """The finding for an exception: faults are told apart by type and by the line that raised."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    is_greedy = isinstance(error, MemoryError)
    fault = f"more than {MEMORY_BYTES_MAX >> 20} MiB of memory" if is_greedy else type(error).__name__
    return Finding(target, f"{fault} at {Path(innermost.filename).name}:{innermost.lineno}", str(error), data)


def limit_memory() -> None:
    """Let allocations fail that go too far beyond the present size: all that is asked for counts, used or not."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        wanted = int(statm.read_text().split()[0]) * resource.getpagesize() + MEMORY_BYTES_MAX
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def unlimit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def serve(memory: Memory, pipe: Connection) -> None:
    """The worker process of the engine ``mutate``: jobs in, findings and Done out, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, who ends us
    targets: dict[str, Target] = {}
    slot = Slot(memory)
    limited = ""
    while True:
        try:
            job: Job = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        if job.target not in targets:
            targets |= load_file(job.path)
        target = targets[job.target]
        slot.word[0] = 0
        runner = Runner(target, slot, pipe.send)
        number = job.first
        if limited != job.target:
            # Once per target and not per job, so that slow leaks add up. The seeds go first, even if this job is the
            # rest of one: what they load (Arrow reserves a GiB when it is first used) is not the doing of any input.
            unlimit_memory()
            number = runner.run(target.seeds[: job.last - number], number)
            limit_memory()
            limited = job.target
        runner.run(islice(inputs(target.seeds, job.seed, job.last), number, None), number)
        pipe.send(Done())


def serve_atheris(memory: Memory, pipe: Connection, out: Path) -> None:
    """The worker process of the engine ``atheris``: one job, at the end of which libFuzzer ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job: Job = pipe.recv()
    except (EOFError, ConnectionResetError):
        return
    corpus = out / job.target / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    with (out / job.target / "atheris.log").open("ab") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())  # libFuzzer has much to say

    atheris = importlib.import_module("atheris")  # optional, and has to come before the code it instruments
    with atheris.instrument_imports(include=["weft"], enable_loader_override=False):
        target = load_file(job.path)[job.target]
    atheris.instrument_func(target.run)
    for seed in target.seeds:
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)

    runner = Runner(target, Slot(memory), pipe.send)
    number = runner.run(target.seeds, job.first)
    limit_memory()

    def run_one(data: bytes) -> None:
        nonlocal number
        number = runner.run((data,), number)

    entropy = int.from_bytes(hashlib.sha256(f"{job.seed}/{job.first}".encode()).digest()[:4], "big")
    bytes_max = max(map(len, target.seeds), default=0) + GROWTH_BYTES
    flags = [f"-runs={max(0, job.last - number)}", f"-seed={entropy}", f"-max_len={bytes_max}"]
    atheris.Setup(["fuzz", *flags, "-handle_int=0", "-rss_limit_mb=0", str(corpus)], run_one)
    atheris.Fuzz()
