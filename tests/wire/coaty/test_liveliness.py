"""Whose last will is carried out, and when: rule by rule, then in small meshes with frames and connections played."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.coaty.samples import uuid
from weft.wire.coaty import (
    AnnounceDead,
    AnnounceLastWill,
    CarryOut,
    Effect,
    LastWill,
    Liveliness,
    Ping,
    PingAlive,
    PingAliveAck,
    Reply,
    Send,
    decode_liveliness_untrusted,
    encode_liveliness,
)
from weft.wire.coaty.liveliness import COATY_PING_LOOP_S
from weft.wire.coaty.liveliness_messages import COATY_VISITED_MAX

pytestmark = pytest.mark.req("COA-10")

ME, ANN, BOB, CID = "Me", "Ann", "Bob", "Cid"


def will(peer_id: str, number: int = 0) -> LastWill:
    return LastWill(peer_id, uuid(number or sum(map(ord, peer_id))))


def announced(*wills: LastWill, by: tuple[str, ...]) -> AnnounceLastWill:
    return AnnounceLastWill(wills, by)


def me(*neighbours: str) -> Liveliness:
    """A node that knows the wills of its neighbours."""
    node = Liveliness(will(ME))
    for peer_id in neighbours:
        node.connected(peer_id)
        node.received(announced(will(peer_id), by=(peer_id,)), peer_id, now_s=0.0)
    return node


def test_a_new_neighbour_gets_all_known_wills() -> None:
    node = me(ANN)
    assert node.connected(BOB) == [Send(BOB, announced(will(ME), will(ANN), by=(ME,)))]
    assert node.connected(BOB) == [], "a second connection is no news"


def test_new_wills_go_to_neighbours_not_yet_visited() -> None:
    node = me(ANN, BOB, CID)
    news = node.received(announced(will("Dan"), will(ANN), by=("Dan", ANN, CID)), ANN, now_s=0.0)
    assert news == [Send(BOB, announced(will("Dan"), by=("Dan", ANN, CID, ME)))], "only what is new, only to Bob"
    assert node.received(announced(will("Dan"), by=("Dan", BOB)), BOB, now_s=0.0) == [], "no news"
    assert node.last_wills == (will(ME), will(ANN), will(BOB), will(CID), will("Dan"))


def test_only_a_peer_itself_changes_its_will() -> None:
    node = me(ANN, BOB)
    forged = LastWill(ANN, will(ANN).agent_id, (uuid(9),))
    assert node.received(announced(forged, by=(BOB,)), BOB, now_s=0.0) == []
    assert node.received(announced(will(ME, 9), by=(BOB,)), BOB, now_s=0.0) == []
    assert node.last_wills == (will(ME), will(ANN), will(BOB))
    assert node.received(announced(forged, by=(ANN,)), ANN, now_s=0.0) == [Send(BOB, announced(forged, by=(ANN, ME)))]
    assert forged in node.last_wills


def test_a_peer_that_is_back_as_another_agent_has_left_the_old_one_dead() -> None:
    node = me(ANN)
    assert node.received(announced(will(ANN, 9), by=(ANN,)), ANN, now_s=0.0) == [CarryOut(will(ANN))]


def test_the_last_connection_closed_by_the_other_side_leads_to_a_ping() -> None:
    node = me(ANN, BOB)
    assert node.last_connection_closed(ANN, 5.0, by_us=False) == [Ping(ANN)]
    assert node.last_connection_closed(ANN, 5.0, by_us=False) == [], "one ping at a time"


def test_an_answer_means_alive() -> None:
    node = me(ANN, BOB)
    node.last_connection_closed(ANN, 5.0, by_us=False)
    assert node.ping_result(ANN, alive=True) == []
    assert will(ANN) in node.last_wills


def test_no_answer_means_dead() -> None:
    node = me(ANN, BOB, CID)
    node.last_connection_closed(ANN, 5.0, by_us=False)
    dead = AnnounceDead((ANN, ME))
    assert node.ping_result(ANN, alive=False) == [CarryOut(will(ANN)), Send(BOB, dead), Send(CID, dead)]
    assert will(ANN) not in node.last_wills
    assert node.ping_result(ANN, alive=False) == [], "once"


def test_a_death_is_announced_even_if_the_will_is_not_known() -> None:
    node = me(BOB)
    node.connected(ANN)
    node.last_connection_closed(ANN, 5.0, by_us=False)
    assert node.ping_result(ANN, alive=False) == [Send(BOB, AnnounceDead((ANN, ME)))]


def test_no_ping_after_our_own_hang_up() -> None:
    node = me(ANN)
    assert node.last_connection_closed(ANN, 5.0, by_us=True) == []
    assert will(ANN) in node.last_wills, "others may still tell us of its death"


def test_no_ping_of_strangers() -> None:
    assert me(ANN).last_connection_closed(BOB, 5.0, by_us=False) == []


def test_a_peer_that_comes_back_while_it_is_pinged_is_alive() -> None:
    node = me(ANN, BOB)
    node.last_connection_closed(ANN, 5.0, by_us=False)
    assert node.connected(ANN)
    assert node.ping_result(ANN, alive=False) == []


def test_pings_are_answered_whoever_asks() -> None:
    assert me().received(PingAlive(), ANN, now_s=1.0) == [Reply(ANN, PingAliveAck())]
    assert me().received(PingAliveAck(), ANN, now_s=1.0) == []


def test_the_ping_loop_of_the_reference_is_stopped() -> None:
    node = me(ANN)
    now_s = 10.0
    assert node.last_connection_closed(ANN, now_s, by_us=False) == [Ping(ANN)]
    assert node.ping_result(ANN, alive=True) == []
    # Our hang-up makes the reference ping us, on a new connection that counts like any other.
    node.connected(ANN)
    assert node.received(PingAlive(), ANN, now_s) == [Reply(ANN, PingAliveAck())]
    # It hangs up. That is no sign of death, and so no reason for a ping that would keep the loop going.
    now_s += 0.1
    assert node.last_connection_closed(ANN, now_s, by_us=False) == []
    # It sees its own hang-up and pings again at once. Without an answer, it stays.
    node.connected(ANN)
    assert node.received(PingAlive(), ANN, now_s) == []
    # When that connection breaks one day, it is a connection like any other.
    now_s += COATY_PING_LOOP_S
    assert node.last_connection_closed(ANN, now_s, by_us=False) == [Ping(ANN)]


def test_a_ping_long_after_an_ack_is_answered() -> None:
    node = me(ANN)
    for now_s in (0.0, COATY_PING_LOOP_S, 2 * COATY_PING_LOOP_S):
        assert node.received(PingAlive(), ANN, now_s) == [Reply(ANN, PingAliveAck())]


def test_an_announced_death_is_carried_out_and_passed_on() -> None:
    node = me(ANN, BOB)
    node.received(announced(will("Dan"), by=("Dan", ANN)), ANN, now_s=0.0)
    effects = node.received(AnnounceDead(("Dan", ANN)), ANN, now_s=1.0)
    assert effects == [CarryOut(will("Dan")), Send(BOB, AnnounceDead(("Dan", ANN, ME)))]
    assert node.received(AnnounceDead(("Dan", BOB)), BOB, now_s=1.0) == [], "once"


def test_hearsay_about_a_neighbour_is_checked() -> None:
    node = me(ANN, BOB, CID)
    assert node.received(AnnounceDead((ANN, BOB)), BOB, now_s=1.0) == [Ping(ANN)]
    assert node.received(AnnounceDead((ANN, BOB)), CID, now_s=1.0) == [], "a ping is on its way"
    assert node.ping_result(ANN, alive=False)[0] == CarryOut(will(ANN))
    assert node.last_connection_closed(ANN, 9.0, by_us=False) == [], "dead already"


def test_rumours_of_our_own_death_are_exaggerated() -> None:
    node = me(ANN, BOB)
    assert node.received(AnnounceDead((ME, ANN)), ANN, now_s=1.0) == []
    assert will(ME) in node.last_wills


def test_strangers_are_heard_once_they_are_seen_in_the_namespace() -> None:
    node = me(BOB)
    assert node.received(announced(will(ANN), by=(ANN,)), ANN, now_s=0.0) == []
    assert node.received(AnnounceDead((BOB, ANN)), ANN, now_s=0.0) == []
    assert node.last_wills == (will(ME), will(BOB)), "nothing from another namespace"
    effects = node.connected(ANN)
    assert effects == [
        Send(ANN, announced(will(ME), will(BOB), by=(ME,))),
        Send(BOB, announced(will(ANN), by=(ANN, ME))),
    ]


def test_what_strangers_said_is_forgotten_when_they_leave() -> None:
    node = me()
    node.received(announced(will(ANN), by=(ANN,)), ANN, now_s=0.0)
    node.last_connection_closed(ANN, 1.0, by_us=False)
    node.connected(ANN)
    assert node.last_wills == (will(ME),)


def numbered(n: int) -> str:
    return "P" + "".join("abcdefghij"[int(digit)] for digit in str(n))


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.wire.coaty.liveliness.COATY_WILLS_MAX", 20)
    monkeypatch.setattr("weft.wire.coaty.liveliness.COATY_NEIGHBOURS_MAX", 10)
    node = me(ANN, BOB)
    strange = [numbered(n) for n in range(100)]
    node.received(announced(*(will(peer, 1) for peer in strange), by=(BOB,)), BOB, now_s=0.0)
    assert len(node.last_wills) == 20
    assert node.received(announced(will("Eve"), by=("Eve", ANN)), ANN, now_s=0.0) == [], "no room for hearsay"
    node.connected(CID)
    node.received(announced(will(CID), by=(CID,)), CID, now_s=0.0)
    assert will(CID) in node.last_wills, "a neighbour's own will has precedence"
    assert {will(ME), will(ANN), will(BOB)} < set(node.last_wills)
    assert len(node.last_wills) == 20
    for peer in strange:
        node.received(announced(*[will(peer, 1)] * 3, by=(peer,)), peer, now_s=0.0)
        node.received(PingAlive(), peer, now_s=0.0)
    for peer in strange:
        node.connected(peer)
    for peer in strange:
        node.last_connection_closed(peer, 100.0, by_us=False)
    sizes = {name: len(table) for name, table in vars(node).items() if isinstance(table, dict)}
    assert sizes.keys() == {"_wills", "_neighbours", "_strangers", "_pinged", "_acked_at_s"}
    assert all(size <= 20 for size in sizes.values()), sizes


def test_the_longest_path_can_still_be_passed_on() -> None:
    node = me(ANN, BOB)
    path = ("Dan",) * (COATY_VISITED_MAX - 1)
    frame = encode_liveliness(announced(will("Dan"), by=path))
    (effect,) = node.received(decode_liveliness_untrusted(frame), ANN, now_s=0.0)[1:]
    assert isinstance(effect, Send)
    assert len(effect.message.visited) == COATY_VISITED_MAX
    assert encode_liveliness(effect.message)


class Mesh:
    """Nodes, connections and frames in flight; a dead node's connections close and its pings go unanswered."""

    def __init__(self, links: set[tuple[int, int]], size: int) -> None:
        self.names = [numbered(n) for n in range(size)]
        self.nodes = {name: Liveliness(will(name, n + 1)) for n, name in enumerate(self.names)}
        self.links = {frozenset((self.names[a], self.names[b])) for a, b in links if a != b}
        self.carried_out: dict[str, list[str]] = {name: [] for name in self.names}
        self.frames: deque[tuple[str, str, bytes]] = deque()
        self.sent = 0
        for link in sorted(map(sorted, self.links)):
            self.perform(link[0], self.nodes[link[0]].connected(link[1]))
            self.perform(link[1], self.nodes[link[1]].connected(link[0]))
        self.run()

    def perform(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer_id, message):
                    assert frozenset((name, peer_id)) in self.links
                    self.frames.append((name, peer_id, encode_liveliness(message)))
                case Ping(peer_id):
                    self.perform(name, self.nodes[name].ping_result(peer_id, alive=peer_id in self.nodes))
                case CarryOut(last_will):
                    self.carried_out[name].append(last_will.peer_id)
                case Reply():
                    raise AssertionError("pings do not travel as frames here")

    def run(self) -> None:
        while self.frames:
            source, target, frame = self.frames.popleft()
            self.sent += 1
            if target in self.nodes:
                message = decode_liveliness_untrusted(frame)
                self.perform(target, self.nodes[target].received(message, source, now_s=0.0))

    def reachable(self, start: str) -> set[str]:
        found, pending = {start}, [start]
        while pending:
            here = pending.pop()
            for link in self.links:
                if here in link:
                    fresh = link - found
                    found |= fresh
                    pending += fresh
        return found

    def kill(self, victim: str) -> None:
        del self.nodes[victim]
        neighbours = [name for link in self.links if victim in link for name in link if name != victim]
        self.links = {link for link in self.links if victim not in link}
        for name in sorted(neighbours):
            self.perform(name, self.nodes[name].last_connection_closed(victim, 100.0, by_us=False))
        self.run()


@settings(max_examples=60)
@given(st.integers(2, 7), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14), st.integers(0, 6))
def test_every_node_that_can_hear_of_it_carries_out_the_will_exactly_once(
    size: int, links: set[tuple[int, int]], victim: int
) -> None:
    mesh = Mesh({(a, b) for a, b in links if a < size and b < size}, size)
    for name, node in mesh.nodes.items():
        assert {known.peer_id for known in node.last_wills} == mesh.reachable(name)
    assert mesh.sent <= size * size * (len(mesh.links) + 1), "announcements end"
    dead = mesh.names[victim % size]
    before = mesh.reachable(dead)
    neighbours = {name for link in mesh.links if dead in link for name in link}
    mesh.kill(dead)
    for name in mesh.nodes:
        hears = name in before and not neighbours.isdisjoint(mesh.reachable(name))
        assert mesh.carried_out[name] == ([dead] if hears else [])
        assert (dead in {known.peer_id for known in mesh.nodes[name].last_wills}) == (name in before and not hears)
