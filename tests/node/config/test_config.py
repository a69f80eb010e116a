"""The configuration as a value: safe defaults, agreement with the rooms it is for, settings of topics."""

from __future__ import annotations

from dataclasses import fields

import pytest
from pydantic import ValidationError

from weft.configuration import Section
from weft.limits import OFFSET_MAX
from weft.log.retention import RetentionRule, rule_for
from weft.membership import Settings
from weft.membership.settings import RANGES
from weft.model import parse_pattern, parse_topic
from weft.node.config import NodeConfig
from weft.node.config.sections import MembershipSection, TopicSection

TEMP = parse_topic("plant.line1.temp")
STATE = parse_topic("plant.line1.state")


def node_sections() -> list[type[Section]]:
    """Those of a node; other rooms have sections, too."""
    return [each for each in Section.__subclasses__() if each.__module__.startswith("weft.node.")]


def with_topics(*topics: TopicSection) -> NodeConfig:
    return NodeConfig(insecure=True, topics=topics)


def topic(pattern: str, **settings: object) -> TopicSection:
    return TopicSection.model_validate({"pattern": pattern, **settings})


@pytest.mark.req("PL-07")
def test_the_defaults_are_valid_and_listen_on_this_machine_only() -> None:
    config = NodeConfig(insecure=True)
    assert (str(config.listen.grpc), str(config.listen.admin)) == ("127.0.0.1:7400", "127.0.0.1:7480")
    assert config.listen.grpc.is_loopback and config.listen.admin.is_loopback
    assert config.peers == ()
    assert config.legacy_peers == (">",)


def test_a_configuration_cannot_be_changed() -> None:
    config = NodeConfig(insecure=True)
    with pytest.raises(ValidationError):
        config.insecure = False
    with pytest.raises(ValidationError):
        config.link.window_bytes = 1


def test_every_knob_says_what_it_is_for() -> None:
    sections: list[type[Section]] = [NodeConfig, *node_sections()]
    silent = [
        f"{section.__name__}.{name}"
        for section in sections
        for name, field in section.model_fields.items()
        if not field.description and not isinstance(field.default, Section)
    ]
    assert silent == []


def test_every_number_has_a_range() -> None:
    for section in node_sections():
        for name, field in section.model_fields.items():
            if isinstance(field.default, bool) or not isinstance(field.default, int | float):
                continue
            bounds = {bound for each in field.metadata for bound in ("ge", "le") if hasattr(each, bound)}
            assert bounds == {"ge", "le"}, f"{section.__name__}.{name} has no range"


def test_membership_has_the_knobs_defaults_and_ranges_of_its_room() -> None:
    assert set(MembershipSection.model_fields) == {field.name for field in fields(Settings)} == set(RANGES)
    assert MembershipSection().settings() == Settings()
    for name, (least, most) in RANGES.items():
        for refused in (least - 0.001, most + 1):
            with pytest.raises(ValidationError, match=name):
                MembershipSection.model_validate({name: refused})
    assert MembershipSection(gossip_fan_out=5).settings() == Settings(gossip_fan_out=5)


def test_the_first_table_that_matches_a_topic_counts() -> None:
    config = with_topics(topic("plant.*.temp", copies=2), topic("plant.>", copies=3, compact=True))
    assert config.settings_for(TEMP).copies == 2
    assert config.settings_for(STATE).copies == 3
    assert config.settings_for(STATE).compact
    assert config.settings_for(parse_topic("office.door")).copies == 1


def test_retention_of_a_topic_becomes_a_rule_of_the_log() -> None:
    config = with_topics(topic("a.>", retention_age_s=1.5, retention_bytes=1 << 20))
    assert config.retention_rules == (RetentionRule(parse_pattern("a.>"), 1_500_000, 1 << 20),)


def test_a_table_without_retention_keeps_its_topics_from_wider_ones() -> None:
    config = with_topics(topic("plant.*.temp"), topic(">", retention_age_s=60))
    rule = rule_for(TEMP, config.retention_rules)
    assert rule is not None and (rule.age_us_max, rule.stream_bytes_max) == (None, OFFSET_MAX)
    other = rule_for(STATE, config.retention_rules)
    assert other is not None and other.age_us_max == 60_000_000
