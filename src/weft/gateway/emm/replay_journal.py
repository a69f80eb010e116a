"""Recently accepted packets, on disk: a restarted gateway accepts none of them again (EMM-19, SEC-07).

``seen.Seen`` keeps 64 bits of each accepted packet. They are written here before the packet's event is published, so a
node that was killed knows every packet that is in its log. They are synced once a second and not for each packet: after
a power cut, packets of the last seconds before it could be accepted a second time.

Two files take turns, ``<data>/emm-replays.0`` and ``.1``. When one is full, or older than any valid packet, the other
one is emptied and used. Cost: 8 bytes for each packet and 16 for each turn, 32 MiB at most; one write per turn, which
takes 3 microseconds for one packet and 60 for two thousand.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import google_crc32c
import numpy as np

from weft.errors import StorageError
from weft.limits import CLOCK_SKEW_S_MAX, MIB, REPLAY_WINDOW_S
from weft.security.files import PRIVATE_FILE, private_directory
from weft.wire.seen import SALT_BYTES, Seen

NAMES: Final = ("emm-replays.0", "emm-replays.1")
FILE_BYTES_MAX: Final = 16 * MIB  # two million packets: as many as ``Seen`` keeps
LIFETIME_S: Final = REPLAY_WINDOW_S + CLOCK_SKEW_S_MAX  # after that, a packet is too old to be accepted in any case
HASH_BYTES: Final = 8

# magic:8s salt:24s (the salt of the hashes: the same in both files)
MAGIC: Final = b"weftemm1"
HEADER: Final = struct.Struct(f"<8s{SALT_BYTES}s")
# unix_s:f64 count:u32 crc:u32, then count hashes of 64 bits. The CRC-32C covers everything else in the block.
BLOCK: Final = struct.Struct("<dII")
BLOCK_START: Final = struct.Struct("<dI")


class ReplayJournal:
    """``salt`` is that of the files, or ``fresh_salt`` (random) if there are none. Raise StorageError, here and below.

    ``unix_s`` is Unix time. All but ``sync`` is for one thread.
    """

    def __init__(self, data: Path, fresh_salt: bytes, unix_s: float) -> None:
        assert len(fresh_salt) == SALT_BYTES, "of hashes"
        private_directory(data)
        self._files = tuple(_File(data / name) for name in NAMES)
        salts = [each.salt for each in sorted(self._files, key=lambda each: each.last_s) if each.salt is not None]
        self.salt = salts[-1] if salts else fresh_salt
        for each in self._files:
            if each.salt != self.salt:
                each.start(self.salt, unix_s)
        self._current = max(self._files, key=lambda each: each.last_s)

    def restore(self, seen: Seen, unix_s: float) -> int:
        """Tell ``seen`` what was accepted before; return how many packets that is."""
        count = 0
        for file in sorted(self._files, key=lambda each: each.last_s):
            for at_s, hashes in file.blocks():
                if unix_s - at_s <= LIFETIME_S:
                    seen.restore(hashes, min(at_s, unix_s))
                    count += len(hashes)
        return count

    def append(self, hashes: Sequence[int], unix_s: float) -> None:
        """Write this before anything is done because of these packets."""
        current = self._current
        if current.size >= FILE_BYTES_MAX or unix_s - current.begun_s > LIFETIME_S:
            self._current = current = next(each for each in self._files if each is not current)
            current.start(self.salt, unix_s)
        current.append(hashes, unix_s)

    def sync(self) -> None:
        """Make what is written survive a power cut. This takes milliseconds, so call it in a thread of its own."""
        for each in self._files:
            each.sync()

    def close(self) -> None:
        for each in self._files:
            each.close()


class _File:
    """One of the two. A damaged end, for example after a power cut, is cut off when the file is opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
            content = os.pread(self._descriptor, 2 * FILE_BYTES_MAX, 0)
        except OSError as error:
            raise self._trouble("read", error) from None
        self.salt: bytes | None = None
        self.begun_s = self.last_s = 0.0
        self.size = 0
        self._dirty = False
        if len(content) >= HEADER.size and content.startswith(MAGIC):
            self.salt = HEADER.unpack_from(content)[1]
            self.size = HEADER.size
            for at_s, hashes in blocks_untrusted(content):
                self.begun_s, self.last_s = self.begun_s or at_s, at_s
                self.size += BLOCK.size + HASH_BYTES * len(hashes)

    def blocks(self) -> Iterator[tuple[float, list[int]]]:
        try:
            yield from blocks_untrusted(os.pread(self._descriptor, self.size, 0))
        except OSError as error:
            raise self._trouble("read", error) from None

    def start(self, salt: bytes, unix_s: float) -> None:
        """Empty the file and begin again."""
        try:
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            raise self._trouble("empty", error) from None
        self.salt, self.size = salt, 0
        self._write(HEADER.pack(MAGIC, salt))
        self.begun_s, self.last_s = unix_s, 0.0

    def append(self, hashes: Sequence[int], unix_s: float) -> None:
        body = np.array(hashes, "<u8").tobytes()
        checked = google_crc32c.value(BLOCK_START.pack(unix_s, len(hashes)) + body)
        self._write(BLOCK.pack(unix_s, len(hashes), checked) + body)
        self.last_s = unix_s

    def _write(self, data: bytes) -> None:
        """Write all of it. A block that was written half is overwritten by the next one."""
        try:
            written = os.pwrite(self._descriptor, data, self.size)
        except OSError as error:
            raise self._trouble("write", error) from None
        if written != len(data):
            raise StorageError(f"cannot write {self._path}: no room", written=written, need=len(data))
        self.size += written
        self._dirty = True

    def sync(self) -> None:
        if self._dirty:
            self._dirty = False
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                raise self._trouble("sync", error) from None

    def close(self) -> None:
        os.close(self._descriptor)

    def _trouble(self, what: str, error: OSError) -> StorageError:
        return StorageError(f"cannot {what} {self._path}: {error.strerror}")


def blocks_untrusted(content: bytes) -> Iterator[tuple[float, list[int]]]:
    """Yield the blocks up to the first that is cut off or damaged; raise nothing, whatever the bytes."""
    at = HEADER.size
    while at + BLOCK.size <= len(content):
        unix_s, count, checked = BLOCK.unpack_from(content, at)
        end = at + BLOCK.size + HASH_BYTES * count
        if end > len(content):
            return
        body = content[at + BLOCK.size : end]
        if google_crc32c.value(BLOCK_START.pack(unix_s, count) + body) != checked:
            return
        yield unix_s, np.frombuffer(body, "<u8").tolist()
        at = end
