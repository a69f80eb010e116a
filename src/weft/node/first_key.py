"""The key that a first start makes for the commands of its machine (SEC-07).

A node keeps only the hash of a key; the key itself goes into a context at the very end of the start. If the start is
killed in between, nobody has the key, and later starts would not make another one. So the key stays in a separate file
until the context is written::

    client/first-key    the key as text, for its owner only

The file is written before the hash. Whenever a start is killed, the next one finds no hash (and makes a key) or both
(and goes on with that key).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weft.security.api_keys import fits, parse_key_untrusted
from weft.security.errors import Unauthenticated
from weft.security.files import private_directory, read_private, remove_private, write_private
from weft.security.key_store import KeyRequest, create_key, read_keys
from weft.security.secret import Secret

FILE: Final = "first-key"
EVERYTHING: Final = KeyRequest("the first key", publish=(">",), subscribe=(">",), admin=True)


class FirstKey:
    """``data`` is the node's directory, ``place`` the one for commands of this machine. Everything here blocks."""

    def __init__(self, data: Path, place: Path) -> None:
        self._data = data
        self._place = place
        self.file = place / FILE

    def settle(self, entropy: bytes, now_s: float) -> Secret[str] | None:
        """The key for a context, made if this is the first start; None once ``kept`` was called.

        ``entropy`` is random: the secret, and then the salt of its hash. ``now_s`` is Unix time.
        """
        if not read_keys(self._data):
            private_directory(self._place)
            _, key = create_key(self._data, EVERYTHING, entropy, now_s, self._lay_down)
            return key
        waiting = self._waiting()
        if waiting is None:
            self.kept()
        return waiting

    def kept(self) -> None:
        """A context has the key, or nobody needs it: delete what is here."""
        remove_private(self.file)

    def _lay_down(self, key: Secret[str]) -> None:
        write_private(self.file, key.reveal().encode())

    def _waiting(self) -> Secret[str] | None:
        """The key in the file, if it is one of this node's keys."""
        text = read_private(self.file)
        if text is None:
            return None
        key = Secret(text.decode("ascii", "replace").strip())
        try:
            key_id, secret = parse_key_untrusted(key.reveal())
        except Unauthenticated:
            return None
        record = next((each for each in read_keys(self._data) if each.id == key_id), None)
        return key if record is not None and fits(secret, record.hash) else None
