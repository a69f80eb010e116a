"""Hands jobs to workers, watches them, and keeps what they find.

A worker that spends too long on one input is ended, and one that dies is noticed; either way the input at fault stands
in the shared memory and becomes a finding, and a new worker goes on behind it.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from multiprocessing.connection import wait
from pathlib import Path

from tools.fuzzing.targets import Target
from tools.fuzzing.worker import SLOT_BYTES, Done, Finding, Job, Slot, serve, serve_atheris

JOB_RUNS = 100_000  # some seconds of work: workers finish almost together, and one that is replaced repeats little
HANG_CPU_S = 1.0  # of the worker's own time, so that a busy machine is not taken for a hang
HANG_WALL_S = 10.0  # for those who hang without computing
RESTARTS_MAX = 10  # per target: then its findings are too many to be worth more time
POLL_S = 0.1
PROGRESS_S = 1.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

SPAWN = multiprocessing.get_context("spawn")  # a fork would copy the threads of Arrow and gRPC in an unknown state


class Engine(StrEnum):
    """Who makes the inputs."""

    MUTATE = "mutate"
    ATHERIS = "atheris"


@dataclass(slots=True)
class Result:
    """How a target fared. Findings by what they are: one input each."""

    target: str
    executions: int = 0
    duration_s: float = 0.0
    restarts: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.executions / self.duration_s if self.duration_s else 0.0


class Worker:
    """The supervisor's end of a worker process."""

    def __init__(self, engine: Engine, out: Path) -> None:
        memory = SPAWN.RawArray(ctypes.c_ubyte, SLOT_BYTES)
        self.pipe, theirs = SPAWN.Pipe()
        self.slot = Slot(memory)
        if engine is Engine.MUTATE:
            self.process = SPAWN.Process(target=serve, args=(memory, theirs), daemon=True)
        else:
            self.process = SPAWN.Process(target=serve_atheris, args=(memory, theirs, out), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.number = 0
        self.since_cpu_s = 0.0
        self.since_s = 0.0

    def begin(self, job: Job) -> None:
        self.job = job
        self.number = 0
        self.slot.word[0] = 0
        self.pipe.send(job)

    @property
    def executed(self) -> int:
        """Executions of the present job so far."""
        assert self.job is not None, "only a busy worker executes"
        return max(0, self.slot.read()[0] - self.job.first)

    def is_hanging(self, now_s: float) -> bool:
        """Has it been at the same input for too long?"""
        number, _ = self.slot.read()
        cpu_s = process_cpu_s(self.process.pid)
        if number != self.number or number == 0:
            self.number, self.since_s, self.since_cpu_s = number, now_s, cpu_s
        return cpu_s - self.since_cpu_s >= HANG_CPU_S or now_s - self.since_s >= HANG_WALL_S

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()


def process_cpu_s(pid: int | None) -> float:
    """CPU time that a process has used; 0 once it is gone, or where the system does not tell."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(after_name[11]) + int(after_name[12])) / TICKS_PER_S


class Supervisor:
    """Runs targets, one after the other, each on all workers."""

    def __init__(self, engine: Engine, out: Path, workers_max: int, say: Callable[[str, bool], None]) -> None:
        self.engine = engine
        self.out = out
        self.workers_max = workers_max
        self.say = say  # a line of text, and whether it only shows progress
        self.workers: list[Worker] = []

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        while self.workers:
            self.workers.pop().end()

    def fuzz(self, target: Target, runs: int, seconds: float | None, seed: int) -> Result:
        """Execute ``target`` ``runs`` times, or for as long as ``seconds`` allow."""
        result = Result(target.name)
        jobs = self.plan(target, runs, seed)
        start_s = said_s = time.monotonic()
        busy: list[Worker] = []
        while jobs or busy:
            idle = [worker for worker in self.workers if worker not in busy]
            while jobs and len(busy) < self.workers_max:
                busy.append(idle.pop() if idle else self.hire())
                busy[-1].begin(jobs.popleft())
            wait([worker.pipe for worker in busy], timeout=POLL_S)
            now_s = time.monotonic()
            for worker in list(busy):
                if self.attend(worker, now_s, result, jobs):
                    busy.remove(worker)
            result.duration_s = now_s - start_s
            if now_s - said_s >= PROGRESS_S:
                said_s = now_s
                done = result.executions + sum(worker.executed for worker in busy)
                self.say(progress(target.name, done, runs, result), True)
            if result.restarts >= RESTARTS_MAX:
                self.say(f"{target.name}: given up after {result.restarts} hangs and crashes", False)
                break
            if seconds is not None and result.duration_s >= seconds:
                break
        for worker in busy:
            result.executions += worker.executed
            self.dismiss(worker)
        return result

    def plan(self, target: Target, runs: int, seed: int) -> deque[Job]:
        """The jobs that make up a run. They depend on the seed alone, not on who does them."""
        size = JOB_RUNS if self.engine is Engine.MUTATE else -(-runs // self.workers_max)
        return deque(
            Job(target.name, target.path, f"{seed}/{target.name}/{number}", 0, min(size, runs - at))
            for number, at in enumerate(range(0, runs, size))
        )

    def attend(self, worker: Worker, now_s: float, result: Result, jobs: deque[Job]) -> bool:
        """See what a busy worker has to say and how it is. True once it is busy no more."""
        with contextlib.suppress(EOFError, ConnectionResetError):  # it died: see below
            while worker.pipe.poll():
                message: Finding | Done = worker.pipe.recv()
                match message:
                    case Finding():
                        self.keep(message, result)
                    case Done():
                        result.executions += worker.executed
                        worker.job = None
                        return True
        if worker.process.is_alive() and not worker.is_hanging(now_s):
            return False
        self.succeed(worker, result, jobs)
        return True

    def succeed(self, worker: Worker, result: Result, jobs: deque[Job]) -> None:
        """Dismiss a worker that hangs or is dead: its input is to blame, and the rest of its job remains to be done."""
        number, data = worker.slot.read()
        job, code = worker.job, worker.process.exitcode
        assert job is not None, "only busy workers are replaced"
        result.executions += worker.executed
        self.dismiss(worker)
        if code == 0:
            return  # libFuzzer leaves like this when it has done its runs
        what = f"took over {HANG_CPU_S:g} s" if code is None else describe_exit(code)
        if number == 0:
            raise RuntimeError(f"a worker {what} before its first execution; its own output says why")
        digest = hashlib.sha256(data).hexdigest()[:8]  # nothing else tells one hang or crash from another
        self.keep(Finding(job.target, f"{what} (input {digest})", "", data), result)
        result.restarts += 1
        if number < job.last:
            jobs.appendleft(replace(job, first=number))

    def hire(self) -> Worker:
        worker = Worker(self.engine, self.out)
        self.workers.append(worker)
        return worker

    def dismiss(self, worker: Worker) -> None:
        self.workers.remove(worker)
        worker.end()

    def keep(self, finding: Finding, result: Result) -> None:
        """Save the input and say how to see it fail again; the first of its kind only."""
        if finding.what in result.findings:
            return
        result.findings[finding.what] = finding
        folder = self.out / finding.target
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{hashlib.sha256(finding.data).hexdigest()[:16]}.bin"
        path.write_bytes(finding.data)
        detail = f": {finding.detail}" if finding.detail else ""
        self.say(f"FINDING {finding.target}: {finding.what}{detail}", False)
        self.say(f"  replay: python tools/fuzz.py --target {finding.target} --replay {path}", False)


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended the process with status {code}"
    return f"killed the process with {signal.Signals(-code).name}"


def progress(name: str, done: int, runs: int, result: Result) -> str:
    rate = done / result.duration_s if result.duration_s else 0.0
    return f"{name}: {done:,} of {runs:,}, {rate:,.0f}/s, findings {len(result.findings)}"
