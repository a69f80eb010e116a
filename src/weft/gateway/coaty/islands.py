"""The part of a namespace that a bridge can reach: its agents hear each other directly, and agents of other islands
only through the mesh.

Connected bridges use one name for their island, and are members of one group for it. A bridge that finds nobody takes
its last name, so that its group continues; the first time, it takes its own peer id. When two islands grow together,
the name that comes first in the alphabet stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from weft.gateway.coaty.settings import ISLAND_CHARS_MAX
from weft.security.files import private_directory, read_private, write_private


class Island:
    """``configured`` is a name that never changes; empty: the name is found out. ``path`` keeps it over restarts."""

    def __init__(self, configured: str, path: Path, own_peer: str) -> None:
        self._is_fixed = bool(configured)
        self._path = path
        self._is_chosen = False
        self.name = configured or _kept(path) or own_peer

    def choose(self, others: Iterable[str]) -> bool:
        """Return whether the name has changed. A newcomer takes the name that the others use."""
        if self._is_fixed:
            return False
        names = sorted(others)
        chosen = min([*names, self.name]) if self._is_chosen or not names else names[0]
        is_kept, self._is_chosen = self._is_chosen, True
        if chosen == self.name and is_kept:
            return False
        has_changed, self.name = chosen != self.name, chosen
        private_directory(self._path.parent)
        write_private(self._path, chosen.encode())
        return has_changed


def _kept(path: Path) -> str:
    """A file without a valid name counts as missing: at worst, that begins a new group."""
    text = (read_private(path) or b"").decode(errors="replace").strip()
    return text if len(text) <= ISLAND_CHARS_MAX and text.isprintable() else ""
