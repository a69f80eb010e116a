"""Whether a node is alive: stories of one node, and that only the set of its signals counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.pipelines.devices.node_health import (
    HEALTH_WAITING_MAX,
    US,
    Alert,
    AlertKind,
    Kind,
    Known,
    Node,
    Protocol,
    Rules,
    Signal,
    Status,
    advance,
    arrive,
    decode_known,
    encode_known,
    in_order,
    next_us,
)

RULES = Rules(interval_s=10.0, late_intervals=2.0, gone_intervals=5.0, forget_s=1000.0)


def beat(at_s: float, message: str | None = None, **more: float | None) -> Signal:
    return Signal(round(at_s * US), f"m{at_s}" if message is None else message, Kind.HEARTBEAT, **more)  # type: ignore[arg-type]


def hello(at_s: float, interval_s: float | None = None) -> Signal:
    return Signal(round(at_s * US), f"h{at_s}", Kind.HELLO, interval_s)


def bye(at_s: float) -> Signal:
    return Signal(round(at_s * US), f"b{at_s}", Kind.BYE)


def after(
    signals: Sequence[Signal], until_s: float, protocol: Protocol = Protocol.EMM
) -> tuple[Node | None, list[Alert]]:
    known, alerts = advance(arrive(Known(), signals), round(until_s * US), RULES.of(protocol))
    return known.node, alerts


def alive(signals: Sequence[Signal], until_s: float, protocol: Protocol = Protocol.EMM) -> tuple[Node, list[str]]:
    """The node, which is known, and its alerts in words."""
    node, alerts = after(signals, until_s, protocol)
    assert node is not None
    return node, [f"{alert.kind} at {alert.at_us / US:g}, {alert.missed} missed" for alert in alerts]


# --- silence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until_s", "status", "since_s"),
    [
        (10, Status.ALIVE, 0),
        (19.999, Status.ALIVE, 0),
        (20, Status.LATE, 20),
        (49, Status.LATE, 20),
        (50, Status.GONE, 50),
    ],
)
def test_silence_makes_a_node_late_and_then_gone(until_s: float, status: Status, since_s: float) -> None:
    node, alerts = alive([beat(0)], until_s)
    assert (node.status, node.since_us) == (status, since_s * US)
    assert alerts == (["gone at 50, 4 missed"] if status is Status.GONE else [])


def test_a_node_that_comes_back_while_late_had_a_gap() -> None:
    node, alerts = alive([beat(0), beat(10), beat(40)], 45)
    assert alerts == ["gap at 40, 2 missed"]
    assert (node.status, node.since_us, node.gaps, node.missed) == (Status.ALIVE, 40 * US, 1, 2)


def test_a_node_that_comes_back_after_being_gone() -> None:
    node, alerts = alive([beat(0), beat(100)], 105)
    assert alerts == ["gone at 50, 4 missed", "back at 100, 9 missed"]
    assert (node.outages, node.gaps, node.missed, node.first_us, node.up_since_us) == (1, 0, 9, 0, 100 * US)


def test_a_signal_at_the_very_deadline_is_in_time() -> None:
    node, alerts = alive([beat(0), beat(20), beat(40)], 50)
    assert (node.status, alerts) == (Status.ALIVE, [])


def test_a_node_says_how_often_it_beats() -> None:
    node, alerts = alive([hello(0, 100.0), beat(150)], 300)
    assert (node.status, node.interval_s, alerts) == (Status.ALIVE, 100.0, [])


@pytest.mark.parametrize("interval_s", [0.0, -5.0, 1e9])
def test_an_interval_that_cannot_be_is_not_believed(interval_s: float) -> None:
    node, _ = alive([hello(0, interval_s)], 20)
    assert (node.status, node.interval_s) == (Status.LATE, None)


def test_a_node_that_was_gone_for_long_is_a_new_one() -> None:
    assert after([beat(0)], 1049.9)[0] is not None
    assert after([beat(0)], 1050)[0] is None
    node, alerts = alive([beat(0), beat(2000)], 2001)
    assert alerts == ["gone at 50, 4 missed"]
    assert (node.first_us, node.signals, node.outages) == (2000 * US, 1, 0)


# --- Coaty -------------------------------------------------------------------------------------------------------


def test_an_agent_lives_until_it_is_deadvertised() -> None:
    node, alerts = alive([hello(0)], 900, Protocol.COATY)
    assert (node.status, alerts) == (Status.ALIVE, [])
    node, alerts = alive([hello(0), bye(500)], 900, Protocol.COATY)
    assert (node.status, node.since_us, alerts) == (Status.GONE, 500 * US, ["gone at 500, 0 missed"])
    node, alerts = alive([hello(0), bye(500), bye(501), hello(600)], 900, Protocol.COATY)
    assert (node.status, alerts) == (Status.ALIVE, ["gone at 500, 0 missed", "back at 600, 0 missed"])


def test_nobody_dies_who_was_never_there() -> None:
    assert after([bye(5)], 10, Protocol.COATY) == (None, [])


# --- uptime, hops, delay -----------------------------------------------------------------------------------------


def test_uptime_is_what_the_node_says() -> None:
    node, alerts = alive([beat(1000, uptime_s=400), beat(1010, uptime_s=410), beat(1020, uptime_s=419)], 1021)
    assert (node.up_since_us, node.restarts, alerts) == (600 * US, 0, [])  # the third one was a second under way


def test_a_restart_is_seen_by_an_uptime_that_began_anew() -> None:
    node, alerts = alive([beat(1000, uptime_s=400), beat(1010, uptime_s=3)], 1011)
    assert (node.up_since_us, node.restarts) == (1007 * US, 1)
    assert alerts == ["restarted at 1010, 0 missed"]


def test_a_node_may_have_been_up_before_it_said_hello() -> None:
    node, alerts = alive([hello(1000), beat(1010, uptime_s=400)], 1011)
    assert (node.up_since_us, node.restarts, alerts) == (610 * US, 0, [])


def test_an_outage_without_a_restart_is_not_a_restart() -> None:
    node, alerts = alive([beat(1000, uptime_s=400), beat(1100, uptime_s=500)], 1101)
    assert (node.up_since_us, node.restarts) == (600 * US, 0)
    assert [alert.split()[0] for alert in alerts] == ["gone", "back"]


def test_hops_and_delays_are_those_of_the_last_signal_that_had_them() -> None:
    node, _ = alive([beat(0, hops=3, delay_us=50), beat(10, hops=1, delay_us=20), beat(20)], 21)
    assert (node.hops, node.delay_us, node.delay_us_max, node.signals) == (1, 20, 50, 3)


# --- order and repetition ----------------------------------------------------------------------------------------


def test_a_copy_that_took_another_way_is_no_new_signal() -> None:
    node, alerts = alive([beat(0, "x"), beat(0.5, "x"), beat(60, "x")], 60)
    assert (node.status, node.last_us, node.signals) == (Status.GONE, 0, 1)
    assert alerts == ["gone at 50, 4 missed"]


def test_what_comes_after_its_time_was_decided_is_too_late() -> None:
    known, _ = advance(arrive(Known(), [beat(0)]), 60 * US, RULES)
    assert arrive(known, [beat(30), beat(60)]) == known
    assert arrive(known, [beat(61)]).waiting == (beat(61),)


def test_a_flood_is_thinned_out_and_keeps_its_ends() -> None:
    flood = [beat(number / 100) for number in range(10 * HEALTH_WAITING_MAX)]
    waiting = arrive(Known(), flood).waiting
    assert len(waiting) <= HEALTH_WAITING_MAX
    assert (waiting[0], waiting[-1]) == (flood[0], flood[-1])


SIGNALS = st.lists(
    st.builds(
        Signal,
        st.integers(0, 400).map(lambda at_s: at_s * US),
        st.integers(0, 30).map(str),
        st.sampled_from(Kind),
        interval_s=st.none() | st.sampled_from([0.0, 5.0, 40.0]),
        uptime_s=st.none() | st.integers(0, 300),
        hops=st.none() | st.integers(0, 3),
        delay_us=st.none() | st.integers(-5, 5),
    ),
    max_size=12,
)
RULES_SHORT = Rules(interval_s=10.0, late_intervals=2.0, gone_intervals=5.0, forget_s=100.0)


@given(SIGNALS, st.randoms(use_true_random=False), st.lists(st.integers(0, 600), max_size=8), st.sampled_from(Protocol))
def test_only_the_set_of_signals_counts(
    signals: list[Signal], chance: object, stops_s: list[int], protocol: Protocol
) -> None:
    """They come in any order, twice, each before its time is decided; time goes on in steps of any size."""
    end_us = 700 * US
    whole, told = advance(Known(waiting=in_order(signals)), end_us, RULES_SHORT.of(protocol))
    coming = signals * 2
    chance.shuffle(coming)  # type: ignore[attr-defined]
    known, alerts = Known(), list[Alert]()
    for stop_us in sorted({stop_s * US for stop_s in stops_s} | {end_us}):
        early = [signal for signal in coming if signal.at_us <= stop_us]
        some_later = [signal for signal in coming if signal.at_us > stop_us][::2]
        known = decode_known(encode_known(arrive(known, early + some_later)))
        known, more = advance(known, stop_us, RULES_SHORT.of(protocol))
        alerts += more
        due_us = next_us(known, RULES_SHORT.of(protocol))
        assert due_us is None or due_us > stop_us, "what is due has been done"
    assert (known.node, alerts) == (whole.node, told)


@given(SIGNALS, st.sampled_from(Protocol))
def test_nothing_happens_before_it_is_due(signals: list[Signal], protocol: Protocol) -> None:
    """Who sleeps until ``next_us`` misses nothing."""
    known, alerts = Known(waiting=in_order(signals)), list[Alert]()
    while (due_us := next_us(known, RULES_SHORT.of(protocol))) is not None:
        before, none = advance(known, due_us - 1, RULES_SHORT.of(protocol))
        assert (before.node, none) == (known.node, [])
        known, more = advance(known, due_us, RULES_SHORT.of(protocol))
        alerts += more
    assert alerts == advance(Known(waiting=in_order(signals)), 10_000 * US, RULES_SHORT.of(protocol))[1]


@given(SIGNALS, st.sampled_from(Protocol))
def test_alerts_tell_a_sound_story(signals: list[Signal], protocol: Protocol) -> None:
    """In order; a node goes only if it was there, and comes back only if it was gone."""
    _, alerts = advance(Known(waiting=in_order(signals)), 10_000 * US, RULES_SHORT.of(protocol))
    assert [alert.at_us for alert in alerts] == sorted(alert.at_us for alert in alerts)
    gone = False
    for alert in alerts:
        assert alert.last_us <= alert.at_us
        if alert.kind is AlertKind.BACK:
            assert gone
        gone = alert.kind is AlertKind.GONE
