"""Attack every decoder with damaged inputs. Run by ``make fuzz``.

Targets are found in tests/fuzz/targets_*.py. An input is a finding when its target raises, takes over a second, asks
for more than 512 MiB, or takes the interpreter down; it is kept in build/fuzz/, and the run goes on.

The engine ``mutate`` needs nothing and repeats itself exactly for the same ``--seed``. The engine ``atheris`` is
guided by coverage, and so gets deeper; it needs ``pip install atheris``, is slower, and does not repeat itself.

Exit status: 0; 1 if there were findings or it was interrupted (with ``--replay``: if it fails still); 2 if there is
nothing to do.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # as pytest does; a script has only its own folder there

from tools.fuzzing.supervisor import HANG_CPU_S, Engine, Result, Supervisor, progress  # noqa: E402
from tools.fuzzing.targets import BadTargets, Target, load_targets  # noqa: E402
from tools.fuzzing.worker import limit_memory, unlimit_memory  # noqa: E402

RUNS = 1_000_000


class TooSlow(Exception):
    """Raised in the middle of a replay that hangs, so that its traceback says where."""


@contextlib.contextmanager
def deadline() -> Iterator[None]:
    """Interrupt what takes too long."""

    def on_alarm(*_: object) -> None:
        raise TooSlow(f"still not done after {HANG_CPU_S:g} s")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, HANG_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def replay(target: Target, data: bytes) -> bool:
    """Run one input in this process under a worker's limits, showing what it raises. True if it went well."""
    for seed in target.seeds:
        with contextlib.suppress(BaseException), deadline():
            target.run(seed)  # as a worker does: what the seeds load must not count as this input's memory
    limit_memory()
    try:
        with deadline():
            target.run(data)
    except BaseException:
        traceback.print_exc()
        return False
    finally:
        unlimit_memory()
    print(f"{target.name} takes these {len(data)} bytes well")
    return True


def markdown(results: Iterable[Result]) -> str:
    """The table for docs/testing.md."""
    lines = ["| target | executions | duration | executions/s | findings |", "|---|--:|--:|--:|--:|"]
    for result in results:
        numbers = f"{result.executions:,} | {result.duration_s:.1f} s | {result.rate:,.0f} | {len(result.findings)}"
        lines.append(f"| `{result.target}` | {numbers} |")
    return "\n".join(lines)


def as_json(results: Iterable[Result]) -> str:
    rows = [
        {
            "target": result.target,
            "executions": result.executions,
            "duration_s": round(result.duration_s, 3),
            "findings": [
                {"what": finding.what, "detail": finding.detail, "input": finding.data.hex()}
                for finding in result.findings.values()
            ],
        }
        for result in results
    ]
    return msgspec.json.format(msgspec.json.encode(rows), indent=1).decode()


def say(line: str, is_progress: bool) -> None:
    """To stderr; on a terminal, progress overwrites itself."""
    if sys.stderr.isatty():
        print("\r\033[K" + line, end="" if is_progress else "\n", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"executions per target (default {RUNS:,})")
    parser.add_argument("--seconds", type=float, help="stop a target after so long, even if runs are left")
    parser.add_argument("--seed", type=int, default=1, help="other inputs for another number (default 1)")
    parser.add_argument("--engine", type=Engine, choices=list(Engine), default=Engine.MUTATE)
    parser.add_argument(
        "--workers", type=int, default=min(2, os.cpu_count() or 1), help="processes (default %(default)s)"
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this one input of --target, show what happens")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Markdown table")
    parser.add_argument("--dir", type=Path, default=ROOT / "tests" / "fuzz", help="where the targets are")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz", help="where findings are kept")
    return parser.parse_args(arguments)


def choose(targets: dict[str, Target], names: list[str]) -> list[Target]:
    """The targets of these names, all of them if there are none."""
    if not targets:
        raise BadTargets("there are no targets")
    if unknown := [name for name in names if name not in targets]:
        raise BadTargets(f"no target {', '.join(unknown)}; there are {', '.join(targets)}")
    return [targets[name] for name in names or targets]


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        targets = choose(load_targets(options.dir), options.target)
        if options.replay and len(targets) != 1:
            raise BadTargets("--replay needs one --target")
        if options.engine is Engine.ATHERIS and importlib.util.find_spec("atheris") is None:
            raise BadTargets("atheris is not installed: pip install atheris")
    except BadTargets as error:
        print(error, file=sys.stderr)
        return 2
    if options.replay:
        return 0 if replay(targets[0], options.replay.read_bytes()) else 1
    results: list[Result] = []
    was_interrupted = False
    with Supervisor(options.engine, options.out, options.workers, say) as supervisor:
        try:
            for target in targets:
                results.append(supervisor.fuzz(target, options.runs, options.seconds, options.seed))
                say(progress(target.name, results[-1].executions, options.runs, results[-1]), False)
        except KeyboardInterrupt:
            was_interrupted = True
            say("interrupted: what follows are the targets that were finished", False)
    print(as_json(results) if options.json else markdown(results))
    return 1 if was_interrupted or any(result.findings for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
