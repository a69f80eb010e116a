"""Starts the peers that others wrote: gRPC of Go, Java and Node.js, built by ``make peers``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
BUILT: Final = HERE.parent.parent.parent / "build" / "interop"
LANGUAGES: Final = ("go", "java", "js")
CHECK_S_MAX: Final = 180.0
START_S_MAX: Final = 60.0


def command(language: str) -> list[str]:
    match language:
        case "go":
            return [str(BUILT / "go" / "interop")]
        case "java":
            # Small and quick to start: it lives for seconds.
            jvm = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
            return [*jvm, "-cp", f"{BUILT / 'java'}/*:{BUILT / 'java'}", "Echo"]
        case _:
            return ["node", str(HERE / "js" / "echo.js")]


def unavailable(language: str) -> str | None:
    """Why a peer cannot run here, or None if it can."""
    tool = {"go": "go", "java": "java", "js": "node"}[language]
    built = {
        "go": BUILT / "go" / "interop",
        "java": BUILT / "java" / "Echo.class",
        "js": HERE / "js" / "node_modules" / "@grpc" / "grpc-js",
    }[language]
    if not built.exists():
        return f"the {language} peer is not built: run `make peers`"
    if language != "go" and shutil.which(tool) is None:
        return f"{tool} is not installed"
    return None


def check(language: str, port: int, tls: Path | None) -> dict[str, str]:
    """Let its client call everything at a port: which checks failed, and how. There is at least one that did not."""
    arguments = ["check", str(port), *([] if tls is None else [str(tls)])]
    done = subprocess.run(
        [*command(language), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=CHECK_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("ok ") for line in lines), done.stdout + done.stderr
    failed = [line.removeprefix("FAILED ").partition(": ") for line in lines if line.startswith("FAILED ")]
    return {name: text for name, _, text in failed}


@contextmanager
def serving(language: str, tls: Path | None) -> Iterator[int]:
    """Its server; the port."""
    arguments = ["serve", *([] if tls is None else [str(tls)])]
    with subprocess.Popen([*command(language), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            try:
                process.wait(START_S_MAX)
            finally:
                process.kill()
