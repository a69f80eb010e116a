"""What deploy/ holds, read as its users read it, and nodes that are started as they would start them."""

from __future__ import annotations

import os
import re
import shlex
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import yaml

from tests import up
from tests.up import END_TIMEOUT_S, RunningNode
from weft.node.config import NodeConfig
from weft.node.config.loading import load_config

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "weft"
ENROL = DEPLOY / "enrol.sh"
DATA = "/data"  # where the image has its volume
GRPC, ADMIN, CA, EXMP, EMM = 7400, 7480, 7443, 5041, 4700


def dockerfile() -> list[tuple[str, str]]:
    """Its instructions: (COPY, what follows)."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    parted = (line.partition(" ") for line in text.splitlines() if line.strip())
    return [(name, rest.strip()) for name, _, rest in parted]


def instruction(name: str) -> str:
    """What the last one of that name says: it is the one that counts."""
    return [rest for each, rest in dockerfile() if each == name][-1]


def image_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(instruction("ENV")))


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def compose_nodes() -> dict[str, Any]:
    return {name: service for name, service in compose()["services"].items() if name != "ca"}


def unescaped(text: str) -> str:
    """As the shell in the container gets it: compose takes $$ for $."""
    return text.replace("$$", "$")


def settings(environ: Mapping[str, str], toml: str = "") -> NodeConfig:
    """By the node's own loader, which refuses what it does not know."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(toml)
        file.flush()
        return load_config(Path(file.name), environ, {})


def moved(text: str, data: Path) -> str:
    """The same with another data directory, and with free ports for those that others may have on this machine."""
    return re.sub(rf":({GRPC}|{ADMIN})\b", ":0", text.replace(DATA, str(data)))


@contextmanager
def started(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[RunningNode]:
    """A node that has said ready, with nothing from this environment but where commands are."""
    with up.started(command, {"PATH": path(), "WEFT_LOG_FORMAT": "json", **environ}) as node:
        yield node


def path() -> str:
    """Where commands are found: `weft` and `python` of this environment first, as in the image."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def status_of(node: RunningNode, page: str) -> int:
    """Over TLS, which every address but a loopback one has; who is there does not matter for health."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    port = int(node.admin.rpartition(":")[2])
    connection = HTTPSConnection("127.0.0.1", port, timeout=END_TIMEOUT_S, context=context)
    try:
        connection.request("GET", page)
        return connection.getresponse().status
    finally:
        connection.close()
