"""An hour of chaos on a mesh of five nodes. Run by ``make chaos ARGS="--minutes 60 --seed 7"``.

Exit status: 0; 1 if the checker or the run found something; 2 if this machine cannot do it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from tools.chaos.checker import check
from tools.chaos.clock import build_clock
from tools.chaos.collect import read_logs, read_table
from tools.chaos.door_others import has_npm_agent
from tools.chaos.doors import NPM, READERS, SPARK, WRITERS, Door
from tools.chaos.drivers import DRIVERS, environment, table_of
from tools.chaos.faults import Faults, run_schedule
from tools.chaos.history import read_history
from tools.chaos.journal import Journal, read_journal
from tools.chaos.load import GatewayKey, Settings
from tools.chaos.network import Network, NoNetwork
from tools.chaos.nodes import GUEST, ChaosNode, Mesh, NodeFailed
from tools.chaos.report import Run, as_json, as_markdown
from tools.chaos.schedule import KINDS, plan, tell
from weft.emm_compact import Signer

ROOT: Final = Path(__file__).resolve().parents[2]
NODES: Final = ("a", "b", "c", "d", "e")
DRAIN_S: Final = 200.0  # for publishers to get their last receipts
CATCH_UP_S: Final = 300.0  # for readers to get what is left
# All nodes renew once or twice in an hour. A node that cannot reach the CA for a quarter of an hour is out of the mesh,
# as one is after eight hours in a real mesh: on a busy machine, the node with the CA can take minutes to be repaired.
CERTIFICATE_LIFE_S: Final = 2700
QUIET_S: Final = 12.0  # readers that get nothing for so long have everything
LAST_RUN_S: Final = 600.0


class Chaos:
    """One run, in a directory of its own."""

    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        self.place, self.seed, self.minutes, self.rate = place, options.seed, options.minutes, options.rate
        self.with_spark = not options.no_spark
        self.journals = place / "journals"
        self.journals.mkdir()
        self.skipped: list[str] = []
        asked = ("git", "describe", "--always", "--dirty")
        self.commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        library = build_clock(place)
        missing = {"clock"} if library is None else set()
        missing |= set() if self.with_spark else {"drivers"}
        self.kinds = tuple(kind for kind in KINDS if kind not in missing)
        if library is None:
            self.skipped.append("clock jumps: there is no C compiler")
        if not self.with_spark:
            self.skipped.append("Spark: --no-spark")
        if not has_npm_agent():
            self.skipped.append("the npm agent of Coaty: its packages are not here (`make node`)")
        self.network = Network((*NODES, GUEST))
        self.mesh = Mesh(NODES, place, self.network, library, options.certificate_life)
        self.schedule = plan(self.seed, self.minutes * 60, NODES, self.kinds)
        self.doors: dict[Door, subprocess.Popen[bytes]] = {}
        self.settings_file = place / "settings.json"

    def prepare(self) -> None:
        self.network.open()
        self.mesh.open()
        context = self.mesh.context()
        assert context.token is not None and context.tls_root is not None
        token = self.place / "token"
        token.touch(0o600)
        token.write_text(context.token)
        device, secret, seed, group = str(uuid4()), *(secrets.token_hex(32) for _ in range(3))
        self.settings = Settings(
            seed=self.seed,
            journals=str(self.journals),
            nodes={name: node.address for name, node in self.mesh.nodes.items()},
            token=context.token,
            root=context.tls_root,
            device=device,
            device_secret=secret,
            device_seed=seed,
            group_key=group,
            gateways=[self.introduce(node, device, secret, seed, group) for node in self.mesh.nodes.values()],
            coaty=self.mesh.coaty_addresses(),
            place=str(self.place),
            token_file=str(token),
            rate=self.rate,
        )
        settings = self.settings
        self.settings_file.touch(0o600)
        self.settings_file.write_bytes(msgspec.json.encode(settings))

    def introduce(self, node: ChaosNode, device: str, secret: str, seed: str, group: str) -> GatewayKey:
        """The device and the gateway to each other."""
        public = Signer(bytes.fromhex(group), bytes.fromhex(seed)).public_key.hex()
        of_device = ("--node-id", device, "--key-id", "00000001")
        for key in ((*of_device, "--hmac-key", secret), (*of_device, "--public-key", public), ("--group", group)):
            node.weft("trust", "add", "--data", str(node.data), *key).check_returncode()
        told = node.weft("emm", "identity", "--data", str(node.data), "--json")
        told.check_returncode()
        return msgspec.json.decode(told.stdout, type=GatewayKey)

    def start_door(self, name: str, index: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        words = (sys.executable, "-m", "tools.chaos.doors", str(self.settings_file), name, str(index))
        with (self.place / "logs" / f"{name}{index}.err").open("ab") as errors:
            return subprocess.Popen(
                (*self.network.within(), *words), cwd=ROOT, stderr=errors, env={**os.environ, **environment}
            )

    def put_load(self) -> None:
        for door in (*READERS, *self.writers, *self.drivers):
            self.doors[door] = self.start_door(door.name, door.index, {})

    @property
    def writers(self) -> tuple[Door, ...]:
        return (*WRITERS, *((NPM,) if has_npm_agent() else ()))

    @property
    def drivers(self) -> tuple[Door, ...]:
        return SPARK if self.with_spark else ()

    def kill_drivers(self) -> None:
        for door in self.drivers:
            self.doors[door].send_signal(signal.SIGUSR1)

    def end_writers(self) -> list[str]:
        return self._end(self.writers)

    def end_readers(self) -> list[str]:
        """Once nothing has come for a while."""
        until, last, since = time.monotonic() + CATCH_UP_S, -1, time.monotonic()
        while time.monotonic() < until and time.monotonic() - since < QUIET_S:
            size = sum((self.journals / door.journal).stat().st_size for door in READERS)
            if size != last:
                last, since = size, time.monotonic()
            time.sleep(0.5)
        return self._end(READERS)

    def _end(self, doors: tuple[Door, ...]) -> list[str]:
        """What did not end as it should: a load that fails proves nothing."""
        bad = []
        for door in doors:
            if self.doors[door].poll() is not None:
                bad.append(f"the door {door.name}{door.index} ended by itself: {self._said(door)}")
            else:
                self.doors[door].terminate()
        for door in doors:
            try:
                if self.doors[door].wait(DRAIN_S):
                    bad.append(f"the door {door.name}{door.index} failed: {self._said(door)}")
            except subprocess.TimeoutExpired:
                self.doors[door].kill()
                bad.append(f"the door {door.name}{door.index} did not end")
        return bad

    def _said(self, door: Door) -> str:
        return (self.place / "logs" / f"{door.name}{door.index}.err").read_text()[-800:]

    def finish_drivers(self) -> list[str]:
        """What is left for Spark, once nobody publishes; the sink first, for ``archive`` takes what it writes."""
        defects = self._end(self.drivers)
        for name in ("sink", "archive"):
            command = (*self.network.within(), *DRIVERS[name](self.settings, is_last=True))
            try:
                done = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=environment(),
                    capture_output=True,
                    text=True,
                    timeout=LAST_RUN_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                defects.append(f"the last run of {name} did not end within {LAST_RUN_S:.0f} s")
                continue
            if done.returncode:
                defects.append(f"the last run of {name} ended with {done.returncode}: {done.stderr[-1500:]}")
        return defects

    def close(self) -> None:
        for door, process in self.doors.items():
            if process.poll() is None and door in SPARK:
                process.terminate()  # or its Java would stay
                process.wait(DRAIN_S)
            elif process.poll() is None:
                process.kill()
        self.mesh.close()
        self.network.close()


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rate", type=float, default=25.0, help="events per second of each publisher")
    life = "seconds that a certificate lasts; it is renewed after two thirds of them"
    parser.add_argument("--certificate-life", type=int, default=CERTIFICATE_LIFE_S, help=life)
    parser.add_argument("--no-spark", action="store_true", help="neither archive nor the sink")
    parser.add_argument("--story", action="store_true", help="print the faults of the seed and end")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "chaos", help="where the report goes")
    options = parser.parse_args()
    if options.story:
        print("\n".join(tell(fault) for fault in plan(options.seed, options.minutes * 60, NODES)))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # or nodes, disks and namespaces would stay
    place = Path(tempfile.mkdtemp(prefix="weft-chaos-"))
    chaos = Chaos(place, options)
    try:
        say(f"seed {options.seed}, in {place}")
        chaos.prepare()
        return run(chaos, options.to)
    except NoNetwork as error:
        print(f"chaos cannot run here: {error}", file=sys.stderr)
        return 2
    finally:
        chaos.close()
        shutil.rmtree(place, ignore_errors=True)


def run(chaos: Chaos, to: Path) -> int:
    journal = Journal(chaos.journals / "faults.jsonl")
    faults = Faults(chaos.mesh, journal, chaos.seed, chaos.start_door, chaos.kill_drivers)
    chaos.put_load()
    run_schedule(faults, chaos.schedule, time.monotonic(), lambda fault: say(tell(fault)))
    say("the faults are over")
    defects = faults.defects + [f"{name} is down" for name, node in chaos.mesh.nodes.items() if not node.is_up]
    time.sleep(min(30.0, chaos.minutes * 3))
    defects += chaos.end_writers()
    say("the writers have ended")
    if chaos.with_spark:
        defects += chaos.finish_drivers()
        say("the drivers have ended")
    defects += chaos.end_readers()
    say("the readers have ended")
    asking = (*chaos.network.within(), sys.executable, "-m", "tools.chaos.collect", str(chaos.settings_file))
    subprocess.run(asking, cwd=ROOT, check=True, timeout=900)
    defects += stop_nodes(chaos.mesh)
    say("the nodes have ended")
    read_logs(chaos.mesh, chaos.journals)
    if chaos.with_spark and table_of(chaos.settings).exists():
        read_table(table_of(chaos.settings), chaos.journals)
    return judge(chaos, defects, to)


def stop_nodes(mesh: Mesh) -> list[str]:
    defects = []
    for node in mesh.everybody:
        try:
            if node.is_up and node.stop():
                defects.append(f"{node.name} did not end with 0")
        except NodeFailed as error:
            defects.append(str(error))
        if "Traceback" in node.log.read_text(errors="replace"):
            defects.append(f"{node.name} has a traceback in its log")
    return defects


def judge(chaos: Chaos, defects: list[str], to: Path) -> int:
    history = read_history(chaos.journals)
    findings = check(history)
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, disks: {chaos.mesh.nodes['a'].disk.kind}"
    notes = [
        f"{line['node']}: {line['where']}, " + (f"noticed; {line['took']}" if line["noticed"] else "not noticed")
        for line in read_journal(chaos.journals / "faults.jsonl")
        if line["kind"] == "flipped"
    ]
    ran = Run(
        *(chaos.seed, chaos.minutes, chaos.commit, machine),
        *(chaos.schedule, defects, chaos.skipped, notes),
    )
    to.mkdir(parents=True, exist_ok=True)
    name = f"seed-{chaos.seed}-{chaos.minutes:g}-minutes"
    (to / f"{name}.json").write_text(json.dumps(as_json(ran, history, findings), indent=1))
    (to / f"{name}.md").write_text(as_markdown(ran, history, findings))
    shutil.copytree(chaos.journals, to / f"{name}-journals", dirs_exist_ok=True)
    shutil.copytree(chaos.place / "logs", to / f"{name}-logs", dirs_exist_ok=True)
    print((to / f"{name}.md").read_text())
    say(f"the report is {to / name}.md")
    return 1 if findings or defects else 0


if __name__ == "__main__":
    sys.exit(main())
