"""What operators ask and grows with the mesh: in pages, with turns for others in between (SEC-05)."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from weft import membership
from weft.core import Broker, BrokerSettings
from weft.core.messages import LinkUp, MemberKnown
from weft.core.policy import GroupPolicy
from weft.core.views import explain
from weft.log import MemoryStore, open_store
from weft.membership import Members, NodeState
from weft.model import Epoch, NodeId, parse_pattern, parse_topic
from weft.node.answers import PEERS_AT_ONCE, NodeAnswers
from weft.port.pages import PageRoom
from weft.wire.mesh import mesh_pb2 as pb

MEMBERS = 300
TOPIC = parse_topic("plant.t")


def name(number: int) -> NodeId:
    return NodeId(f"n{number:04}")


def chain() -> Broker:
    """Of nodes that all want the same, this one at its beginning."""
    broker = Broker(name(0), open_store(MemoryStore(), lambda: Epoch(1), disk_reserve_bytes=0), BrokerSettings(), 0.0)
    broker.start(0.0)
    broker.step(LinkUp(name(1), plain=False), 0.0)
    for number in range(MEMBERS):
        neighbours = tuple(name(each) for each in (number - 1, number + 1) if 0 <= each < MEMBERS)
        interest = (parse_pattern("plant.>"),)
        broker.step(MemberKnown(NodeState(name(number), 1, 1, Epoch(1), neighbours=neighbours, interest=interest)), 0.0)
    return broker


def answers_of(broker: Broker) -> NodeAnswers:
    own = NodeState(broker.me, 1, 1, Epoch(1))
    members = Members(own, membership.Settings(), Random(1))  # noqa: S311

    async def set_group(group: str, policy: GroupPolicy) -> None:
        raise AssertionError("nobody asks for that")

    about = pb.StatusReply
    return NodeAnswers(broker, members, list, lambda _: None, list, lambda: False, lambda: None, set_group, about)


async def page(answers: NodeAnswers, limit: int | None, after: str = "") -> pb.ExplainReply:
    return await answers.explain(TOPIC, None, PageRoom.wanted(limit), after)


@pytest.mark.req("SEC-05")
async def test_where_a_topic_goes_comes_in_pages() -> None:
    broker = chain()
    answers = answers_of(broker)
    pages = [await page(answers, 128)]
    while pages[-1].next_page:
        pages.append(await page(answers, 128, pages[-1].next_page.decode()))
    assert [len(each.recipients) for each in pages] == [128, 128, 44]
    assert {each.node_id for each in pages} == {broker.me}
    found = [(each.node_id, tuple(each.path)) for reply in pages for each in reply.recipients]
    assert found == [(each.node_id, each.path) for each in explain(broker, TOPIC)]
    assert found[-1][1] == tuple(map(name, range(MEMBERS)))
    assert len((await page(answers, None)).recipients) == MEMBERS, "an older client gets everything"


@pytest.mark.req("SEC-05")
async def test_others_have_their_turns_while_it_is_put_together() -> None:
    turns = 0
    asking = asyncio.create_task(page(answers_of(chain()), None))
    while not asking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > MEMBERS / 32


@pytest.mark.req("SEC-05")
async def test_others_have_their_turns_while_peers_are_listed() -> None:
    broker = chain()
    answers = answers_of(broker)
    for state in broker.routes.states.values():
        answers._members._table.keep(state, 0.0)
    asking = asyncio.create_task(answers.peers(PageRoom.wanted(None), ""))
    turns = 0
    while not asking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > MEMBERS / PEERS_AT_ONCE
    assert [each.node_id for each in asking.result().peers] == list(map(name, range(1, MEMBERS)))


def test_members_that_go_meanwhile_are_passed_over() -> None:
    broker = chain()
    recipients = explain(broker, TOPIC)
    first = next(recipients)
    broker.step(MemberKnown(NodeState(name(5), 1, 2, Epoch(1))), 0.0)
    assert first.node_id == name(0)
    assert name(5) not in {each.node_id for each in recipients}
