"""``weft up`` in a process that kills itself before its n-th change to the disk: for the tests of first starts.

A change is what Python asks the system for below the given directory: a directory that is made, a file that takes its
name (all files are written under another one first) or is removed. Run as ``python -m
tests.security.attacks.killed_start DIRECTORY STEPS_MAX``. The process imports everything and then forks for each start,
so a start costs a fraction of a second.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from weft.security.api_keys import hash_secret

CHANGES: Final = {"os.mkdir", "os.rename", "os.remove"}


def kill_before(step: int, below: Path) -> None:
    """From now on, the ``step``-th change below the directory ends this process as a power cut would."""
    left = step

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event not in CHANGES or not str(arguments[0]).startswith(str(below)):
            return
        if os.path.exists(arguments[0]) == (event == "os.mkdir"):  # noqa: PTH110  may be bytes or a path
            return  # there is nothing to make, or nothing to remove
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def in_child(work: Callable[[], None], output: Path) -> int:
    """The wait status of a child that does this; what it writes goes to the file."""
    child = os.fork()
    if child == 0:
        with output.open("ab") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        try:
            work()
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def start_until_ready(arguments: Sequence[str]) -> None:
    """``weft`` with these arguments, over with status 0 as soon as it would say that it is ready."""
    from weft.cli import up_work
    from weft.cli.main import main

    up_work._say_ready = lambda *_: os._exit(0)
    sys.argv = ["weft", *arguments]
    main()


def main() -> None:
    """Start and kill at every step, each time with a new directory, and start again without harm.

    Prints a line for each step: its number, the status of the killed start and that of the next one.
    """
    import weft.cli.up_work  # noqa: F401  what a start needs, once for all children

    patch("os.fsync").start()  # a process that is killed leaves what it has written, synced or not
    patch("weft.security.key_store.hash_secret", partial(hash_secret, n=2)).start()  # a hash that takes no time
    base = Path(sys.argv[1])
    for step in range(1, int(sys.argv[2])):
        place = base / str(step)
        place.mkdir()
        os.environ["WEFT_CONFIG_DIR"] = str(place / "config")
        arguments = ["up", "--data", str(place / "data"), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]

        def killed(step: int = step, place: Path = place, arguments: list[str] = arguments) -> None:
            kill_before(step, place)
            start_until_ready(arguments)

        first = in_child(killed, place / "first.log")
        second = in_child(partial(start_until_ready, arguments), place / "second.log")
        print(step, first, second, flush=True)  # noqa: T201  what its caller reads
        if first != signal.SIGKILL:
            return  # it had fewer steps


if __name__ == "__main__":
    main()
