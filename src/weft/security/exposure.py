"""Finds files of a directory that others than its owner can use, and closes them: events are as private as keys."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.errors import UsageError
from weft.security.files import OTHERS

EVERYBODY: Final = 0o007
NAMED_MAX: Final = 3  # for people, to see what kind of files they are; a log has thousands


@dataclass(slots=True)
class Exposed:
    """Files and directories to which the group or others have rights. It grows while they are searched for."""

    count: int = 0
    rights: int = 0  # of the group and others, all together
    _named: list[str] = field(default_factory=list)

    def add(self, name: str, mode: int, owner: int | None = None) -> None:
        self.count += 1
        self.rights |= mode & OTHERS
        if len(self._named) < NAMED_MAX:
            whose = "" if owner is None else f", of user {owner}"
            self._named.append(f"{name} ({stat.S_IMODE(mode):04o}{whose})")

    @property
    def to(self) -> str:
        return "everybody" if self.rights & EVERYBODY else "its group"

    @property
    def first(self) -> str:
        return ", ".join(self._named)


@dataclass(frozen=True, slots=True)
class Exposure:
    """What was open and is closed now, and what is still open, because it is not ours or cannot be changed."""

    closed: Exposed = field(default_factory=Exposed)
    left: Exposed = field(default_factory=Exposed)


def survey(directory: Path) -> Exposed:
    """Find what others can use in a directory. Changes nothing. For links and mounts, see ``close_to_others``."""
    exposed = Exposed()
    top = directory.resolve()
    for place, inner, files, descriptor in os.fwalk(top):
        if os.fstat(descriptor).st_dev != top.stat().st_dev:
            inner.clear()
            continue
        for name in (".", *files):
            with suppress(FileNotFoundError):  # gone meanwhile
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if found.st_mode & OTHERS and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                    exposed.add(str((Path(place) / name).relative_to(top)), found.st_mode)
    return exposed


def close_to_others(directory: Path) -> Exposure:
    """Remove all rights of the group and others to a directory and everything in it, as far as it is ours.

    Links are not followed, and mounted file systems are not entered. Raise UsageError for a directory that is not for a
    single user. A directory that does not exist yet is closed when it is made.
    """
    exposure = Exposure()
    if not directory.is_dir():
        return exposure
    top = directory.resolve()
    found = top.stat()
    if top == top.parent or found.st_mode & stat.S_ISVTX:
        raise UsageError(f"{directory} is shared by all users of this machine: give the node its own directory")
    for place, inner, files, descriptor in os.fwalk(top):  # the top first, so that nobody else comes in meanwhile
        if os.fstat(descriptor).st_dev != found.st_dev:
            inner.clear()
            continue
        shown = Path(place).relative_to(top)
        _close(descriptor, str(shown), exposure)
        for name in files:
            _close_file(name, descriptor, str(shown / name), exposure)
    return exposure


def _close_file(name: str, directory: int, shown: str, exposure: Exposure) -> None:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or not found.st_mode & OTHERS:
            return
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return  # gone meanwhile
    except OSError:
        exposure.left.add(shown, found.st_mode, found.st_uid)
        return
    try:
        _close(file, shown, exposure)
    finally:
        os.close(file)


def _close(descriptor: int, shown: str, exposure: Exposure) -> None:
    before = os.fstat(descriptor)
    if not before.st_mode & OTHERS:
        return
    if before.st_uid == os.geteuid():
        with suppress(OSError):  # the result is checked, because some file systems only pretend
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & ~OTHERS)
    if os.fstat(descriptor).st_mode & OTHERS:
        exposure.left.add(shown, before.st_mode, before.st_uid)
    else:
        exposure.closed.add(shown, before.st_mode)
