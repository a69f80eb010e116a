"""The image: what goes in, and a node that is started as its entry point does."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import (
    ADMIN,
    CA,
    DATA,
    DEPLOY,
    EMM,
    EXMP,
    GRPC,
    ROOT,
    dockerfile,
    image_environment,
    instruction,
    moved,
    path,
    settings,
    started,
    status_of,
)
from tests.up import END_TIMEOUT_S
from weft.node.enrolling import CA_URL


@pytest.mark.req("OPS-01")
def test_a_node_starts_as_the_image_starts_it_is_healthy_and_ends_well(tmp_path: Path) -> None:
    command = [moved(word, tmp_path) for word in json.loads(instruction("ENTRYPOINT")) + json.loads(instruction("CMD"))]
    environ = {name: moved(value, tmp_path) for name, value in image_environment().items() if name != "PATH"}
    with started(command, environ) as node:
        assert (status_of(node, "/healthz"), status_of(node, "/readyz")) == (200, 200)
        assert health_check(int(node.admin.rpartition(":")[2])) == 0
        assert node.end(signal.SIGTERM) == 0
    assert (tmp_path / ".config" / "weft" / "contexts.toml").exists(), "contexts belong into the volume"


def health_check(port: int) -> int:
    """The status of the image's own check, at another port."""
    check = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    command = [word.replace(str(ADMIN), str(port)) for word in check]
    return subprocess.run(command, env={"PATH": path()}, timeout=END_TIMEOUT_S, check=False).returncode


@pytest.mark.req("OPS-01")
def test_ports_are_those_that_the_product_has() -> None:
    config = settings({"WEFT_GATEWAY_EXMP_TLS": "0.0.0.0", "WEFT_GATEWAY_EMM_UDP": "0.0.0.0"})
    exmp, emm = config.gateway.exmp.tls, config.gateway.emm.udp
    assert exmp is not None and emm is not None
    assert (config.listen.grpc.port, config.listen.admin.port, exmp.port, emm.port) == (GRPC, ADMIN, EXMP, EMM)
    assert CA_URL.endswith(f":{CA}")
    assert instruction("EXPOSE").split() == [*map(str, (GRPC, ADMIN, CA, EXMP)), f"{EMM}/udp"]


def test_it_is_nobody_in_particular_and_writes_to_one_place() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instruction("USER")), "Kubernetes cannot tell that a name is not root"
    assert instruction("VOLUME") == instruction("WORKDIR") == image_environment()["HOME"] == DATA


def test_what_is_copied_is_let_in_by_dockerignore() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word for name, rest in dockerfile() if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / each).exists() for each in copied)


def test_bases_are_chosen_by_an_argument_and_no_registry_is_named() -> None:
    bases = [rest.split()[0] for name, rest in dockerfile() if name == "FROM"]
    assert set(bases) == {"${PYTHON_IMAGE}"}
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            assert not re.search(r"pypi|npmjs|docker\.io|ghcr|quay|debian\.org", file.read_text()), file
