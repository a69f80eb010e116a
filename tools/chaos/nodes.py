"""The mesh: five secured ``weft up`` processes, each with a namespace, a disk and a clock of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.chaos.clock import Clock
from tools.chaos.disks import RESERVE_BYTES, Disk
from tools.chaos.network import Network
from weft.contexts import FILE, Context, read_contexts

WEFT: Final = str(Path(sys.executable).parent / "weft")
PORT, CA_PORT, EMM_PORT, QUIC_PORT, EXMP_PORT, COATY_PORT = 7400, 7443, 4700, 4701, 5041, 4001
READY_S: Final = 240.0  # for a node to say ready, on a busy machine
END_S: Final = 120.0
NAMESPACE: Final = "chaos"
CHANNEL: Final = "load"
GUEST: Final = "guest"  # a node that joins and leaves for good; no other fault is about it
SETTINGS: Final = {
    "WEFT_STORAGE_DISK_RESERVE_BYTES": str(RESERVE_BYTES),
    "WEFT_STORAGE_PREPARED_BYTES": str(4 << 20),
    "WEFT_STORAGE_SEGMENT_BYTES": str(4 << 20),
    "WEFT_GATEWAY_COATY_NAMESPACE": NAMESPACE,
    "WEFT_GATEWAY_COATY_CHANNELS": CHANNEL,
}


class NodeFailed(Exception):
    """A node did not start or end as it has to."""


class ChaosNode:
    """One node. Its process comes and goes; disk, clock and address stay."""

    def __init__(
        self, name: str, place: Path, network: Network, clock: Clock, peers: Sequence[str], certificate_s: int
    ) -> None:
        self.name, self.clock, self.disk = name, clock, Disk(place / "disks" / name)
        self.address = f"{network.address(name)}:{PORT}"
        self.config = place / "config" / name
        self.log = place / "logs" / f"{name}.jsonl"
        self.starts = 0
        self._network, self._peers, self._certificate_s = network, peers, certificate_s
        self._process: subprocess.Popen[bytes] | None = None
        self.log.parent.mkdir(parents=True, exist_ok=True)

    @property
    def data(self) -> Path:
        return self.disk.data

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def environment(self) -> dict[str, str]:
        host = self._network.address(self.name)
        own = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        return {
            **own,
            **SETTINGS,
            "WEFT_CONFIG_DIR": str(self.config),
            "WEFT_SECURITY_CERTIFICATE_LIFETIME_S": str(self._certificate_s),
            "WEFT_GATEWAY_EMM_UDP": f"{host}:{EMM_PORT}",
            "WEFT_GATEWAY_EMM_QUIC": f"{host}:{QUIC_PORT}",
            "WEFT_GATEWAY_EXMP_TLS": f"{host}:{EXMP_PORT}",
            "WEFT_GATEWAY_COATY_LISTEN": f"{host}:{COATY_PORT}",
        }

    def command(self) -> list[str]:
        host = self._network.address(self.name)
        words = ["up", "--data", str(self.data), "--node-id", self.name, "--listen", self.address]
        words += ["--admin", "127.0.0.1:7480", "--log-format", "json", "--log-level", "info"]
        words += ["--ca-listen", f"{host}:{CA_PORT}"] if self.name == "a" else []
        for peer in self._peers:
            words += ["--peer", peer]
        return [WEFT, *words]

    def start(self, token: str | None = None) -> None:
        """Return when it serves; NodeFailed if it ends before."""
        environment = {**self.environment(), **self.clock.environment}
        if token is not None:
            environment["WEFT_SECURITY_TOKEN"] = token
        self.starts += 1
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                (*self._network.within(self.name), *self.command()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
        self._wait_ready(self._process)

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        until = time.monotonic() + READY_S
        said = b""
        while time.monotonic() < until:
            said += process.stdout.read() or b""
            if b"ready\n" in said:
                return
            if process.poll() is not None:
                raise NodeFailed(f"{self.name} ended with {process.returncode}: {self.last_words()}")
            time.sleep(0.05)
        raise NodeFailed(f"{self.name} said no ready within {READY_S:.0f} s: {self.last_words()}")

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)  # ip netns exec becomes the command: this is the node itself

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_S)

    def stop(self) -> int:
        """By SIGTERM; its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        """For its end, which somebody has asked for; its exit status."""
        assert self._process is not None
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(
                f"{self.name} did not end within {END_S:.0f} s of being asked to: {self.last_words()}"
            ) from None

    def logged(self) -> list[dict[str, Any]]:
        lines = self.log.read_bytes().splitlines()
        return [json.loads(line) for line in lines if line.startswith(b"{")]

    def last_words(self) -> str:
        return self.log.read_bytes()[-600:].decode(errors="replace")

    def weft(self, *words: str, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """A ``weft`` command on this machine, with the node's clock and contexts."""
        environment = {**self.environment(), **self.clock.environment, **(extra or {})}
        command = (*self._network.within(self.name), WEFT, *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)


class Mesh:
    """``nodes`` are those that stay; ``guest`` joins later, and leaves. Certificates last ``certificate_s``."""

    def __init__(
        self, names: Sequence[str], place: Path, network: Network, library: Path | None, certificate_s: int
    ) -> None:
        self.network = network
        self.nodes: dict[str, ChaosNode] = {}
        first = f"{network.address(names[0])}:{PORT}"
        (place / "clocks").mkdir()
        for index, name in enumerate(names):
            # Each dials the first and the one before: losing any single node leaves a way.
            peers = [] if index == 0 else list({first, f"{network.address(names[index - 1])}:{PORT}"})
            clock = Clock(place / "clocks" / name, library)
            self.nodes[name] = ChaosNode(name, place, network, clock, peers, certificate_s)
        peers = [f"{network.address(name)}:{PORT}" for name in names[-2:]]
        self.guest = ChaosNode(GUEST, place, network, Clock(place / "clocks" / GUEST, library), peers, certificate_s)

    @property
    def everybody(self) -> list[ChaosNode]:
        """The guest too, if it ever came."""
        return [*self.nodes.values(), *([self.guest] if self.guest.starts else [])]

    def open(self) -> None:
        for node in (*self.nodes.values(), self.guest):
            node.disk.open()
        first, *others = self.nodes.values()
        first.start()
        for node in others:
            self.enrol(node)

    def enrol(self, node: ChaosNode) -> None:
        """Start it for the first time, with a token of the CA."""
        first, host = self.nodes["a"], self.network.address(node.name)
        made = first.weft("ca", "token", node.name, "--data", str(first.data), "--host", host, "--json")
        if made.returncode:
            raise NodeFailed(f"no token for {node.name}: {made.stderr}")
        node.start(json.loads(made.stdout)["token"])

    def context(self) -> Context:
        """With the key that may do everything."""
        contexts = read_contexts(self.nodes["a"].config / FILE)
        return next(iter(contexts.contexts.values()))

    def coaty_addresses(self) -> list[str]:
        found = []
        for node in self.nodes.values():
            ready = next(line for line in node.logged() if line.get("event") == "node_ready")
            gateways = [each.split() for each in str(ready["gateways"]).split(", ")]
            found += [address for name, address in gateways if name == "coaty"]
        return found

    def close(self) -> None:
        for node in (*self.nodes.values(), self.guest):
            node.kill()
        for node in (*self.nodes.values(), self.guest):
            node.disk.close()
