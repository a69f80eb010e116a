"""Which Python runs Spark's workers on this machine, and how it is started.

Spark starts a new Python for every source that it plans and for every query. It makes that Python load ``pyspark`` from
a zip of sources, which have to be compiled: most of a second, each time. The same sources are installed, already
compiled, beside Weft. So workers on this machine are started through a small script that leaves the zip out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

VARIABLE: Final = "PYSPARK_PYTHON"
HOME_VARIABLE: Final = "SPARK_HOME"

# Written for sh, which every machine that runs Spark's own scripts has.
SCRIPT: Final = """#!/bin/sh
set -f
IFS=:
kept=
for path in $PYTHONPATH; do
  case $path in
    */pyspark.zip | */py4j-*-src.zip) ;;
    *) kept="${{kept:+$kept:}}$path" ;;
  esac
done
PYTHONPATH="$kept" exec "{python}" "$@"
"""


def use_python(cache: Path) -> None:
    """Have workers on this machine run the Python that runs here, started quickly. ``cache`` is for the script.

    If somebody has already chosen the workers' Python or the Spark, that choice stays.
    """
    if is_chosen(os.environ):
        return
    with suppress(OSError):  # no place for a script: workers start as Spark starts them
        os.environ[VARIABLE] = str(_written(cache, sys.executable))


def is_chosen(environ: Mapping[str, str]) -> bool:
    """Whether somebody else has said what workers run: another Python, or a Spark that is not the installed one."""
    return environ.get(VARIABLE, sys.executable) != sys.executable or HOME_VARIABLE in environ


def _written(cache: Path, python: str) -> Path:
    """Write the script. Its name depends on what it starts, so runs in different environments do not collide. It is
    replaced as a whole, so nobody sees a partial script."""
    text = SCRIPT.format(python=python)
    script = cache / "workers" / sha256(text.encode()).hexdigest()[:16] / "python"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"python.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)
    return script
