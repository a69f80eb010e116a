"""Spark's classes as Java has loaded them, kept from one run for the next (JEP 350).

Half of what a Spark does that lives for seconds is loading some ten thousand classes out of jars. A Java that ends can
write what it has loaded into an archive, and later ones on this machine begin with that. A Java that finds an archive
of another Java or of other jars passes over it, without a word.

Writing costs the one that does it some seconds at its end. So nothing is written where the cache is new: it may be
gone again after this run, as in a container.
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
CHOSEN: Final = ("ArchiveClassesAtExit", "SharedArchiveFile", "-Xshare")  # somebody else has a say about archives
WRITTEN: Final = ".written"
ATTEMPTS_MAX: Final = 3  # where every Java is killed at its end: none of them gets an archive done
MAGIC_BYTES: Final = 4  # zero as long as a Java still writes: what an archive begins with is written last


def class_options(cache: Path, java: Java, spark: str, environ: Mapping[str, str]) -> list[str]:
    """Options for a Java that runs this Spark (a text that changes with it): to use an archive, or to write one."""
    if any(word in environ.get(name, "") for name in OPTION_VARIABLES for word in CHOSEN):
        return []
    if any(map(str.isspace, str(cache))):
        return []  # Java's options have spaces between them
    with suppress(OSError):  # no place for a file: Java loads its classes as ever
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
