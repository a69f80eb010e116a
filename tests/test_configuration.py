"""Configuration files of any part: TOML and YAML, layers, and refusals in plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from weft.configuration import CONFIG_FILE_BYTES_MAX, BadConfig, Section, Source, flags, read_file, validated


class Oven(Section):
    heat_c: int = Field(default=200, ge=0, le=300)
    mode: Literal["grill", "fan"] = "fan"


class Tray(Section):
    depth: int


class Kitchen(Section):
    oven: Oven = Oven()
    trays: tuple[Tray, ...] = ()


def refusal(*sources: Source) -> str:
    with pytest.raises(BadConfig) as caught:
        validated(Kitchen, sources)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kitchen.toml", "[oven]\nheat_c = 180\n"),
        ("kitchen.yaml", "oven:\n  heat_c: 180\n"),
        ("kitchen.YML", "{oven: {heat_c: 180}}"),
        ("kitchen.conf", "oven.heat_c = 180"),
    ],
)
def test_toml_and_yaml_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert validated(Kitchen, [Source(name, read_file(file))]).oven.heat_c == 180


def test_an_empty_yaml_file_sets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "kitchen.yaml"
    file.write_text("# nothing yet\n")
    assert read_file(file) == {}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.yaml", b"oven: [", "is not YAML"),
        ("a.yaml", b"- oven", "has to be a table of named settings"),
        ("a.yaml", b"1: oven", "has to be a table of named settings"),
        ("a.yaml", b"!!python/object/apply:os.system [true]", "is not YAML"),
        ("a.yaml", b"[" * 5000, "is not YAML"),
        ("a.toml", b"oven = ", "is not TOML"),
        ("a.toml", b"\xff", "is not UTF-8 (at 0)"),
        ("a.toml", b"#" * (CONFIG_FILE_BYTES_MAX + 1), "too large for a configuration"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(BadConfig) as caught:
        read_file(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot read"):
        read_file(tmp_path / "none.toml")


def test_what_is_above_counts_and_leaves_its_source_as_it_was() -> None:
    below = Source("a.toml", {"oven": {"heat_c": 1, "mode": "grill"}})
    merged = validated(Kitchen, [below, flags({"oven.heat_c": 2, "oven.mode": None})])
    assert merged.oven == Oven(heat_c=2, mode="grill")
    assert below.values == {"oven": {"heat_c": 1, "mode": "grill"}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ovn": {}}, 'unknown setting "ovn": did you mean oven? (in a.toml)'),
        ({"oven": {"heat": 1}}, 'unknown setting "oven.heat": did you mean heat_c? (in a.toml)'),
        ({"oven": {"heat_c": 900}}, "oven.heat_c = 900: has to be at most 300 (in a.toml)"),
        ({"oven": {"mode": "boil"}}, "oven.mode = \"boil\": has to be 'grill' or 'fan' (in a.toml)"),
        ({"trays": [{"depth": 1}, {"deep": 1}]}, 'unknown setting "trays[1].deep": did you mean depth? (in a.toml)'),
        ({"trays": [{}]}, "trays[0].depth: is missing"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(values: dict[str, object], said: str) -> None:
    assert said in refusal(Source("a.toml", values)).split("; ")


def test_a_wrong_flag_is_called_one() -> None:
    assert refusal(flags({"oven.heat_c": -1})) == "oven.heat_c = -1: has to be at least 0 (given by flags)"
