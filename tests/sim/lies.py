"""Lies that a node could tell, planted in it: the simulation has to find each of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import pytest

from tests.sim.test_seeds import SEEDS
from weft.testing.sim import Violation, run

Lie: TypeAlias = Callable[[], AbstractContextManager[Any]]


def assert_found(lie: Lie, last_seen: tuple[int, ...]) -> None:
    """``last_seen``: the seeds that found it last, which are tried first."""
    for seed in (*last_seen, *range(SEEDS)):
        try:
            with lie():
                run(seed)
        except Violation:
            return
    pytest.fail(f"{lie.__name__} went unnoticed in {SEEDS} seeds")
