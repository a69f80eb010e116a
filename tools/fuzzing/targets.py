"""What is attacked: the functions that tests/fuzz/targets_*.py offer, and valid inputs to start from.

Such a file has ``TARGETS: dict[str, Callable[[bytes], None]]`` and ``SEEDS: dict[str, list[bytes]]``. A target
swallows the documented error of its decoder; whatever else it raises is a finding.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

INPUT_BYTES_MAX = 1 << 20  # the room a worker has to show its input to the supervisor
SEED_BYTES_MAX = INPUT_BYTES_MAX // 2  # mutations grow
NAME = re.compile(r"[\w.-]+")  # names become folders


class BadTargets(Exception):
    """A targets file that cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function to attack, the file it is from, and inputs it is known to take."""

    name: str
    path: Path
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def load_targets(directory: Path) -> dict[str, Target]:
    """Every target under ``directory``, by name."""
    found: dict[str, Target] = {}
    for path in sorted(directory.glob("targets_*.py")):
        targets = load_file(path)
        if taken := found.keys() & targets.keys():
            raise BadTargets(f"{path}: names that are taken: {', '.join(sorted(taken))}")
        found |= targets
    return found


def load_file(path: Path) -> dict[str, Target]:
    """The targets of one file, by name."""
    module = import_file(path)
    if orphans := module.SEEDS.keys() - module.TARGETS.keys():
        raise BadTargets(f"{path}: seeds without a target: {', '.join(sorted(orphans))}")
    targets = {}
    for name, run in module.TARGETS.items():
        if not NAME.fullmatch(name):
            raise BadTargets(f"{path}: the name {name!r} is not made of letters, digits, _ . - alone")
        targets[name] = Target(name, path, run, tuple(map(bytes, module.SEEDS.get(name, ()))))
        if max(map(len, targets[name].seeds), default=0) > SEED_BYTES_MAX:
            raise BadTargets(f"{path}: a seed of {name} is longer than {SEED_BYTES_MAX} bytes")
    return targets


def import_file(path: Path) -> ModuleType:
    """The module in ``path``, which need not be importable by name."""
    spec = importlib.util.spec_from_file_location(f"fuzz_{path.stem}", path)
    assert spec is not None and spec.loader is not None, "a .py file always has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
