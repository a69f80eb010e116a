"""What the configuration means for each part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.node.running import config_of
from weft.log.retention import rule_for
from weft.model import Topic
from weft.node.config import NodeConfig
from weft.node.wiring import TopicSettings, broker_settings, client_limits, link_settings, retention_rules

TOPICS = """
[[topics]]
pattern = ">"
copies = 3
compact = true
retention_bytes = 1048576
"""


def configured(tmp_path: Path, **overrides: Any) -> NodeConfig:
    file = tmp_path / "weft.toml"
    file.write_text(TOPICS)
    return config_of(tmp_path, file=file, **overrides)


def test_the_mesh_keeps_its_own_topics_by_rules_of_its_own(tmp_path: Path) -> None:
    config = configured(tmp_path)
    topics = TopicSettings(config)
    assert (topics.copies(Topic("plant.t")), topics.compact(Topic("plant.t"))) == (3, True)
    assert (topics.copies(Topic("weft.groups.g")), topics.compact(Topic("weft.inbox.c"))) == (1, False)
    rules = retention_rules(config)
    plant, groups, inbox = (rule_for(Topic(name), rules) for name in ("plant.t", "weft.groups.g", "weft.inbox.c"))
    assert plant is not None and plant.stream_bytes_max == 1 << 20
    assert groups is not None and groups.stream_bytes_max == (1 << 63) - 1
    assert inbox is not None and inbox.age_us_max == 3600 * 1_000_000
    staging, decisions = (rule_for(Topic(name), rules) for name in ("weft.staging.s", "weft.decisions.s"))
    assert staging is not None and staging.age_us_max == 86_400 * 1_000_000
    assert decisions is not None and decisions.age_us_max == 90 * 86_400 * 1_000_000
    assert decisions.stream_bytes_max == 64 << 20


def test_every_knob_arrives(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        link__window_bytes=1 << 20,
        link__ack_timeout_s=7.0,
        link__queue_frames_max=11,
        link__drop_policy="newest",
        link__compression=True,
        limits__clients_max=5,
        limits__credit_bytes_max=1 << 20,
        groups__handover_timeout_s=3.0,
        legacy_peers=["plant.>"],
    )
    broker = broker_settings(config, TopicSettings(config))
    assert (broker.window_bytes, broker.ack_timeout_s, broker.plain_patterns) == (1 << 20, 7.0, ("plant.>",))
    assert broker.copies_of(Topic("plant.t")) == 3
    assert broker.groups.release_timeout_s == 3.0
    link = link_settings(config)
    assert (link.queue_frames_max, link.drop_policy.value, link.compression) == (11, "newest", True)
    limits = client_limits(config)
    assert (limits.streams_max, limits.credit_bytes_max) == (5, 1 << 20)
