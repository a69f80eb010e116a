"""The table of settings in docs/sdk.md is complete. Its examples are run by tests/docs."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from weft.client import Options

PAGE = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text()


def test_every_setting_is_explained_with_its_default() -> None:
    told: dict[str, float] = {}
    for names, values in re.findall(r"^\| (`.+?`) \| (.+?) \|", PAGE, re.MULTILINE):
        for name, value in zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True):
            number, *unit = value.split()
            told[name] = float(number) * (1 << 20 if unit == ["MiB"] else 1)
    assert told == {field.name: field.default for field in fields(Options)}
