"""Starts and drives ``coaty_peer.js``, a real Coaty agent built from the reference packages, over JSON lines."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from weft.wire.libp2p.private_keys import PrivateKey

HERE = Path(__file__).parent
KEY_TYPES = ("RSA", "Ed25519", "secp256k1")
# Who we are when the reference has this type of key: every type is seen on both sides.
OUR_KEY_TYPES = {"RSA": "Ed25519", "Ed25519": "secp256k1", "secp256k1": "RSA"}
START_S_MAX = 60.0  # node loads some 600 packages
WAIT_S_MAX = 30.0

Event = dict[str, Any]


def unavailable() -> str | None:
    """Why the agent cannot run here, or None if it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (HERE / "node_modules" / "@coaty" / "binding.libp2p").is_dir():
        return "the reference packages are not installed: run `npm ci --ignore-scripts` in tests/interop/coaty"
    return None


def peer_id_file(key_type: str) -> Path:
    return HERE / f"peerid_{key_type}.json"


def own_identity(key_type: str) -> PrivateKey:
    """The identity in ``peerid_<key_type>.json``, for our side."""
    return PrivateKey.from_base64(json.loads(peer_id_file(key_type).read_text())["privKey"])


def reference(command: str, asked: object = None) -> Any:
    """What ``reference.js`` answers: the reference's own codecs, without an agent."""
    done = subprocess.run(
        ["node", str(HERE / "reference.js"), command],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=START_S_MAX,
    )
    return json.loads(done.stdout)


class JsAgent:
    """One process. Use it in a ``with`` block: leaving it ends the process, whatever happened."""

    key_type = ""  # of its identity, if it was given one

    def __init__(self, *arguments: str, script: str = "coaty_peer.js") -> None:
        self._process = subprocess.Popen(
            ["node", str(HERE / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr, "all three are pipes"
        self._stdin = self._process.stdin
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._errors: list[str] = []
        self.events: list[Event] = []
        self._readers = [
            threading.Thread(target=self._read_events, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_errors, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @classmethod
    def start(cls, key_type: str, *arguments: str) -> JsAgent:
        """An agent with the identity in ``peerid_<key_type>.json``, on a loopback port, without mDNS."""
        agent = cls("--peer-id", str(peer_id_file(key_type)), "--log", "2", *arguments)
        agent.key_type = key_type
        return agent

    def __enter__(self) -> JsAgent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None, "all three are pipes"
            pipe.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def address(self) -> str:
        """Where the agent listens, its peer id included."""
        return str(self.wait("started", START_S_MAX)["addrs"][0])

    def tell(self, name: str, **arguments: object) -> None:
        """Give a command without waiting for it, as when it needs us to act meanwhile."""
        self._stdin.write(json.dumps({"cmd": name, **arguments}).encode() + b"\n")
        self._stdin.flush()

    def command(self, name: str, **arguments: object) -> None:
        first = len(self.events)
        self.tell(name, **arguments)
        answer = self.wait_for(lambda event: event["ev"] in ("done", "fail") and event.get("cmd") == name, first=first)
        if answer["ev"] == "fail":
            raise AssertionError(f"the agent failed at {name}: {answer['error']}")

    def wait(self, kind: str, seconds_max: float = WAIT_S_MAX, **fields: object) -> Event:
        """The first event of this kind and with these fields, past or to come."""
        return self.wait_for(
            lambda event: event["ev"] == kind and all(event.get(name) == value for name, value in fields.items()),
            seconds_max,
        )

    def wait_for(self, accepts: Callable[[Event], bool], seconds_max: float = WAIT_S_MAX, first: int = 0) -> Event:
        deadline_s = time.monotonic() + seconds_max
        while True:
            for event in self.events[first:]:
                if accepts(event):
                    return event
            first = len(self.events)
            try:
                line = self._lines.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"the agent did not report it in {seconds_max} s\n{self._story()}") from None
            if line is None:
                raise AssertionError(f"the agent ended\n{self._story()}")
            self.events.append(json.loads(line))

    def _story(self) -> str:
        return "\n".join([*(str(event) for event in self.events[-20:]), *self._errors[-40:]])

    def _read_events(self, pipe: IO[bytes]) -> None:
        for line in pipe:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self, pipe: IO[bytes]) -> None:
        for line in pipe:
            self._errors.append(line.decode(errors="replace").rstrip())
