"""Freed memory of a worker is kept, and not all of it; a node gives back what only its start needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.up import up
from weft.limits import MIB

# Eight pieces of 4 MiB in hand, as a worker has them, a hundred times over; how many pages the kernel had to give.
STORY = """
import resource, sys
from weft.heap import WORKER_KEPT_BYTES, keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for number in range(100):
        held = [bytes([1 + number]) * (4 << 20) for _ in range(8)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
if not keep_freed_memory(WORKER_KEPT_BYTES, arenas_max=1):
    sys.exit("this C library cannot")
faults()
print(first, faults())
"""


@pytest.mark.req("SPK-01")
def test_what_was_freed_is_used_again() -> None:
    ended = subprocess.run([sys.executable, "-c", STORY], capture_output=True, text=True, timeout=120, check=False)
    if "this C library cannot" in ended.stderr:
        pytest.skip("this C library has no mallopt: workers are a little slower here")
    assert ended.returncode == 0, ended.stderr
    fresh, kept = map(int, ended.stdout.split())
    assert kept < 100 < fresh, f"pages that the kernel gave: {fresh} at first, {kept} then"


def test_a_log_file_that_is_made_ahead_takes_no_memory(tmp_path: Path) -> None:
    """What fills it is in a buffer first, which the C library would keep: two thirds of what an idle node takes."""

    def resident_mib(name: str, prepared_bytes: int) -> int:
        environ = {"WEFT_STORAGE_PREPARED_BYTES": str(prepared_bytes)}
        with up(tmp_path / name, "--insecure", environ=environ) as node:
            status = Path(f"/proc/{node.process.pid}/status").read_text()
            node.end_quietly()
        return int(status.partition("VmRSS:")[2].split()[0]) // 1024

    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells here what a process has in memory")
    assert resident_mib("long", 66 * MIB) < resident_mib("none", 0) + 40
