"""Where secrets are: ``file:PATH`` or ``env:NAME``, looked up on the machine that needs them.

Settings travel, and are logged on the way. So they say where a secret is found, and never hold it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weft.errors import UsageError
from weft.limits import KIB

SECRET_FILE_BYTES_MAX: Final = 4 * KIB  # an API key has 80 characters; a file of more is another file


def find_file(path: str) -> Path:
    """A file beside the working directory, or one that came with the job (``--files``, ``addFile``)."""
    given = Path(path).expanduser()
    if given.is_absolute() or given.exists():
        return given
    try:
        from pyspark import SparkFiles  # programs without Spark do not need this

        sent = Path(SparkFiles.get(path))
    except (ImportError, AssertionError):  # no Spark here
        return given
    return sent if sent.exists() else given


def read_secret(option: str, reference: str) -> str:
    """The secret in the file of ``file:/path`` or in the variable of ``env:NAME``; UsageError if there is none."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        secret = os.environ.get(place, "")
        if not secret.strip():
            raise UsageError(f"option {option}: there is no variable {place} in the environment of this process")
        return secret.strip()
    path = find_file(place)
    try:
        with path.open("rb") as stream:
            data = stream.read(SECRET_FILE_BYTES_MAX + 1)
        secret = data.decode("ascii").strip()
    except OSError as error:
        raise UsageError(f"option {option}: cannot read {path} on this machine: {error}") from None
    except UnicodeDecodeError:  # whose text quotes the file
        raise UsageError(f"option {option}: {path} holds no key: it has a byte that is not ASCII") from None
    if not secret or len(data) > SECRET_FILE_BYTES_MAX:
        raise UsageError(f"option {option}: {path} holds no key", bytes=len(data), limit=SECRET_FILE_BYTES_MAX)
    return secret
