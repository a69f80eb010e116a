"""The ``weft`` command, as tests of commands have it."""

from tests.cli.conftest import umask, weft

__all__ = ["umask", "weft"]
