"""The image that ``make image`` built, run by buildah: what ``docker run`` does, but for namespaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import DATA, image_environment, instruction, moved, started, status_of
from tests.up import END_TIMEOUT_S
from tools.image import BUILDAH, BUILT, IMAGE, ISOLATION

OWNER = 10001  # the image's user
ENTRYPOINT: list[str] = json.loads(instruction("ENTRYPOINT"))
CMD: list[str] = json.loads(instruction("CMD"))

pytestmark = [
    pytest.mark.skipif(not BUILT.exists(), reason="there is no image: `make image` builds one where buildah is"),
    pytest.mark.skipif(os.geteuid() != 0, reason="buildah without namespaces needs root"),
    pytest.mark.req("OPS-01"),
]


@pytest.fixture
def container() -> Iterator[str]:
    name = buildah("from", IMAGE).split()[-1]
    try:
        yield name
    finally:
        buildah("rm", name)


def test_a_node_runs_in_it_takes_and_gives_events_and_ends_well(container: str) -> None:
    start = [moved(word, Path(DATA)) for word in ENTRYPOINT + CMD]
    with started(in_container(container, *start), dict(os.environ)) as node:
        assert (status_of(node, "/healthz"), status_of(node, "/readyz")) == (200, 200)
        user = process_of(node.process.pid, "weft", "up")
        assert Path(f"/proc/{user}").stat().st_uid == OWNER
        assert " synced" in said(in_container(container, "weft", "pub", "plant.line1.temp", "21.5"))
        read = ("weft", "sub", "plant.>", "--from", "earliest", "--count", "1", "--json")
        assert json.loads(said(in_container(container, *read)))["payload"] == "21.5"
        os.kill(user, signal.SIGTERM)
        assert node.process.wait(END_TIMEOUT_S) == 0, node.said()
    owners = said(in_container(container, "find", DATA, "-printf", "%U\n"))
    assert set(owners.split()) == {str(OWNER)}


def test_it_is_what_the_dockerfile_says(container: str) -> None:
    config: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]
    assert config["User"] == instruction("USER")
    assert (config["Entrypoint"], config["Cmd"]) == (ENTRYPOINT, CMD)
    assert set(config["ExposedPorts"]) == {
        each if "/" in each else f"{each}/tcp" for each in instruction("EXPOSE").split()
    }
    assert set(config["Volumes"]) == {DATA}
    assert f"HOME={image_environment()['HOME']}" in config["Env"]
    assert said((*BUILDAH, "run", *ISOLATION, container, "--", "weft", "--version")).startswith("weft ")


def in_container(container: str, *command: str) -> tuple[str, ...]:
    return (*BUILDAH, "run", *ISOLATION, "--env", "WEFT_LOG_FORMAT=json", container, "--", *command)


def buildah(*arguments: str) -> str:
    return said((*BUILDAH, *arguments))


def said(command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * END_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def process_of(ancestor: int, *words: str) -> int:
    """The one below this process that is the command itself, not a program that starts it."""
    below = {ancestor}
    for each in sorted(int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()):
        try:
            parent = int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[1])
            command = Path(f"/proc/{each}/cmdline").read_text().split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if parent in below:
            below.add(each)
            if "python" in Path(command[0]).name and Path(command[1]).name == words[0] and command[2] == words[1]:
                return each
    raise AssertionError(f"no process {' '.join(words)} below {ancestor}")
