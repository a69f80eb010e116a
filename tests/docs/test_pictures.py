"""The pictures of the documents are current, and every one of them is shown."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures.__main__ import DIRECTORY, pictures
from tools.pictures.rooms import imported, levels_of, reduced
from tools.pictures.subjects import SUBJECTS
from tools.pictures.svg import Picture

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def drawn() -> dict[Path, str]:
    """Drawing them reads all of the source."""
    return pictures()


def test_every_picture_is_current(drawn: dict[Path, str]) -> None:
    different = [path.name for path, text in drawn.items() if not path.exists() or path.read_text() != text]
    assert not different, "run `make pictures`, and look at them"
    assert {*DIRECTORY.iterdir()} == {*drawn}, "nothing else is there"


def test_every_picture_is_shown_on_a_page(drawn: dict[Path, str]) -> None:
    shown = {name for page in PAGES for name in re.findall(r"pictures/([\w-]+\.svg)", page.read_text())}
    assert shown == {path.name for path in drawn}


def test_every_picture_is_xml_with_a_title(drawn: dict[Path, str]) -> None:
    for text in drawn.values():
        tree = ElementTree.fromstring(text)  # noqa: S314, we have just written it
        assert tree.findtext("{http://www.w3.org/2000/svg}title")


@pytest.mark.parametrize("picture", SUBJECTS.values(), ids=SUBJECTS)
def test_boxes_lie_within_the_picture(picture: Picture) -> None:
    for box in picture.boxes:
        assert all(0 < at < size for at, size in zip(box.at, picture.size, strict=True)), box.name


def test_imports_are_found_wherever_they_stand() -> None:
    source = "import a.b\nfrom c import d, e\ndef f():\n    from g.h import i\n"
    assert imported(source) == {"a.b", "c.d", "c.e", "g.h.i"}


def test_arrows_that_follow_from_others_are_left_out() -> None:
    graph = {"top": frozenset({"middle", "ground"}), "middle": frozenset({"ground"}), "ground": frozenset[str]()}
    assert reduced(graph) == {"top": {"middle"}, "middle": {"ground"}, "ground": set()}
    assert levels_of(graph) == {"top": 2, "middle": 1, "ground": 0}
