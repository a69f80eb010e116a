"""Structured logs: short events in snake_case with key=value, as lines for people or JSON for machines.

>>> log = node_logger("node-a")
>>> log.info("peer_connected", peer="node-b", address="10.0.0.2:7400")  # doctest: +SKIP
2026-01-31T12:00:00.000000Z [info     ] peer_connected    address=10.0.0.2:7400 node=node-a peer=node-b

They go through the standard library's loggers, below ``weft``: a program with a node in it (for example a test) sees
them among its other logs, and nothing is printed until ``configure_logs`` or that program says so.
"""

from __future__ import annotations

import logging
import sys
from io import StringIO
from typing import IO, Final, TextIO, assert_never

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import EventDict, ExcInfo, Processor

from weft.node.config.sections import LogFormat, LogLevel
from weft.visible import visible

ROOT: Final = "weft"
# Every line gets this, from us and from libraries alike.
COMMON: Final[list[Processor]] = [
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]

logging.getLogger(ROOT).addHandler(logging.NullHandler())


def node_logger(node_id: str) -> BoundLogger:
    """The logger of one node; every line names the node."""
    bound: BoundLogger = plain_logger().bind(node=node_id)
    return bound


def plain_logger() -> BoundLogger:
    """For what is said before there is a node."""
    logger: BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"{ROOT}.node"),
        wrapper_class=BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            *COMMON,
            ProcessorFormatter.wrap_for_formatter,
        ],
    )
    return logger


def configure_logs(level: LogLevel, form: LogFormat, stream: IO[str] | None = None) -> None:
    """Call this once, when the process is a node: all logs, including those of libraries, go to standard error in one
    form."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=COMMON,
            processors=[ProcessorFormatter.remove_processors_meta, *_renderers(form, handler.stream.isatty())],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # from libraries, only what is wrong
    logging.getLogger(ROOT).setLevel(level.upper())


def _make_visible(logger: object, method: str, line: EventDict) -> EventDict:
    """Names and reasons come from others; anything that is not text is shown by its repr, which hides nothing."""
    return {name: visible(value) if isinstance(value, str) else value for name, value in line.items()}


def _print_traceback(stream: TextIO, error: ExcInfo) -> None:
    """Print a traceback without the values of variables, because there are secrets among them."""
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    stream.write("\n".join(map(visible, text.getvalue().split("\n"))))


def _renderers(form: LogFormat, colors: bool) -> list[Processor]:
    match form:
        case LogFormat.JSON:
            return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(sort_keys=True)]
        case LogFormat.CONSOLE:
            return [_make_visible, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=_print_traceback)]
        case _:
            assert_never(form)
