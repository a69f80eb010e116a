"""Write all pictures into docs/pictures, or compare them with what is there (``--check``)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from tools.pictures.rooms import rooms_picture
from tools.pictures.subjects import SUBJECTS
from tools.pictures.svg import drawn

DIRECTORY: Final = Path(__file__).parents[2] / "docs" / "pictures"


def pictures() -> dict[Path, str]:
    """Each file as it should be."""
    found = {f"{name}.svg": drawn(picture) for name, picture in SUBJECTS.items()}
    found["rooms.svg"] = drawn(rooms_picture())
    return {DIRECTORY / name: text for name, text in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    is_check = parser.parse_args().check
    for path, text in pictures().items():
        if not is_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path} is not current: run `make pictures`, and look at it")


if __name__ == "__main__":
    main()
