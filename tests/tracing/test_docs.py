"""The example of docs/tracing.md runs as it stands, and the page has every span and every setting."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_for
from tests.up import END_TIMEOUT_S, up
from weft.node.config.sections import TracingSection

PAGE = (Path(__file__).parents[2] / "docs" / "tracing.md").read_text()
SOURCE = Path(__file__).parents[2] / "src" / "weft" / "node" / "tracing.py"


@pytest.mark.req("SEE-03")
def test_example(tmp_path: Path) -> None:
    """In a process of its own: a tracer provider is set once, and for good."""
    (block,) = blocks_for("docs/tracing.md", __file__)
    with up(tmp_path / "a", "--insecure") as node:
        run = f"{block.code}\nimport asyncio\nasyncio.run(main(['{node.grpc}']))"
        done = subprocess.run(
            [sys.executable, "-c", run], check=False, capture_output=True, text=True, timeout=END_TIMEOUT_S
        )
        assert done.returncode == 0, done.stderr


def test_every_span_of_a_node_and_every_setting_is_explained() -> None:
    names = set(re.findall(r'"(weft\.(?:append|sync|forward|deliver))"', SOURCE.read_text()))
    assert len(names) == 4
    assert names == set(re.findall(r"^\| `(weft\.\w+)` \|", PAGE, re.MULTILINE))
    assert all(f"{name}" in PAGE for name in TracingSection.model_fields)
