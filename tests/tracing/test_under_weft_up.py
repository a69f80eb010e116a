"""Traces of a mesh as users start it: ``weft up``, secured, two nodes, a collector that reads OTLP."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from opentelemetry import trace

from tests.gateway.exmp.test_under_weft_up import tls_of
from tests.mesh.watching import until
from tests.node.secured import key_for, token_from
from tests.otlp import WAIT_S, Collector, SeenSpan, collector
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft import connect as weft_connect
from weft import exmp
from weft.client import Connecting, EventWay, GroupPolicy, NotAllowed, Received, Subscription
from weft.client.connecting import tls_files
from weft.model import EventId
from weft.security.key_store import FILE as KEYS
from weft.telemetry import Telemetry, open_telemetry

SETTINGS = '[tracing]\nendpoint = "{url}"\n\n[gateway.exmp]\ntls = "127.0.0.1:0"\n'
NODE_SPANS = {
    ("a", "weft.append"),
    ("a", "weft.sync"),
    ("a", "weft.forward"),
    ("b", "weft.append"),
    ("b", "weft.sync"),
    ("b", "weft.deliver"),
}


@dataclass(frozen=True)
class TracedMesh:
    directory: Path
    collector: Collector
    a: RunningNode
    b: RunningNode


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedMesh]:
    directory = tmp_path_factory.mktemp("tracing")
    with collector() as found:
        config = directory / "weft.toml"
        config.write_text(SETTINGS.format(url=found.url))
        first = directory / "a"
        flags = ("--config", str(config), "--node-id")
        with up(first, *flags, "a", "--ca-listen", "127.0.0.1:0") as a:
            (directory / "b").mkdir(mode=0o700)
            shutil.copy2(first / KEYS, directory / "b" / KEYS)  # so that one key is known to both
            enrolling = ("--peer", a.grpc, "--ca", f"https://{a.ready['ca']}", "--token", "-")
            with up(directory / "b", *flags, "b", *enrolling, stdin=token_from(first, "b")) as b:
                yield TracedMesh(directory, found, a, b)
                b.end_quietly()
            a.end_quietly()


@contextmanager
def traced_application(mesh: TracedMesh, monkeypatch: pytest.MonkeyPatch, sample: float = 1.0) -> Iterator[Telemetry]:
    """A provider is set once for a process and for good; here, for the time of a test."""
    telemetry = open_telemetry(mesh.collector.url, service="shop", facts={}, sample=sample)
    with monkeypatch.context() as patched:
        patched.setattr(trace, "get_tracer_provider", lambda: telemetry.provider)
        patched.setattr(trace, "get_tracer", telemetry.provider.get_tracer)
        yield telemetry
    telemetry.close()


def seen_in(spans: list[SeenSpan], trace_id: str) -> set[tuple[str, str]]:
    return {
        (each.instance if each.service == "weft" else "shop", each.name) for each in spans if each.trace_id == trace_id
    }


def at_second(mesh: TracedMesh) -> Connecting:
    """With the first one's key."""
    context = mesh.a.context
    return weft_connect(mesh.b.grpc, tls=tls_files(context), token=context.token)


async def linked(mesh: TracedMesh, topic: str, subscription: Subscription) -> None:
    """The first node knows that somebody at the second one wants these events."""
    await subscription.opened()
    async with mesh.a.client() as client:

        async def wanted() -> bool:
            return any(each.node_id == "b" for each in await client.explain(topic))

        await until(wanted)


@pytest.mark.req("SEE-03", "OBS-01", "PL-06")
async def test_one_trace_leads_from_the_publish_over_both_nodes_to_the_handler(
    mesh: TracedMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    with traced_application(mesh, monkeypatch) as telemetry:
        handled = asyncio.Event()

        async def handle(event: Received) -> None:
            handled.set()

        async with (
            mesh.a.client() as at_a,
            at_second(mesh) as at_b,
            at_b.subscribe("shop.>") as watching,
        ):
            await linked(mesh, "shop.orders", watching)
            running = asyncio.create_task(at_b.run(handle, "shop.>", group="billing", start="earliest"))
            with telemetry.tracer.start_as_current_span("checkout"):
                await at_a.publish("shop.orders", b"1")
            async with asyncio.timeout(WAIT_S):
                assert (await anext(watching)).payload == b"1"
                await handled.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    every = {("shop", "checkout"), ("shop", "shop.orders publish"), ("shop", "shop.orders handle"), *NODE_SPANS}

    def readers(spans: list[SeenSpan]) -> set[object]:
        delivered = [each.facts for each in spans if each.name == "weft.deliver"]
        shop = [facts for facts in delivered if facts["messaging.destination.name"] == "shop.orders"]
        return {facts.get("messaging.consumer.group.name") for facts in shop}

    def is_whole(spans: list[SeenSpan]) -> bool:
        found = any(seen_in(spans, each.trace_id) >= every for each in spans if each.name == "checkout")
        return found and readers(spans) == {None, "billing"}

    spans = mesh.collector.wait_for(is_whole)
    (checkout,) = [each for each in spans if each.name == "checkout"]
    ours = [each for each in spans if each.trace_id == checkout.trace_id]
    assert {each.parent_id for each in ours if each.name != "checkout"} == {checkout.span_id}
    times = {(each.instance, each.name): (each.began_ns, each.ended_ns) for each in ours}
    assert all(began <= ended for began, ended in times.values())
    assert times["a", "weft.append"][0] <= times["a", "weft.sync"][1] <= times["a", "weft.forward"][0]
    (forward,) = [each for each in ours if each.name == "weft.forward"]
    assert (forward.facts["weft.peer"], forward.facts["weft.origin"], forward.facts["weft.offset"]) == ("b", "a", 0)
    assert len([each for each in ours if each.name == "weft.deliver"]) == 2


@pytest.mark.req("SEE-03")
async def test_a_publisher_without_a_span_begins_a_trace_and_one_that_does_not_sample_has_none(
    mesh: TracedMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(topic: str) -> None:
        async with mesh.a.client() as at_a:
            await at_a.publish(topic, b"1")

    with traced_application(mesh, monkeypatch, sample=0.0):
        await story("quiet.topic")
    with traced_application(mesh, monkeypatch):
        await story("loud.topic")

    def loud(spans: list[SeenSpan]) -> set[str]:
        begun = [each.trace_id for each in spans if each.name == "loud.topic publish" and not each.parent_id]
        return {name for each in begun for _, name in seen_in(spans, each)}

    spans = mesh.collector.wait_for(lambda spans: loud(spans) >= {"loud.topic publish", "weft.append", "weft.sync"})
    assert not [each for each in spans if each.facts.get("messaging.destination.name") == "quiet.topic"]


@pytest.mark.req("SEE-03")
async def test_a_gateway_begins_a_trace_or_goes_on_with_the_one_it_is_given(mesh: TracedMesh) -> None:
    given = "4bf92f3577b34da6a3ce929d0e0e4736"

    token, address = mesh.a.context.token, mesh.a.gateway("exmps")
    async with exmp.connect(address, tls=tls_of(mesh.a, "exmps")) as client:
        await client.call("authenticate", {"key": token})
        await client.call("publish", {"topic": "exmp.new", "payload": "1"})
        headers = {"traceparent": f"00-{given}-00f067aa0ba902b7-01"}
        await client.call("publish", {"topic": "exmp.given", "payload": "2", "headers": headers})

    def begun(spans: list[SeenSpan]) -> set[str]:
        roots = [each.trace_id for each in spans if each.name == "exmp.new publish" and not each.parent_id]
        return {name for each in roots for _, name in seen_in(spans, each)}

    spans = mesh.collector.wait_for(
        lambda spans: (
            begun(spans) >= {"exmp.new publish", "weft.append", "weft.sync"}
            and ("a", "weft.sync") in seen_in(spans, given)
        )
    )
    assert ("a", "exmp.given publish") not in seen_in(spans, given)


@pytest.mark.req("SEE-03")
async def test_a_node_whose_collector_is_away_works_and_ends_as_always(tmp_path: Path) -> None:
    with up(tmp_path / "a", environ={"WEFT_TRACING_ENDPOINT": "http://127.0.0.1:1"}) as node:
        async with node.client() as client:
            headers = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
            await client.publish("a.topic", b"1", headers=headers)
        assert node.end() == 0


# --- weft trace ----------------------------------------------------------------------------------------------------


def weft(
    node: RunningNode, *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, "WEFT_CONFIG_DIR": str(node.config), "COLUMNS": "200", **(environ or {})}
    command = [*COMMAND, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=own, timeout=END_TIMEOUT_S)


@pytest.mark.req("SEE-03")
async def test_weft_trace_shows_the_hops_of_an_event_without_a_collector(mesh: TracedMesh) -> None:
    """Node b knows a's key, as a user who looks at both nodes has it."""

    async def story() -> EventWay:
        async with (
            mesh.a.client() as at_a,
            at_second(mesh) as at_b,
            at_b.subscribe("seen.>", group="lookers", start="earliest") as events,
        ):
            await linked(mesh, "seen.once", events)
            receipt = await at_a.publish("seen.once", b"1")
            async with asyncio.timeout(WAIT_S):
                await anext(events)
            event = EventId(receipt.stream, receipt.epoch, receipt.first_offset)
            found = await at_a.trace(event)
            unknown = await at_a.trace(EventId(receipt.stream, receipt.epoch, receipt.first_offset + 1))
            assert unknown.timestamp_us is None and not any(hop.kept for hop in unknown.hops)
            return found

    way = await story()
    at_a, at_b = way.hops
    assert (at_a.node_id, at_a.kept, at_a.sources, at_a.acked_by) == ("a", True, (), ("b",))
    assert (at_b.node_id, at_b.kept, at_b.sources) == ("b", True, ("a",))
    assert at_a.stored is not None and at_b.stored is not None and at_b.stored.is_exact
    assert way.timestamp_us is not None and way.timestamp_us <= at_a.stored.at_us <= at_b.stored.at_us
    assert [(each.group, each.when.at_us >= at_b.stored.at_us) for each in at_b.deliveries] == [("lookers", True)]

    shown = weft(mesh.a, "trace", str(way.event))
    assert shown.returncode == 0, shown.stderr
    assert "stored from a" in shown.stdout and "delivered to group lookers" in shown.stdout, shown.stdout
    document = json.loads(weft(mesh.a, "trace", str(way.event), "--json").stdout)
    assert [(hop["node"], hop["kept"], hop["stored"]["after_us"] >= 0) for hop in document["hops"]] == [
        ("a", True, True),
        ("b", True, True),
    ]
    refused = weft(mesh.a, "trace", "what is this")
    assert refused.returncode == 1 and "is not an event" in refused.stderr


@pytest.mark.req("SEE-03")
async def test_the_way_of_an_event_is_for_those_who_may_read_its_topic(mesh: TracedMesh) -> None:
    _, few = key_for(mesh.directory / "a", time.time(), publish=("other.>",), subscribe=("other.>",))

    async with mesh.a.client() as client:
        receipt = await client.publish("secret.topic", b"1")
    context = mesh.a.context
    async with weft_connect(context.nodes, tls=tls_files(context), token=few) as client:
        with pytest.raises(NotAllowed):
            await client.trace(EventId(receipt.stream, receipt.epoch, receipt.first_offset))


# --- metrics of both nodes -----------------------------------------------------------------------------------------


def values(node: RunningNode) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in node.metrics().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


@pytest.mark.req("SEE-04", "OBS-01")
async def test_both_nodes_tell_how_events_flow_and_how_long_that_takes(mesh: TracedMesh) -> None:
    before = values(mesh.b)

    async with (
        mesh.a.client() as at_a,
        at_second(mesh) as at_b,
        at_b.subscribe("measured.>") as events,
    ):
        await linked(mesh, "measured.topic", events)
        await at_a.publish("measured.topic", b"1")
        async with asyncio.timeout(WAIT_S):
            await anext(events)
    of_a, of_b = values(mesh.a), values(mesh.b)
    for name in ("weft_delivery_age_seconds", "weft_delivery_wait_seconds"):
        assert of_b[f"{name}_count"] > before[f"{name}_count"]
        assert of_b[f'{name}_bucket{{le="+Inf"}}'] == of_b[f"{name}_count"]
        assert of_b[f"{name}_sum"] > 0
    assert of_a['weft_connection_state{peer="b"}'] == of_b['weft_connection_state{peer="a"}'] == 3
    for each in (of_a, of_b):
        assert each['weft_topic_events_total{topic="measured.topic"}'] == 1
        assert each['weft_topic_log_bytes{topic="measured.topic"}'] > 0
    assert of_a["weft_trace_spans_total"] > 0


@pytest.mark.req("SEE-04")
async def test_what_is_configured_has_its_metrics_before_anything_happens(tmp_path: Path) -> None:
    config = tmp_path / "weft.toml"
    gateways = '[gateway.emm]\nudp = "127.0.0.1:0"\n[gateway.exmp]\ntcp = "127.0.0.1:0"\n'
    config.write_text(f'peers = ["127.0.0.1:1"]\n[admin]\nmetrics_topics_max = 0\n{gateways}')

    with up(tmp_path / "a", "--insecure", "--config", str(config)) as node:
        async with weft_connect(node.grpc, insecure=True) as client:
            await client.set_group("billing", GroupPolicy())
            await client.publish("a.topic", b"1")
            assert [each.state for each in await client.peers()] == ["connecting"]
        known = values(node)
        assert known['weft_connection_state{peer="127.0.0.1:1"}'] in (0, 1), "it is dialled again and again"
        assert known['weft_group_members{group="billing"}'] == 0
        assert known["weft_exmp_connections"] == 0
        assert known['weft_datagrams_total{fate="published"}'] == 0
        assert not [name for name in known if name.startswith("weft_topic_")], "nobody wants them"


@pytest.mark.req("SEE-03")
def test_weft_pub_begins_a_trace_where_opentelemetry_s_own_variables_say(mesh: TracedMesh) -> None:
    done = weft(mesh.a, "pub", "typed.by.hand", "1", environ={"OTEL_EXPORTER_OTLP_ENDPOINT": mesh.collector.url})
    assert done.returncode == 0, done.stderr

    def traced(spans: list[SeenSpan]) -> bool:
        begun = [each.trace_id for each in spans if each.name == "typed.by.hand publish" and each.service == "weft-cli"]
        return any(("a", "weft.sync") in seen_in(spans, each) for each in begun)

    mesh.collector.wait_for(traced)
    broken = {"OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense"}
    assert weft(mesh.a, "pub", "typed.by.hand", "2", environ=broken).returncode == 0, "they are for other programs, too"
