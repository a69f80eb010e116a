"""docs/api.txt names what is public. Signatures depend on versions of libraries: ``make dist`` compares them."""

from __future__ import annotations

from tools.api import FILE, listing


def names(text: str) -> set[str]:
    return {line.strip().removeprefix("async ").partition("(")[0] for line in text.splitlines()}


def test_what_is_public_is_written_down() -> None:
    written, now = names(FILE.read_text()), names(listing())
    assert not (written ^ now), "run `make api`, and look at the difference: it is what users see"
