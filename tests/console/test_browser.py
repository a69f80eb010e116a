"""A person at the console, in a real browser, against a real secured mesh of three nodes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import msgspec
import pytest

from tests.console.signing import publish, signed_in
from tests.console.three_nodes import ThreeNodes
from weft.model import Position
from weft.model.pipeline_reports import PIPELINES_BUCKET, PipelineReport, QueryReport

HERE = Path(__file__).parent / "browser"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NODE = shutil.which("node")
STORY_S_MAX = 400  # a bound, not an expectation
NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>"

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="there is no browser here: apt-get install chromium brings one"),
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (HERE / "node_modules" / "playwright-core").is_dir(),
        reason="the packages of the browser's story are not installed: make browser",
    ),
]


def prepare(mesh: ThreeNodes) -> None:
    """Something to see, and something that would like to be more than seen."""
    with signed_in(mesh.place.node, mesh.place.admin) as http:
        publish(http, "orders.made", '{"order": 1}', key="c1", headers={"source": "shop"})
        publish(http, "salaries.june", "secret")
        topic = "nasty." + NASTY.replace(" ", "/").replace(">", "")
        assert publish(http, topic, NASTY, key=NASTY, headers={NASTY: NASTY}).status_code == 200

    async def report() -> None:
        async with mesh.place.node.client() as client:
            for number in range(50):
                receipt = await client.publish("story.lag", f"{number}".encode())
            await client.commit("slow", [Position(receipt.stream, receipt.epoch, 10)])
            now_us = time.time_ns() // 1000
            query = QueryReport("archive", 12, 120_000, 95_200.0, 1.3, 1_204, 1_440_000)
            for report in (
                PipelineReport("plant-archive", "archive", "running", now_us, now_us, queries=(query,)),
                PipelineReport("night-rollup", "rollup", "failed", now_us, now_us, error=NASTY),
            ):
                await client.kv(PIPELINES_BUCKET).put(report.name, msgspec.json.encode(report))

    asyncio.run(report())


@pytest.mark.req("SEE-01", "SEC-02", "SEC-04")
def test_a_person_at_the_console(mesh: ThreeNodes, tmp_path: Path) -> None:
    """WEFT_SCREENSHOTS names a directory for the pictures of every page, light, dark and on a phone."""
    prepare(mesh)
    wanted = os.environ.get("WEFT_SCREENSHOTS")
    shots = Path(wanted or tmp_path).absolute()
    shots.mkdir(parents=True, exist_ok=True)
    place = mesh.place
    story = {
        "base": f"http://{place.node.admin}",
        "admin": place.admin,
        "few": place.few,
        "browser": BROWSER,
        "shots": str(shots),
        "every": wanted is not None,
    }
    command = [NODE or "", str(HERE / "story.mjs"), json.dumps(story)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        watch = threading.Timer(STORY_S_MAX, process.kill)
        watch.start()
        try:
            said = converse(process, mesh)
        finally:
            watch.cancel()
            process.kill()
    assert said.endswith("done\n"), said


def converse(process: subprocess.Popen[str], mesh: ThreeNodes) -> str:
    """What the story said; what it asked for is done."""
    assert process.stdin is not None and process.stdout is not None
    said = ""
    for line in process.stdout:
        if not line.startswith("@"):
            said += line
            continue
        what, name = line[1:].split()
        {"kill": mesh.kill, "start": mesh.start}[what](name)
        process.stdin.write("\n")
        process.stdin.flush()
    return said
