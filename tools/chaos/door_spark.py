"""Spark during the faults: ``archive`` and a query that writes to the mesh. A driver that ends is started again."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from tools.chaos.drivers import DRIVERS, environment
from tools.chaos.load import Load

AGAIN_S: Final = 3.0  # before a driver that ended is started again
END_S: Final = 90.0  # for one that is asked to end
TOLD: Final = 800  # characters of what it said


async def drive(load: Load) -> None:
    """SIGUSR1 has the driver killed, its Java and its workers with it."""
    name = load.name.rstrip("0123456789")
    command = DRIVERS[name](load.settings, is_last=False)
    kill = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, kill.set)
    log = Path(load.settings.journals).parent / "logs" / f"{name}-driver.log"
    while not load.over.is_set():
        kill.clear()
        with log.open("ab") as said:
            driver = await asyncio.create_subprocess_exec(
                *command, stdout=said, stderr=said, env=environment(), start_new_session=True
            )
        load.journal.note("driver_started", pid=driver.pid)
        ended = asyncio.create_task(driver.wait())
        waits = [asyncio.create_task(event.wait()) for event in (load.over, kill)]
        await asyncio.wait((ended, *waits), return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if kill.is_set() and not ended.done():
            load.journal.note("driver_killed")
            end(driver.pid, signal.SIGKILL)
        elif not ended.done():
            driver.terminate()
        try:
            async with asyncio.timeout(END_S):
                status = await ended
        except TimeoutError:
            status = None
        end(driver.pid, signal.SIGKILL)  # whatever it has left behind
        told = log.read_bytes()[-TOLD:].decode(errors="replace")
        load.journal.note("driver_ended", status=status, by=kill.is_set(), told=told)
        await load.rest(AGAIN_S)


def end(group: int, number: signal.Signals) -> None:
    """All processes of a driver: it leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)
