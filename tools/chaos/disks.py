"""A small disk for each node, so that it can be full: an ext4 image on a loop device, or memory (tmpfs)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tools.chaos.network import run

DISK_BYTES: Final = 1536 << 20
RESERVE_BYTES: Final = 64 << 20  # what nodes are told to keep free
FILLER: Final = "filler"
LEFT_BYTES: Final = 24 << 20  # below the reserve, above nothing: RocksDB has to finish what it has begun


class Disk:
    def __init__(self, place: Path) -> None:
        """``data`` is a node's data directory, a folder of the disk."""
        self._image, self._mount = place.with_suffix(".img"), place
        self.data = place / "data"
        self.kind = ""

    def open(self) -> None:
        self._mount.mkdir(parents=True)
        try:
            with self._image.open("wb") as file:
                file.truncate(DISK_BYTES)
            run("mkfs.ext4", "-q", str(self._image))
            run("mount", "-o", "loop", str(self._image), str(self._mount))
            self.kind = "ext4 on a loop device"
        except (subprocess.CalledProcessError, OSError):
            self._image.unlink(missing_ok=True)
            run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self._mount))
            self.kind = "tmpfs"
        self.data.mkdir(mode=0o700)

    def fill(self) -> None:
        more = shutil.disk_usage(self._mount).free - LEFT_BYTES
        if more > 0:
            run("fallocate", "-l", str(more), str(self._mount / FILLER))

    def make_room(self) -> None:
        (self._mount / FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        run("umount", "-l", str(self._mount), check=False)
        self._image.unlink(missing_ok=True)
