"""``[gateway.coaty]``: what is refused before a node starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from weft.limits import LIBP2P_CONNECTIONS_MAX
from weft.node.config.coaty import TOPICS_MAX, CoatySection


def test_settings_reach_the_bridge() -> None:
    section = CoatySection.model_validate(
        {"namespace": "plant", "raw_topics": ["a/b"], "learned_max": 7, "connections_max": 9, "island": "north"}
    )
    settings = section.settings(Path("/data"))
    assert settings is not None
    assert (settings.raw_topics, settings.learned_max) == (("a/b",), 7)
    assert (settings.connections_max, settings.island) == (9, "north")
    assert CoatySection(namespace="plant").connections_max == LIBP2P_CONNECTIONS_MAX


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"raw_topics": ["coaty/1/plant/IOV"]}, "raw topics do not start with coaty/"),
        ({"channels": ["c"] * 1000, "operations": ["o"] * 1000}, f"more than {TOPICS_MAX} together"),
        ({"connections_max": 0}, "greater than or equal to 1"),
        ({"island": "x" * 1000}, "at most 128 characters"),
    ],
)
def test_what_cannot_work_is_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        CoatySection.model_validate({"namespace": "plant", **wrong})
