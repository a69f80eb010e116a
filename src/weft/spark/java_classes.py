"""Spark's classes as Java has loaded them, kept from one run for the next (JEP 350).

A Spark that runs only for seconds spends half of that time loading some ten thousand classes from jars. When Java ends,
it can write the loaded classes into an archive, and later Javas on this machine start from that. Java silently ignores
an archive that was made by another Java or from other jars.

Writing the archive takes some seconds at the end of a run. So nothing is written while the cache directory is new: it
may be gone after this run, as in a container.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from weft.spark.java import Java

OPTION_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
CHOSEN: Final = ("ArchiveClassesAtExit", "SharedArchiveFile", "-Xshare")  # somebody else has configured archives
WRITTEN: Final = ".written"
ATTEMPTS_MAX: Final = 3  # for machines where every Java is killed at its end and never finishes an archive
MAGIC_BYTES: Final = 4  # zero while Java is still writing: it writes the beginning of an archive last


def class_options(cache: Path, java: Java, spark: str, environ: Mapping[str, str]) -> list[str]:
    """Java options to use an archive, or to write one. ``spark`` is a text that changes when Spark changes."""
    if any(word in environ.get(name, "") for name in OPTION_VARIABLES for word in CHOSEN):
        return []
    if any(map(str.isspace, str(cache))):
        return []  # a path with a space: Java's options are separated by spaces
    with suppress(OSError):  # no place for a file: Java loads its classes as usual
        return _options(cache / "java-classes", sha256(f"{java.home}\n{java.major}\n{spark}".encode()).hexdigest()[:16])
    return []


def _options(places: Path, name: str) -> list[str]:
    if not places.exists():
        places.mkdir(parents=True)
        return []
    archive = places / f"{name}.jsa"
    begun = list(places.glob(f"{name}.*{WRITTEN}"))
    for written in begun:
        if not archive.exists() and _is_whole(written):
            written.replace(archive)
        elif archive.exists():
            written.unlink(missing_ok=True)
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    if len(begun) >= ATTEMPTS_MAX:
        return []
    return [f"-XX:ArchiveClassesAtExit={places / f'{name}.{os.getpid()}{WRITTEN}'}", "-Xlog:disable"]


def _is_whole(archive: Path) -> bool:
    with archive.open("rb") as file:
        return any(file.read(MAGIC_BYTES))
