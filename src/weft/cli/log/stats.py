"""``weft log stats``: how much there is of each topic, and what it takes on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from weft.cli.console import out
from weft.cli.log.output import last_time
from weft.cli.tables import human_bytes, print_table
from weft.log import Log, StreamInfo
from weft.log.marks_file import MARKS_FILE
from weft.log.recovery import read_meta
from weft.log.repair import place_of
from weft.log.rocks_store import DATABASE_DIR


def log_stats(log: Log, data: Path) -> dict[str, Any]:
    """Everything there is to say, JSON-ready."""
    streams = log.streams()
    topics = [_topic_document(topic, infos) for topic, infos in groupby(streams, lambda info: info.stream.topic)]
    disk = _disk_document(place_of(data))
    event_bytes = sum(info.bytes for info in streams)
    return {
        "epoch": log.epoch,
        "streams": len(streams),
        "offsets": sum(info.end - info.start for info in streams),
        "bytes": event_bytes,
        "disk": disk,
        "disk_per_event_byte": round(disk["bytes"] / event_bytes, 3) if event_bytes else None,
        "segments": {"in_tables": log.flushed_segment, "current": read_meta(log.store, "segment")},
        "topics": sorted(topics, key=lambda topic: (-topic["bytes"], topic["topic"])),
    }


def _topic_document(topic: str, streams: Iterable[StreamInfo]) -> dict[str, Any]:
    infos = list(streams)
    return {
        "topic": topic,
        "streams": len(infos),
        "offsets": sum(info.end - info.start for info in infos),
        "bytes": sum(info.bytes for info in infos),
        "last_time": last_time(max(info.latest_us for info in infos)) or None,
    }


def _disk_document(data: Path) -> dict[str, Any]:
    """Files by purpose. A node may remove one while we look."""
    sizes = {"tables": 0, "wal": 0, "other": 0}
    files = {"tables": 0, "wal": 0}
    for entry in os.scandir(data / DATABASE_DIR):
        kind = {".sst": "tables", ".log": "wal"}.get(Path(entry.name).suffix, "other")
        sizes[kind] += _size(Path(entry.path))
        if kind in files:
            files[kind] += 1
    promised = _size(data / MARKS_FILE)
    return {
        "bytes": sum(sizes.values()) + promised,
        "tables_bytes": sizes["tables"],
        "tables_files": files["tables"],
        "wal_bytes": sizes["wal"],
        "wal_files": files["wal"],
        "promised_bytes": promised,
        "other_bytes": sizes["other"],
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def print_stats(stats: dict[str, Any]) -> None:
    disk, segments = stats["disk"], stats["segments"]
    ratio = f", {disk['bytes'] / stats['bytes']:.2f} times that" if stats["bytes"] else ""
    lines = {
        "epoch": f"{stats['epoch']}",
        "streams": f"{stats['streams']:,} of {len(stats['topics']):,} topics",
        "offsets": f"{stats['offsets']:,}, {human_bytes(stats['bytes'])}",
        "on disk": f"{human_bytes(disk['bytes'])}{ratio}",
        "table files": f"{disk['tables_files']:,}, {human_bytes(disk['tables_bytes'])}",
        "write-ahead log": f"{disk['wal_files']:,} files, {human_bytes(disk['wal_bytes'])}",
        "promised": human_bytes(disk["promised_bytes"]),
        "segments": f"{segments['current']} is being written, up to {segments['in_tables']} all is in table files",
    }
    width = max(map(len, lines))
    for name, value in lines.items():
        out.print(f"{name:<{width}}  {value}")
    if stats["topics"]:
        out.print()
        rows = [
            (
                topic["topic"],
                f"{topic['streams']:,}",
                f"{topic['offsets']:,}",
                human_bytes(topic["bytes"]),
                topic["last_time"] or "",
            )
            for topic in stats["topics"]
        ]
        print_table(("topic", "streams", "offsets", "bytes", "last event"), rows)
