"""One bash for the commands of a page, in a directory that is its home, as a reader would have it.

Addresses and directories that stand in the page belong to the reader's machine. Here each port becomes a free one and
each directory one below the home, always the same ones for one page; in what commands print they are turned back.
"""

from __future__ import annotations

import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.up import END_TIMEOUT_S, SHORT_LOG

# Below the ports that systems give to whoever asks for any: nobody else gets one of ours before we use it.
PORTS: Final = range(12_000, 30_000)
ADDRESS: Final = re.compile(r"\b127\.0\.0\.1:([0-9]{4,5})\b")
DIRECTORY: Final = re.compile(r"(?<![\w./~-])/(?=(?:tmp|lake|backups|var/lib/weft|etc/weft|media)\b)")
DEFAULTS: Final = {"WEFT_LISTEN_GRPC": 7400, "WEFT_LISTEN_ADMIN": 7480}
PROMPT: Final = "$ "
# A failed command is written down with its line; a pipe fails if a part of it does.
PREPARED: Final = 'set -o pipefail; set -E; trap \'echo "exit $?: $BASH_COMMAND" >> "$FAILED"\' ERR\n'
KEYS: Final = "key_learned"  # in the log of a node
STEP_TIMEOUT_S: Final = 400.0  # a bound, not an expectation: Spark starts slowly where all cores are busy
LOOK_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to type, and what the page says it prints: nothing if the page does not say."""

    text: str
    shown: tuple[str, ...] = ()

    @property
    def stays(self) -> bool:
        """It goes on in the background, and what it prints is waited for."""
        return self.text.rstrip().endswith("&")

    @property
    def joins(self) -> bool:
        """A new node joins a mesh. It hears the mesh's keys within a second, before a reader has typed the next line:
        so that is waited for, too."""
        return self.stays and "--peer" in self.text and "--token -" in self.text

    @property
    def fails(self) -> bool:
        """The page shows how it is refused."""
        return any(line.startswith(("error: ", "weft: ", "malformed ")) for line in self.shown)


def steps_of(language: str, code: str) -> list[Step]:
    """``sh`` is typed as a whole; ``console`` has prompts, and between them what is printed."""
    if language == "sh":
        return [Step(code)]
    steps: list[tuple[list[str], list[str]]] = []
    for line in code.splitlines():
        if line.startswith(PROMPT):
            steps.append(([line.removeprefix(PROMPT)], []))
        elif steps and not steps[-1][1] and steps[-1][0][-1].endswith("\\"):
            steps[-1][0].append(line)
        else:
            assert steps, f"printed before anything was typed: {line}"
            steps[-1][1].append(line)
    return [Step("\n".join(typed) + "\n", tuple(filter(str.strip, shown))) for typed, shown in steps]


# What differs from run to run. Where the page shows one of these, another of its kind is as good.
VARYING: Final = {
    "time": r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)",
    "position": r"/[0-9]+:e1[0-9]{12}:[0-9]+",
    "revision": r"\b1[0-9]{12}\.[0-9]+(?=@)",
    "uuid": r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b",
    "epoch": r"\be?1[0-9]{12}\b",
    "key": r"(?<![0-9A-Za-z])k[0-9a-f]{16}(?![0-9A-Za-z])",
    "hex": r"(?<![0-9A-Za-z])[0-9a-f]{16,}(?![0-9A-Za-z])",
    "duration": r"\b[0-9.]+ (?:ms|s|µs)(?!\w)",
    "size": r"\b[0-9.]+ (?:B|[KMG]iB)\b",
    "ratio": r"\b[0-9.]+(?= times\b)",
    "anything": r"[.]{3}",
}
TOKEN: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in VARYING.items()))


def pattern_of(shown: str) -> tuple[re.Pattern[str], list[str]]:
    """What a printed line has to be, and the varying pieces that the page shows, one for each group."""
    pattern, pieces, at = "", [], 0
    for found in TOKEN.finditer(shown):
        assert found.lastgroup is not None
        pattern += _literally(shown[at : found.start()])
        pattern += "(.*)" if found.lastgroup == "anything" else f"({VARYING[found.lastgroup]})"
        pieces.append(found[0])
        at = found.end()
    return re.compile(rf"\s*{pattern}{_literally(shown[at:])}\s*"), pieces


def _literally(text: str) -> str:
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", text))


def compare(shown: tuple[str, ...], printed: str) -> tuple[str | None, dict[str, str]]:
    """The first line that the page shows and that was not printed, in this order; and what was printed for the varying
    pieces of those that were."""
    rest = iter(printed.splitlines())
    learned: dict[str, str] = {}
    for line in shown:
        wanted, pieces = pattern_of(line)
        match = next((found for found in map(wanted.fullmatch, rest) if found), None)
        if match is None:
            return line, learned
        learned |= dict(zip(pieces, match.groups(), strict=True))
    return None, {piece: actual for piece, actual in learned.items() if piece != "..."}


def _failures(file: Path) -> list[str]:
    """Commands of the page; that its script failed as a whole goes without saying."""
    return [line for line in file.read_text().splitlines() if ": source " not in line]


class Shell:
    """Ended, with all that was started in it, by ``close``."""

    def __init__(self, home: Path, environ: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.config = home / ".config" / "weft"
        self._ports: dict[int, int] = {}
        self._learned: dict[str, str] = {}  # what the page shows of its reader's run -> what it is in this one
        self._count = 0
        own = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        own |= (
            SHORT_LOG | {name: f"127.0.0.1:{self.port(port)}" for name, port in DEFAULTS.items()} | dict(environ or {})
        )
        own |= {"HOME": str(home), "WEFT_CONFIG_DIR": str(self.config), "FAILED": str(home / ".failed")}
        own |= {"BROWSER": "true", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"}
        self.environ = own
        self._done, self._done_in_bash = os.pipe()
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=own,
            pass_fds=[self._done_in_bash],
            start_new_session=True,
            text=True,
        )
        os.close(self._done_in_bash)  # the number stays: bash has it under the same
        self._type(PREPARED)

    def port(self, told: int) -> int:
        """The free port that stands for one of the page."""
        while told not in self._ports:
            port = random.choice(PORTS)  # noqa: S311
            with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
                try:
                    stream.bind(("127.0.0.1", port))
                    datagrams.bind(("127.0.0.1", port))
                except OSError:
                    continue
            if port not in self._ports.values():
                self._ports[told] = port
        return self._ports[told]

    def here(self, text: str) -> str:
        """Text of the page, with this run's ids, ports and directories."""
        for shown, actual in sorted(self._learned.items(), key=lambda each: -len(each[0])):
            text = text.replace(shown, actual)
        text = ADDRESS.sub(lambda found: f"127.0.0.1:{self.port(int(found[1]))}", text)
        return DIRECTORY.sub(f"{self.home}/", text)

    def there(self, text: str) -> str:
        """The other way round, for what commands print."""
        for told, port in self._ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{told}")
        return text.replace(f"{self.home}/", "/")

    def write(self, name: str, text: str) -> None:
        (self.home / name).write_text(self.here(text))

    def run(self, step: Step) -> None:
        """Type it, wait for its end (or for what it prints, if it stays), and compare."""
        self._count += 1
        script, printed = (self.home / f".step-{self._count}{suffix}" for suffix in (".sh", ".out"))
        script.write_text(self.here(step.text))
        failed = Path(self.environ["FAILED"])
        failed.unlink(missing_ok=True)
        done = self._done_in_bash
        self._type(f"source {script} > {printed} 2>&1 < /dev/null {done}>&-; echo $? >&{done}\n")
        self._wait(script, printed)
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while True:
            text = self.there(printed.read_text())
            lacking, learned = compare(step.shown, text)
            if lacking is None and step.joins and KEYS not in text:
                lacking = KEYS
            if lacking is None or not step.stays:
                break
            assert time.monotonic() < deadline_s, f"`{step.text.strip()}` never prints: {lacking}\nbut:\n{text}"
            time.sleep(LOOK_INTERVAL_S)
        assert lacking is None, f"`{step.text.strip()}` does not print: {lacking}\nbut:\n{text}"
        self._learned |= learned
        failures = "\n".join(_failures(failed)) if failed.exists() else ""
        assert bool(failures) == step.fails, f"`{step.text.strip()}`: {failures or 'does not fail'}\n{text}"

    def close(self) -> None:
        """Nodes end as they are asked to; whatever is still there after that is killed."""
        # The whole group and not `jobs -p`: of a pipe that names the first command, which may have ended long ago.
        self._type("trap '' TERM; kill 0; wait\nexit\n")
        try:
            self._bash.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass  # the next line ends it
        finally:
            if self._bash.stdin is not None:
                self._bash.stdin.close()
            os.close(self._done)
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(self._bash.pid, signal.SIGKILL)
            self._bash.wait(END_TIMEOUT_S)

    def _type(self, text: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(text)
        self._bash.stdin.flush()

    def _wait(self, script: Path, printed: Path) -> None:
        ready, _, _ = select.select([self._done], [], [], STEP_TIMEOUT_S)
        assert ready, f"still running:\n{script.read_text()}\n{printed.read_text()}"
        os.read(self._done, 64)
