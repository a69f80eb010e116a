"""docs/configuration.md says what the models say, and its example is a valid configuration."""

from __future__ import annotations

import re
from pathlib import Path

from weft.node.config.loading import VARIABLES, load_config
from weft.node.config.page import page

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m weft.node.config.page > docs/configuration.md"


def test_the_page_names_every_variable() -> None:
    assert [name for name in VARIABLES if f"`{name}`" not in page()] == []


def test_the_example_works(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", page(), re.DOTALL)
    assert found is not None
    file = tmp_path / "weft.toml"
    file.write_text(found[1])
    assert load_config(file, {}, {}).node.id == "node-a"
