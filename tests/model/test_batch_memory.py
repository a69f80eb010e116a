"""No length from outside is allocated by before it is checked: proven by what the allocators saw."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.model import forge
from tests.model.forge import THREE, THREE_HEAD
from weft.limits import BATCH_BYTES_MAX, KIB
from weft.model import BadBatch, Batch, Event

MESSAGE = THREE.batch(THREE_HEAD)[64:]
NUMBERS = [
    0,
    1,
    8,
    1 << 16,
    1 << 20,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
    (1 << 64) - 1,
]
CODECS = {1: "lz4", 2: "zstd"}


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """Arrow's memory pool, with its peak counted from here on."""
    ordinary = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(ordinary)
    pa.set_memory_pool(counted)
    yield counted
    pa.set_memory_pool(ordinary)


def spoilt(data: bytes, chance: np.random.Generator) -> bytes:
    """One number of the batch, at any place and of any width, made something else."""
    width = 1 << int(chance.integers(4))
    at = int(chance.integers(len(data) // width)) * width
    number = NUMBERS[chance.integers(len(NUMBERS))] & ((1 << 8 * width) - 1)
    return forge.reseal(data[:at] + number.to_bytes(width, "little") + data[at + width :])


def read(data: bytes) -> bool:
    try:
        list(Batch.read_untrusted(data))
    except BadBatch:
        return False
    return True


def test_reading_plain_batches_allocates_next_to_nothing(pool: pa.MemoryPool) -> None:
    chance = np.random.default_rng(1)
    events = [Event(b"payload", 5, key=b"k", headers={"a": "b"}), Event(b"", 7)]
    batches = [THREE.batch(THREE_HEAD), Batch.from_events(events).data, Batch.from_events(events * 50).data]
    built = pool.max_memory()
    taken = sum(read(spoilt(batches[number % 3], chance)) for number in range(4000))
    assert 100 < taken < 3000, "most are refused, and some are not"
    assert pool.max_memory() <= built + 64 * KIB


@pytest.mark.parametrize("flags", CODECS)
def test_reading_compressed_batches_allocates_what_is_allowed(pool: pa.MemoryPool, flags: int) -> None:
    chance = np.random.default_rng(2)
    compressed = pa.compress(MESSAGE, codec=CODECS[flags], asbytes=True)
    data = forge.seal(replace(THREE_HEAD, flags=flags), struct.pack("<I", len(MESSAGE)) + compressed)
    assert read(data)
    for _ in range(1000):
        read(spoilt(data, chance))
    assert pool.max_memory() <= BATCH_BYTES_MAX + 64 * KIB


@pytest.mark.parametrize("flags", CODECS)
def test_a_stated_length_over_the_limit_is_not_allocated(pool: pa.MemoryPool, flags: int) -> None:
    compressed = pa.compress(MESSAGE, codec=CODECS[flags], asbytes=True)
    before = pool.max_memory()
    for stated in (BATCH_BYTES_MAX - 63, 1 << 30, (1 << 32) - 1):
        assert not read(forge.seal(replace(THREE_HEAD, flags=flags), struct.pack("<I", stated) + compressed))
    assert pool.max_memory() == before


@pytest.mark.parametrize("flags", CODECS)
def test_a_bomb_goes_off_in_a_bounded_room(pool: pa.MemoryPool, flags: int) -> None:
    bomb = pa.compress(bytes(64 * BATCH_BYTES_MAX // 16), codec=CODECS[flags], asbytes=True)
    before = pool.max_memory()
    for stated in (1, 1000, BATCH_BYTES_MAX - 64):
        assert not read(forge.seal(replace(THREE_HEAD, flags=flags), struct.pack("<I", stated) + bomb))
    assert pool.max_memory() <= before + BATCH_BYTES_MAX


@pytest.mark.parametrize("flags", CODECS)
def test_memory_of_others_is_never_part_of_a_message(flags: int) -> None:
    """A message shorter than stated must not be filled up with what was in the buffer before."""
    whole = forge.message(THREE.metadata().pack(), THREE.body)
    cut = pa.compress(whole[:-8], codec=CODECS[flags], asbytes=True)  # without the last payload
    data = forge.seal(replace(THREE_HEAD, flags=flags), struct.pack("<I", len(whole)) + cut)
    for _ in range(20):
        secret = pa.compress(b"secret" * 1000, codec="lz4")
        del secret
        assert not read(data)


def test_a_metadata_claim_is_not_allocated_by(pool: pa.MemoryPool) -> None:
    """Arrow would allocate 1 TiB for this one: a compressed buffer that says it holds as much."""
    lying = THREE.spoilt(forge.PAYLOAD_DATA, struct.pack("<q", 1 << 40) + b"\x04\x22\x4d\x18")
    data = lying.batch(THREE_HEAD, replace(lying.metadata(), has=frozenset({"compression"})))
    before = pool.max_memory()
    assert not read(data)
    assert pool.max_memory() == before


def zstd_frame(window_log: int) -> bytes:
    """MESSAGE in a Zstandard frame that asks for a window of that size and keeps its length to itself."""
    # magic, descriptor (no content size, not a single segment), window, one raw last block: RFC 8878, 3.1.1
    header = struct.pack("<IBB", 0xFD2FB528, 0, window_log - 10 << 3)
    return header + (len(MESSAGE) << 3 | 1).to_bytes(3, "little") + MESSAGE


def compressed_batches(zstd: bytes) -> list[bytes]:
    frames = {1: pa.compress(MESSAGE, codec="lz4", asbytes=True), 2: zstd}
    return [
        forge.seal(replace(THREE_HEAD, flags=flags), struct.pack("<I", len(MESSAGE)) + frame)
        for flags, frame in frames.items()
    ]


def peak_kib() -> int:
    found = re.search(r"VmPeak:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


def growth_kib() -> int:
    """By how much hostile batches make this process grow beyond what good ones do."""
    chance = np.random.default_rng(3)
    for data in [*compressed_batches(zstd_frame(window_log=10)), THREE.batch(THREE_HEAD)]:
        assert read(data)
    before = peak_kib()
    for data in [*compressed_batches(zstd_frame(window_log=27)), THREE.batch(THREE_HEAD)]:
        assert read(data)
        for _ in range(1000):
            read(spoilt(data, chance))
    return peak_kib() - before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_is_allocated_outside_of_the_pool_either() -> None:
    """By the codecs or numpy: that shows only in the size of a process, so this takes one of its own."""
    grown = subprocess.run(
        [sys.executable, "-c", "from tests.model.test_batch_memory import growth_kib; print(growth_kib())"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[2],
    )
    assert int(grown.stdout) < 2 * BATCH_BYTES_MAX // KIB
