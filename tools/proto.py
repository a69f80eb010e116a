"""Generates Python from the .proto files of weft.wire.mesh (``make proto``). The result is checked in."""

from __future__ import annotations

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

SOURCES = Path(__file__).parent.parent / "src"
PROTOS = ("weft/wire/mesh/mesh.proto", "weft/wire/mesh/peerlink.proto")


def generate(target: Path) -> None:
    """Write the modules and their type stubs below ``target``. No gRPC stubs: transports pass bytes, not messages."""
    includes = Path(grpc_tools.__file__).parent / "_proto"
    arguments = [
        "protoc",
        f"-I{SOURCES}",
        f"-I{includes}",
        f"--python_out={target}",
        f"--pyi_out={target}",
        *PROTOS,
    ]
    status = protoc.main(arguments)
    if status != 0:
        raise SystemExit(f"protoc failed with status {status}")


if __name__ == "__main__":
    generate(SOURCES)
    sys.stdout.write(f"generated from {', '.join(PROTOS)}\n")
