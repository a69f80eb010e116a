"""``bench.gossip --check``: a figure above its bound is named and fails ``make sim``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.gossip import BOUNDS, Figures, above_bounds

from bench import gossip

AT_THE_BOUNDS = Figures(nodes=1000, known_s=0.4, **BOUNDS)


def test_figures_at_their_bounds_are_fine_and_each_is_named_when_it_is_above() -> None:
    assert above_bounds(AT_THE_BOUNDS) == []
    for name, bound in BOUNDS.items():
        (said,) = above_bounds(replace(AT_THE_BOUNDS, **{name: bound * 1.1}))  # type: ignore[arg-type]
        assert said.startswith(f"1000 nodes: {name} is ")


def test_only_a_check_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gossip, "measure", lambda size: replace(AT_THE_BOUNDS, nodes=size, idle_bytes=3201.0))
    assert gossip.main(["1000"]) == 0
    assert "allowed" not in capsys.readouterr().out
    assert gossip.main(["--check", "1000"]) == 1
    assert "1000 nodes: idle_bytes is 3201.0, at most 3200 is allowed" in capsys.readouterr().out


@pytest.mark.req("NFR-03")
def test_a_small_mesh_keeps_the_bounds_of_a_large_one() -> None:
    """``make sim`` holds 1,000 nodes to the same ones, which takes minutes."""
    assert above_bounds(gossip.measure(20)) == []
