"""The settings for events that a group's members cannot handle: how often and when they come again, and which topic
they go to in the end. Nodes keep one policy for each group; here it is only checked and sent."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from weft.errors import UsageError
from weft.model import parse_topic
from weft.wire.mesh import mesh_pb2 as pb

Retry = Literal["in_order", "set_aside"]
RETRIES: Final = ("in_order", "set_aside")
WINDOW: Final = 1000  # events in hand by default; if one of them kills its reader, all come again, one by one
WINDOW_MAX: Final = 4096  # the same bound as in nodes
RETRY_S_MAX: Final = 7 * 86_400.0  # the same bound as in nodes
REASON_CHARS_MAX: Final = 500  # the same bound as in nodes
MAX_DELIVERIES: Final = 5
RETRY_S: Final = (1.0, 60.0)


class Failing(NamedTuple):
    """``policy`` None: the group keeps the one it has."""

    window: int
    policy: pb.GroupPolicy | None


def parse_failing(
    window: int,
    max_deliveries: int | None,
    retry_s: tuple[float, float] | None,
    retry: Retry | None,
    dead_letter: str | None,
) -> Failing:
    """Check the arguments; raise UsageError if they make no sense."""
    if not 1 <= window <= WINDOW_MAX:
        raise UsageError("window is out of range", value=window, least=1, most=WINDOW_MAX)
    if max_deliveries is None and retry_s is None and retry is None and dead_letter is None:
        return Failing(window, None)
    return Failing(window, policy_of(max_deliveries, retry_s, retry, dead_letter))


def policy_of(
    max_deliveries: int | None, retry_s: tuple[float, float] | None, retry: Retry | None, dead_letter: str | None
) -> pb.GroupPolicy:
    """Make a policy; what is not given has its default."""
    if retry is not None and retry not in RETRIES:
        raise UsageError(f"no such way to retry {retry!r}", known=", ".join(RETRIES))
    shortest, longest = RETRY_S if retry_s is None else retry_s
    if not 0 <= shortest <= longest <= RETRY_S_MAX:
        raise UsageError("retry_s is shortest, longest, in seconds", have=(shortest, longest), limit=RETRY_S_MAX)
    deliveries = MAX_DELIVERIES if max_deliveries is None else max_deliveries
    if deliveries < 1:
        raise UsageError("max_deliveries is at least 1", value=deliveries)
    return pb.GroupPolicy(
        max_deliveries=deliveries,
        retry_s_min=shortest,
        retry_s_max=longest,
        set_aside=retry == "set_aside",
        dead_letter="" if dead_letter is None else parse_topic(dead_letter),
    )
