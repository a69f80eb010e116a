"""Run the simulated mesh over many seeds. Run by ``make sim``.

    .venv/bin/python tools/sim.py --seeds 10000 --jobs 2
    .venv/bin/python tools/sim.py --seeds 1000 --liars
    .venv/bin/python tools/sim.py --seed 4711 --trace
    .venv/bin/python tools/sim.py --seed 4711 --shrink

A seed that fails is named, with what was broken and the last lines of its trace. It fails again, at the same point and
with the same trace, when it is run with ``--seed``. One seed in twenty has up to 30 nodes. The first seed that fails is
shrunk: what is left of it is told as a story, with the command that replays it.

Exit status: 0; 1 if a promise was broken or a node raised.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from weft.testing.sim import run
from weft.testing.sim.chaos import Record
from weft.testing.sim.shrinking import Course, Shrinking, kind_of, read_course

LARGE_EVERY = 20
CHUNK = 20  # seeds given to a process at a time
PROGRESS_S = 10.0
LINES_SHOWN = 40
STORY_LINES_MAX = 150  # the end of a story, which says most
SHRINK_S = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """``failure``: empty if all went well."""

    seed: int
    failure: str = ""
    virtual_s: float = 0.0
    receipts: int = 0
    delivered: int = 0


def is_large(seed: int) -> bool:
    return seed % LARGE_EVERY == 0


def try_seed(seed: int, liars: bool) -> Outcome:
    try:
        world = run(seed, large=is_large(seed) and not liars, liars=liars)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return Outcome(seed, f"{type(error).__name__}: {error}\n{notes}")
    return Outcome(seed, "", world.schedule.now_s, world.desk.receipts, world.truth.events_delivered)


def try_seeds(liars: bool, seeds: list[int]) -> list[Outcome]:
    return [try_seed(seed, liars) for seed in seeds]


def chunks(first: int, count: int) -> Iterator[list[int]]:
    seeds = iter(range(first, first + count))
    while chunk := list(islice(seeds, CHUNK)):
        yield chunk


def replay(seed: int, *, liars: bool, shows_all: bool) -> bool:
    """Run one seed with its trace; whether it went well."""
    lines: list[str] = []
    failure = ""
    try:
        large, on_line = is_large(seed) and not liars, print if shows_all else lines.append
        world = run(seed, large=large, liars=liars, traces=True, on_line=on_line)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}\n" + "\n".join(getattr(error, "__notes__", ()))
    if not failure:
        print(
            f"seed {seed}: all promises kept, {world.schedule.now_s:.1f} s, trace {world.schedule.trace.checksum:08x}"
        )
        return True
    for line in lines[-LINES_SHOWN:]:
        print(line if len(line) < 400 else f"{line[:400]}...")
    print(failure)
    return False


def fails(seed: int, course: Course, *, liars: bool, whole: Record, record: Record | None = None) -> str:
    """How a part of a seed ends; empty if all goes well. ``whole``: what all of the seed left."""
    kept = course.troubles
    replayed = [each for each in whole.troubles if kept is None or each.number in kept]
    try:
        large = is_large(seed) and not liars
        run(seed, large=large, liars=liars, simplify=course.mix_of, replayed=replayed, record=record)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def recorded(seed: int, *, liars: bool) -> tuple[Record, str]:
    """What the whole seed leaves, and how it ends."""
    whole = Record()
    try:
        run(seed, large=is_large(seed) and not liars, liars=liars, record=whole)
    except Exception as error:
        return whole, f"{type(error).__name__}: {error}"
    return whole, ""


def tell(seed: int, course: Course, *, liars: bool) -> bool:
    """Replay a part of a seed as a story; whether it went well."""
    whole, _ = recorded(seed, liars=liars)
    part = Record()
    failure = fails(seed, course, liars=liars, whole=whole, record=part)
    if len(part.story) > STORY_LINES_MAX:
        print(f"... {len(part.story) - STORY_LINES_MAX} lines before")
    for line in part.story[-STORY_LINES_MAX:]:
        print(line if len(line) < 200 else f"{line[:200]}...")
    print(failure or "all promises kept")
    return not failure


def shrink(seed: int, *, liars: bool, limit_s: float) -> bool:
    """The least of a seed that still fails in the same way, as a story; whether there was nothing to shrink."""
    begin_s = time.monotonic()
    whole, failure = recorded(seed, liars=liars)
    if not failure:
        print(f"seed {seed}: all promises kept, so there is nothing to shrink")
        return True
    shrinking = Shrinking(
        lambda course: fails(seed, course, liars=liars, whole=whole),
        lambda: time.monotonic() - begin_s >= limit_s,
        kind_of(failure),
    )
    course = shrinking.run(Course(tuple(each.number for each in whole.troubles)))
    took_s, kept = time.monotonic() - begin_s, course.troubles or ()
    cut_short = ", and there was no more time" if shrinking.is_over() else ""
    print(
        f"seed {seed}, shrunk from {len(whole.troubles)} troubles to {len(kept)} in {shrinking.tries} runs, "
        f"{took_s:.0f} s{cut_short}. Simpler: {', '.join(course.simpler) or 'nothing'}\n"
    )
    tell(seed, course, liars=liars)
    print(f'\nmake sim ARGS="--seed {seed} --course {course}{" --liars" if liars else ""}"')
    return False


def run_many(first: int, count: int, jobs: int, liars: bool) -> bool:
    """All seeds; whether all went well."""
    begin_s = shown_s = time.monotonic()
    failed: list[int] = []
    virtual_s, receipts, delivered, done = 0.0, 0, 0, 0
    with ProcessPoolExecutor(jobs) as pool:
        for outcomes in pool.map(partial(try_seeds, liars), chunks(first, count)):
            for outcome in outcomes:
                done += 1
                virtual_s += outcome.virtual_s
                receipts += outcome.receipts
                delivered += outcome.delivered
                if outcome.failure:
                    failed.append(outcome.seed)
                    print(f"seed {outcome.seed} failed: {outcome.failure}", flush=True)
            if time.monotonic() - shown_s >= PROGRESS_S:
                shown_s = time.monotonic()
                print(f"{done} of {count} seeds, {len(failed)} failed, {shown_s - begin_s:.0f} s", flush=True)
    took_s = time.monotonic() - begin_s
    print(
        f"{done} seeds, {len(failed)} failed; {virtual_s / 3600:.1f} virtual hours, {receipts} receipts, "
        f"{delivered} events delivered, in {took_s:.0f} s"
    )
    for seed in failed[:3]:
        print(f"\n--- seed {seed}")
        replay(seed, liars=liars, shows_all=False)
    if failed:
        print(f"\n--- seed {failed[0]}, as a story")
        shrink(failed[0], liars=liars, limit_s=SHRINK_S)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description="run the simulated mesh over many seeds")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: show everything that happens")
    parser.add_argument("--liars", action="store_true", help="with nodes that lie")
    parser.add_argument("--shrink", action="store_true", help="with --seed: find the least of it that still fails")
    parser.add_argument("--shrink-s", type=float, default=SHRINK_S, help="for so many seconds at most")
    parser.add_argument("--course", type=read_course, help="with --seed: replay what --shrink found")
    options = parser.parse_args()
    if options.seed is not None and options.course is not None:
        return 0 if tell(options.seed, options.course, liars=options.liars) else 1
    if options.seed is not None and options.shrink:
        return 0 if shrink(options.seed, liars=options.liars, limit_s=options.shrink_s) else 1
    if options.seed is not None:
        return 0 if replay(options.seed, liars=options.liars, shows_all=options.trace) else 1
    return 0 if run_many(options.first, options.seeds, options.jobs, options.liars) else 1


if __name__ == "__main__":
    sys.exit(main())
