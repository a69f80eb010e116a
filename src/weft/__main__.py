"""``python -m weft``: the ``weft`` command, wherever it is not on the path."""

from weft.cli.main import main

main()
