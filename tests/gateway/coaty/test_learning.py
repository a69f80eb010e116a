"""Which topics a bridge listens to: what neighbours announce, and what other bridges tell."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.gateway.coaty.learning import (
    COATY_REPORT_BYTES_MAX,
    COATY_REPORT_S_MAX,
    BridgeReport,
    Learned,
    decode_report_untrusted,
    is_learnable,
)
from weft.wire.libp2p.floodsub import Subscription

LINE1 = "coaty/1/plant/CHNline1"


@pytest.mark.req("COA-12")
@pytest.mark.parametrize(
    ("topic", "learnable"),
    [
        (LINE1, True),
        ("coaty/1/plant/CLLadd", True),
        ("coaty/1/plant/ASCcontext", True),
        ("sensors/raw/7", True),  # a Raw event, or an external IO route
        ("coaty/1/plant/ADVCoatyObject", False),  # listened to in any case
        ("coaty/1/plant/ADV:com.weft.Pump", True),  # to be passed on
        ("coaty/1/plant/RTN/013a264d-0265-4df9-823e-5f0cfd1f305b", False),  # an answer
        ("coaty/1/elsewhere/CHNline1", False),
        ("coaty/2/plant/CHNline1", False),
        ("", False),
    ],
)
def test_what_is_learned(topic: str, learnable: bool) -> None:
    assert is_learnable(topic, "plant") is learnable


def wanted(*topics: str) -> list[Subscription]:
    return [Subscription(topic, True) for topic in topics]


def test_neighbours_of_the_namespace_are_listened_to_until_they_leave() -> None:
    learned = Learned("plant", ["fixed/topic"], 10)
    assert learned.announced("agent", wanted(LINE1, "raw/1"))
    assert learned.listened() == ["fixed/topic"], "it may be of another namespace"
    learned.came("agent")
    assert set(learned.listened()) == {"fixed/topic", LINE1, "raw/1"}
    assert learned.announced("agent", [Subscription("raw/1", False)])
    assert set(learned.listened()) == {"fixed/topic", LINE1}
    assert not learned.announced("agent", wanted("coaty/1/plant/DAD")), "no news"
    learned.left("agent")
    assert learned.listened() == ["fixed/topic"]


def test_other_bridges_tell_what_their_agents_want_and_want_nothing_themselves() -> None:
    learned = Learned("plant", [], 10)
    learned.came("their-peer")
    learned.announced("their-peer", wanted(LINE1, "raw/1"))  # that it listens to: it is not known as a bridge yet
    assert learned.wants() == [LINE1, "raw/1"]
    report = BridgeReport("bridge", "their-peer", (), "", (LINE1, "coaty/1/other/CHNx"), (LINE1,))
    assert learned.reported("n1", report, 0.0)
    assert not learned.reported("n1", report, 1.0), "known by now"
    assert learned.wants() == []
    assert learned.listened() == [LINE1]
    assert learned.is_heard_by("bridge", LINE1)
    assert not learned.is_heard_by("bridge", "raw/1")
    assert not learned.is_heard_by("another", LINE1)
    restarted = BridgeReport("bridge again", "their-peer", (), "", (LINE1,), ())
    assert learned.reported("n1", restarted, 1.0), "it knows nothing of us"
    assert not learned.is_heard_by("bridge again", LINE1), "not yet"
    learned.forget(1.0 + COATY_REPORT_S_MAX)
    assert learned.listened() == [LINE1, "raw/1"], "it is an agent like others now"
    assert not learned.is_heard_by("bridge", LINE1)


def test_what_is_learned_is_bounded_and_what_is_configured_comes_first() -> None:
    learned = Learned("plant", ["fixed"], 2)
    learned.came("agent")
    learned.announced("agent", wanted("a", "b", "c", "d"))
    assert learned.listened() == ["fixed", "a", "b"]
    assert learned.refused == 2
    learned.announced("agent", [Subscription("a", False), Subscription("b", False)])
    assert learned.listened() == ["fixed", "c", "d"]
    assert learned.refused == 0


def test_reports_survive_the_wire() -> None:
    report = BridgeReport("bridge", "peer", ("/ip4/127.0.0.1/tcp/1",), "here", (LINE1,), (LINE1, "ü"), ("agent",))
    assert decode_report_untrusted(report.encode()) == report
    fields = json.loads(report.encode())
    del fields["beside"]  # as bridges of earlier versions do not tell it
    assert decode_report_untrusted(json.dumps(fields).encode()).beside == ()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b'{"bridge": 1}',
        b"\xff",
        bytes(COATY_REPORT_BYTES_MAX + 1),
        BridgeReport("b" * 1000, "p", (), "", (), ()).encode(),
        BridgeReport("b", "p", ("a",) * 100, "", (), ()).encode(),
        BridgeReport("b", "p", (), "", ("t",) * 5000, ()).encode(),
        BridgeReport("b", "p", (), "", (), (), ("p",) * 5000).encode(),
        BridgeReport("b", "p", (), "", (), (), ("p" * 1000,)).encode(),
    ],
)
def test_reports_that_are_none(payload: bytes) -> None:
    with pytest.raises(UsageError):
        decode_report_untrusted(payload)


@given(st.binary() | st.recursive(st.none() | st.text(), st.lists).map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_report_or_an_error(payload: bytes) -> None:
    with suppress(UsageError):
        assert isinstance(decode_report_untrusted(payload), BridgeReport)
