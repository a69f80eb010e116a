"""The machine a node is on: its data directory and log, disk, clock, file descriptors, and contradictory settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.cli.examination import Finding, Patient, bad, ok, warning
from weft.cli.tables import human_bytes, human_time
from weft.doors.descriptors import FileLimit, file_limit
from weft.errors import UsageError
from weft.limits import MIB
from weft.log import repair
from weft.log.marks_file import MarksFile
from weft.log.rocks_store import holds_data
from weft.node.config import NodeConfig
from weft.node.config.named_addresses import Way
from weft.node.entrances import FEW_FILES_ADVICE, plan_files
from weft.node.incarnation import last_incarnation
from weft.security.exposure import survey

EARLIEST_S: Final = 1_735_689_600  # 2025: a clock before that was never set
CLOCK_SLACK_S: Final = 60.0  # as much as certificates allow for
RESERVES_LEFT: Final = 2  # so many times the reserve should be free
US_PER_S: Final = 1_000_000


def settings(patient: Patient) -> Iterator[Finding]:
    """Settings that are possible, and that nobody means."""
    found = list(_odd_settings(patient.config))
    yield from found or [ok("settings", "they do not contradict each other")]


def _odd_settings(config: NodeConfig) -> Iterator[Finding]:
    own = {config.listen.grpc, config.listen.advertise}
    for peer in config.peers:
        if peer.address in own:
            yield warning("settings", f"the node is its own peer: {peer.address}", "remove it from `peers`")
    if config.insecure:
        yield warning(
            "settings", "insecure: plain text, no keys", "leave out --insecure, unless nobody else uses this machine"
        )
    if not config.listen.admin.is_loopback and config.admin.metrics == "open":
        yield warning(
            "settings",
            f"metrics are open to everybody who can reach {config.listen.admin}",
            'set admin.metrics = "key", or restrict access with a firewall',
        )
    listening = [door for door in config.named_addresses() if door.way is not Way.OUT and door.address.port]
    places = [(door.address, door.way) for door in listening]
    for door in listening:
        if places.count((door.address, door.way)) > 1:
            yield bad("settings", f"{door} is there twice", "give each listener its own port")


def data_directory(patient: Patient) -> Iterator[Finding]:
    data = patient.config.node.data
    if data.exists() and not data.is_dir():
        yield bad("data directory", f"{data} is not a directory", "give another directory (--data)")
        return
    if not data.is_dir():
        yield ok("data directory", f"{data} is not there yet: the first start makes it")
        return
    owner = data.stat().st_uid
    if owner != os.geteuid():
        yield warning(
            "data directory",
            f"{data} belongs to user {owner}, you are {os.geteuid()}",
            "run this as that user; otherwise the findings below may be wrong",
        )
    exposed = survey(data)
    if exposed.count:
        yield bad(
            "data directory",
            f"{exposed.count} files and directories in {data} are open to {exposed.to}: {exposed.first}",
            f"chmod -R go= {data}, or start the node, which does it; others may have read the secrets in it",
        )
    else:
        yield ok("data directory", f"{data} is readable only by its owner")


def disk(patient: Patient) -> Iterator[Finding]:
    place = patient.config.node.data
    while not place.exists():
        place = place.absolute().parent
    found = os.statvfs(place)
    yield judge_disk(place, found.f_bavail * found.f_frsize, patient.config.storage.disk_reserve_bytes)
    if found.f_files and not found.f_favail:
        yield bad(
            "disk", f"no more files can be created in {place}", "remove some files: the file system has no inodes left"
        )


def judge_disk(place: Path, free: int, reserve: int) -> Finding:
    told = f"{human_bytes(free)} free in {place}, reserve {human_bytes(reserve)}"
    if free <= reserve:
        advice = (
            "free some space, or let retention keep less: the node refuses events until more than the reserve is free"
        )
        return bad("disk", told, advice)
    if free < RESERVES_LEFT * reserve:
        return warning("disk", told, "free some space soon: below the reserve, the node refuses events")
    return ok("disk", told)


def clock(patient: Patient) -> Iterator[Finding]:
    yield judge_clock(patient.now_s, last_incarnation(patient.config.node.data) / 1000)


def judge_clock(now_s: float, last_start_s: float) -> Finding:
    """``last_start_s``: when the node was last started, by the clock at that time; 0 if never."""
    told = f"it is {human_time(int(now_s) * US_PER_S)}"
    if now_s < EARLIEST_S:
        return bad("clock", told, "set the clock, and keep it right with NTP: certificates are not valid yet")
    if last_start_s > now_s + CLOCK_SLACK_S:
        return bad(
            "clock",
            f"{told}, before the last start of the node ({human_time(int(last_start_s) * US_PER_S)})",
            "set the clock, and keep it right with NTP",
        )
    return ok("clock", told)


def descriptors(patient: Patient) -> Iterator[Finding]:
    yield judge_descriptors(file_limit(), patient.config)


def judge_descriptors(limit: FileLimit, config: NodeConfig) -> Finding:
    """The limit of the shell that starts the node. The node raises it to the hard limit."""
    told = f"a node may have {limit.hard} (the shell {limit.now})"
    try:
        files = plan_files(config, limit.hard)
    except UsageError as error:
        return bad("file descriptors", str(error), FEW_FILES_ADVICE)
    if lacking := files.lacks(config.limits.connections_max):
        others = files.limit - files.connections
        return warning(
            "file descriptors",
            f"{told}; {config.limits.connections_max} connections, the log and the node ({others}) need {lacking} more",
            FEW_FILES_ADVICE,
        )
    return ok("file descriptors", told)


READ_BYTES_MAX: Final = 1024 * MIB  # a few seconds; ``weft log check`` reads logs of any size


def log(patient: Patient) -> Iterator[Finding]:
    """Read all of it, also while a node writes to it."""
    data = patient.config.node.data
    if not data.is_dir() or not (holds_data(data) or MarksFile(data).read() is not None):
        yield ok("log", "there is none yet")
        return
    size = sum(each.stat().st_size for each in _files(data))
    if size > READ_BYTES_MAX:
        yield warning("log", f"{human_bytes(size)}, too much to read all of it here", f"weft log check --data {data}")
        return
    health = repair.check(data)
    if health.is_sound:
        yield ok("log", f"{human_bytes(size)}, everything that was promised is there")
    else:
        yield bad(
            "log",
            "acknowledged data is lost or damaged",
            f"weft log check --data {data} says which, weft log repair continues with the rest",
        )


def _files(data: Path) -> Iterator[Path]:
    return (each for each in data.rglob("*") if each.is_file() and not each.is_symlink())
