"""Weft: a lightweight event mesh for Python and Spark teams.

``weft.connect`` and what goes with it come from ``weft.client`` when they are first asked for, so that importing a part
of Weft does not import gRPC. Type checkers read ``__init__.pyi``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
CLIENT_NAMES = ("Client", "ClientTls", "Hooks", "Options", "TlsFiles", "connect")


def __getattr__(name: str) -> Any:
    if name in CLIENT_NAMES:
        return getattr(import_module("weft.client"), name)
    if name == "sync":
        return import_module("weft.sync")
    raise AttributeError(f"module 'weft' has no attribute {name!r}")
