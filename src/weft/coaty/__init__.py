"""Coaty agents in Python, over libp2p, side by side with those of the JavaScript reference.

::

    async with coaty.Agent("plant", name="thermometer", bootstrap=["/ip4/127.0.0.1/tcp/4001/p2p/12D3KooW..."]) as agent:
        await agent.advertise(thermometer)
        async with agent.observe_call("calibrate") as calls:
            async for call in calls:
                await call.reply(coaty.Return(result="done"))

Events and what is in them are values of ``weft.wire.coaty``, which are exported here, too.

- ``Agent``: publish, ask and observe. ``Observation`` and ``Responses`` are iterators: leave them when done.
- ``new_identity``, ``kept_identity``: the key behind an agent's peer id.
- Inside: ``peer`` (the network side), ``dispatch`` (who observes what), ``settling`` (when an agent may speak),
  ``liveliness`` (who died), ``neighbourhood`` (finding others), ``io_points`` (IO routing).
"""

from weft.coaty.agent import Agent, new_id
from weft.coaty.events import Event, Question, RawEvent, Responses
from weft.coaty.identities import kept_identity, new_identity
from weft.coaty.observing import Observation
from weft.wire.coaty import (
    Advertise,
    Associate,
    Call,
    CallError,
    Channel,
    CoatyObject,
    Combine,
    Complete,
    Condition,
    ContextFilter,
    CoreType,
    Deadvertise,
    Discover,
    IoState,
    IoValue,
    JoinCondition,
    ObjectFilter,
    Operator,
    Order,
    OrderBy,
    Query,
    Resolve,
    Retrieve,
    Return,
    Update,
    join,
    matches,
    select,
    where,
)
from weft.wire.libp2p import KeyType, PrivateKey

__all__ = [
    "Advertise",
    "Agent",
    "Associate",
    "Call",
    "CallError",
    "Channel",
    "CoatyObject",
    "Combine",
    "Complete",
    "Condition",
    "ContextFilter",
    "CoreType",
    "Deadvertise",
    "Discover",
    "Event",
    "IoState",
    "IoValue",
    "JoinCondition",
    "KeyType",
    "ObjectFilter",
    "Observation",
    "Operator",
    "Order",
    "OrderBy",
    "PrivateKey",
    "Query",
    "Question",
    "RawEvent",
    "Resolve",
    "Responses",
    "Retrieve",
    "Return",
    "Update",
    "join",
    "kept_identity",
    "matches",
    "new_id",
    "new_identity",
    "select",
    "where",
]
