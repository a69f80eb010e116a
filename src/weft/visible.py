r"""Text of others as people may see it on a terminal: what cannot be seen is written out.

A control character moves the cursor, an escape sequence changes the window or hides lines, a bidi control turns text
around, a newline makes two lines of one. ``visible`` turns each of these into an escape: ``\n``, ``\x1b``,
``\u202e``. Letters of every alphabet, combining marks, spaces and symbols stay as they are, and so does the backslash:
this is for reading, not for reading back. Programs get the exact text (``--json``).
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

# What has to be looked at one by one: all but the printable characters of ASCII.
SUSPECT: Final = re.compile(r"[^\x20-\x7e]")
HIDDEN_IN_JSON: Final = re.compile(r"[^\x20-\x7e\n]")  # a newline in JSON text is layout


def visible(text: str) -> str:
    """The text with everything invisible escaped; always one line."""
    if text.isprintable():
        return text
    return SUSPECT.sub(lambda found: escaped(found[0]), text)


def visible_json(text: str) -> str:
    """JSON that says the same, with JSON's own escapes: what cannot be seen occurs in its strings only. One line, if it
    was one."""
    return HIDDEN_IN_JSON.sub(lambda found: _json_escaped(found[0]), text)


def _json_escaped(character: str) -> str:
    if escaped(character) == character:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def escaped(character: str) -> str:
    """One character, written out unless it can be seen."""
    if character.isprintable() or category(character) == "Zs":  # all that are as wide as they look
        return character
    return character.encode("unicode_escape").decode()
