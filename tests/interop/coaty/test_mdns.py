"""Finding each other by mDNS. No multicast leaves the network namespace that each test is given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.coaty.js_agent import unavailable

ROOT = Path(__file__).parents[3]
PREPARE = "ip link set lo up && ip link set lo multicast on && ip route add 224.0.0.0/4 dev lo"


def alone(story: str) -> None:
    """Run it in a namespace that has nothing but a loopback interface; skip where that is not allowed."""
    if shutil.which("ip") is None or shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("mDNS is tested in a network namespace only, which needs root, unshare and ip")
    if subprocess.run(("unshare", "-n", "true"), check=False, capture_output=True).returncode:
        pytest.skip("this machine allows no network namespaces")
    command = f"{PREPARE} && exec {sys.executable} -m tests.interop.coaty.mdns_story {story}"
    done = subprocess.run(
        ("unshare", "-n", "sh", "-c", command), cwd=ROOT, check=False, capture_output=True, text=True, timeout=180
    )
    assert done.stdout == "found\n", done.stderr


@pytest.mark.req("COA-02")
def test_our_agents_find_each_other() -> None:
    alone("ourselves")


@pytest.mark.req("COA-02", "COA-11")
@pytest.mark.skipif(unavailable() is not None, reason=unavailable() or "")
def test_we_and_the_reference_find_each_other() -> None:
    alone("reference")
