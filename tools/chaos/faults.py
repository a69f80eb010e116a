"""Does what the schedule says to a mesh, and writes down when each fault began and ended."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from tools.chaos.journal import Journal
from tools.chaos.nodes import ChaosNode, Mesh, NodeFailed
from tools.chaos.schedule import Fault

FLIPS: Final = 3
SHUT_OUT_S: Final = 90.0  # for a revoked key to be refused, whatever else happens meanwhile
USE_S: Final = 5.0
ATTEMPTS: Final = 5
GIVEN_UP: Final = re.compile(r"given up: (\S+)@(\S+)/(\d+):e(\d+) offsets (\d+) to (\d+)")
StartDoor = Callable[[str, int, dict[str, str]], subprocess.Popen[bytes]]
TAKE_PART_S: Final = 120.0  # for what a guest has taken to have its receipts


class Faults:
    """``start_door(name, index, environment)`` starts a process of the load, ``kill_drivers()`` ends Spark's."""

    def __init__(
        self, mesh: Mesh, journal: Journal, seed: int, start_door: StartDoor, kill_drivers: Callable[[], None]
    ) -> None:
        self._mesh, self._journal, self._start_door, self._kill_drivers = mesh, journal, start_door, kill_drivers
        self._chance = Random(f"{seed} faults")  # noqa: S311 - no secret
        self._locks = {name: threading.Lock() for name in mesh.nodes}
        self._keys = 0
        self.defects: list[str] = []  # what a node or a command did that it must not do

    def do(self, fault: Fault) -> None:
        """Until it is over. Faults of different nodes run at once, each in a thread."""
        self._journal.note("fault", phase="began", what=fault.as_json())
        try:
            getattr(self, f"_{fault.kind}")(fault)
        except Exception as error:  # in a thread of its own: nobody else would hear of it
            self.defects.append(f"{fault.kind} at {fault.at_s:.0f} s: {type(error).__name__}: {error}")
            self._journal.note("defect", fault=fault.kind, at_s=fault.at_s, what=str(error)[:2000])
        self._journal.note("fault", phase="ended", what=fault.as_json())

    @contextmanager
    def _alone(self, name: str) -> Iterator[ChaosNode]:
        """Nobody else stops or starts this node meanwhile."""
        with self._locks[name]:
            yield self._mesh.nodes[name]

    def _kill(self, fault: Fault) -> None:
        with self._alone(fault.target) as node:
            node.kill()
            time.sleep(fault.lasts_s)
            node.start()

    def _pause(self, fault: Fault) -> None:
        with self._alone(fault.target) as node:
            node.signal(signal.SIGSTOP)
            time.sleep(fault.lasts_s)
            node.signal(signal.SIGCONT)

    def _cut(self, fault: Fault) -> None:
        self._mesh.network.cut(fault.target, fault.other, on=True)
        time.sleep(fault.lasts_s)
        self._mesh.network.cut(fault.target, fault.other, on=False)

    def _isolate(self, fault: Fault) -> None:
        self._mesh.network.isolate(fault.target, on=True)
        time.sleep(fault.lasts_s)
        self._mesh.network.isolate(fault.target, on=False)

    def _lossy(self, fault: Fault) -> None:
        self._mesh.network.lose(fault.target, fault.amount, on=True)
        time.sleep(fault.lasts_s)
        self._mesh.network.lose(fault.target, fault.amount, on=False)

    def _slow(self, fault: Fault) -> None:
        self._mesh.network.slow(fault.target, fault.amount, on=True)
        time.sleep(fault.lasts_s)
        self._mesh.network.slow(fault.target, fault.amount, on=False)

    def _clock(self, fault: Fault) -> None:
        clock = self._mesh.nodes[fault.target].clock
        clock.set(int(fault.amount))
        time.sleep(fault.lasts_s)
        clock.set(0)

    def _disk(self, fault: Fault) -> None:
        disk = self._mesh.nodes[fault.target].disk
        disk.fill()
        time.sleep(fault.lasts_s)
        disk.make_room()

    def _flip(self, fault: Fault) -> None:
        """A node that notices does not start; then it is repaired, which says what it gives up."""
        with self._alone(fault.target) as node:
            node.kill()
            where = self._flip_bytes(node)
            try:
                node.start()
                self._journal.note("flipped", node=node.name, where=where, noticed=False)
            except NodeFailed:
                self._repair(node, where)

    def _flip_bytes(self, node: ChaosNode) -> str:
        """In the part of the newest write-ahead log that has data; the rest was only made long."""
        files = sorted((node.data / "db").glob("*.log"), key=lambda path: path.stat().st_mtime)
        path = files[-1]
        used = len(path.read_bytes().rstrip(b"\0"))
        places = [self._chance.randrange(used) for _ in range(FLIPS)] if used else []
        with path.open("r+b") as file:
            for place in places:
                file.seek(place)
                old = file.read(1)[0]
                file.seek(place)
                file.write(bytes([old ^ 1 << self._chance.randrange(8)]))
        return f"{path.name} of {used} bytes at {places}"

    def _repair(self, node: ChaosNode, where: str) -> None:
        began = time.monotonic()
        checked = node.weft("log", "check", "--data", str(node.data), "--json")
        looked = time.monotonic()
        repaired = node.weft("log", "repair", "--data", str(node.data), "--yes")
        took = {"check_s": round(looked - began, 1), "repair_s": round(time.monotonic() - looked, 1)}
        if repaired.returncode:
            raise NodeFailed(f"{node.name} cannot be repaired ({where}): {repaired.stderr}")
        findings = json.loads(checked.stdout) if checked.stdout.startswith("{") else {}
        said = repaired.stdout + repaired.stderr
        for topic, origin, partition, epoch, first, last in GIVEN_UP.findall(said):
            stream = [topic, origin, int(partition), int(epoch)]
            self._journal.note("given_up", node=node.name, stream=stream, first=int(first), last=int(last))
        facts = {"check": findings, "repair": said, "took": took}
        self._journal.note("flipped", node=node.name, where=where, noticed=True, **facts)
        node.start()

    def _rotate(self, fault: Fault) -> None:
        first = self._mesh.nodes["a"]
        with self._alone("a"):
            done = first.weft("ca", "rotate", "--data", str(first.data))
        if done.returncode:
            raise NodeFailed(f"the CA was not rotated: {done.stderr}")

    def _revoke(self, fault: Fault) -> None:
        """The key is used, then revoked; within SHUT_OUT_S nobody may take it."""
        self._keys += 1
        number = self._keys
        facts = self._admin("keys", "create", "--name", f"chaos-{number}", "--publish", "chaos.>")
        process = self._start_door("revoked", number, {"CHAOS_KEY": facts["key"]})
        try:
            time.sleep(USE_S)
            self._admin("keys", "revoke", facts["id"])
            self._journal.note("revoked", door=f"revoked{number}")
            process.wait(SHUT_OUT_S)
        except subprocess.TimeoutExpired:
            pass  # the checker has its journal
        finally:
            process.terminate()
            process.wait(60)

    def _admin(self, *words: str) -> dict[str, Any]:
        """Ask one node after the other: some may be down."""
        config = {"WEFT_CONFIG_DIR": str(self._mesh.nodes["a"].config)}
        said = ""
        for _ in range(ATTEMPTS):
            for node in self._mesh.nodes.values():
                done = node.weft(*words, "--json", "--context", "default", "--node", node.address, extra=config)
                if done.returncode == 0:
                    found: dict[str, Any] = json.loads(done.stdout) if done.stdout.startswith("{") else {}
                    return found
                said = done.stderr
        raise NodeFailed(f"no node did this: weft {' '.join(words)}: {said}")

    def _upgrade(self, fault: Fault) -> None:
        for name in self._mesh.nodes:
            with self._alone(name) as node:
                status = node.stop()
                if status:
                    self.defects.append(f"{name} ended with {status} after SIGTERM")
                node.start()

    def _drivers(self, fault: Fault) -> None:
        self._kill_drivers()

    def _guest(self, fault: Fault) -> None:
        """A node joins, takes events, says goodbye (`weft leave`), and never comes back."""
        guest = self._mesh.guest
        with self._alone("a"):  # which makes its token
            self._mesh.enrol(guest)
        process = self._start_door("guest", 0, {"CHAOS_GUEST": guest.address})
        time.sleep(fault.lasts_s)
        process.terminate()  # it waits for its receipts
        if process.wait(TAKE_PART_S + USE_S):
            self.defects.append("the guest's door failed")
        config = {"WEFT_CONFIG_DIR": str(self._mesh.nodes["a"].config)}
        left = guest.weft("leave", "--context", "default", "--node", guest.address, extra=config)
        if left.returncode:
            raise NodeFailed(f"the guest did not leave: {left.stderr}")
        status = guest.wait()
        self._journal.note("left", node=guest.name, status=status)
        if status:
            self.defects.append(f"the guest ended with {status} after it left")


def run_schedule(faults: Faults, schedule: tuple[Fault, ...], began: float, tell: Callable[[Fault], None]) -> None:
    """Each at its time, in a thread of its own; return when all are over."""
    threads = []
    for fault in schedule:
        time.sleep(max(0.0, began + fault.at_s - time.monotonic()))
        tell(fault)
        thread = threading.Thread(target=faults.do, args=(fault,), daemon=True)
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
