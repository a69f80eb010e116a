"""A mesh as it is without any option: certificates for everybody, keys for clients, and renewal while events flow."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import weft
from tests.node.secured import authority_of, key_for, linked, secure_config, secured, tls_of, until
from weft.client import Unauthenticated
from weft.node.enrolling import settle_client
from weft.node.runtime import Node
from weft.security import node as node_identity
from weft.security import revoke_key
from weft.security.issuing import revoke


@pytest.mark.req("SEC-01", "SEC-02")
async def test_three_nodes_enrol_link_and_carry_events(tmp_path: Path) -> None:
    async with secured(tmp_path, time.time(), "a", "b", "c") as (first, _, last):
        tls = tls_of(first)
        _, reading = key_for(last.config.node.data, time.time(), subscribe=("plant.>",))
        _, writing = key_for(first.config.node.data, time.time(), publish=("plant.>",))
        async with (
            weft.connect(last.grpc_address, tls=tls, token=reading) as reader,
            weft.connect(first.grpc_address, tls=tls, token=writing) as writer,
        ):
            subscription = reader.subscribe("plant.>", start="earliest")
            await writer.publish("plant.temp", b"21")
            async for event in subscription:
                assert (event.topic, event.payload) == ("plant.temp", b"21")
                break


@pytest.mark.req("SEC-01")
async def test_renewal_under_load_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """Lives of eight seconds: every certificate of every node, of the CA's service and of the clients ends thrice."""

    async with secured(tmp_path, time.time(), "a", "b", "c", lifetime_s=8) as nodes:
        first, _, last = nodes
        tls = tls_of(first)
        _, reading = key_for(last.config.node.data, time.time(), subscribe=(">",))
        _, writing = key_for(first.config.node.data, time.time(), publish=(">",))
        published = 0
        got: list[int] = []
        async with (
            weft.connect(last.grpc_address, tls=tls, token=reading) as reader,
            weft.connect(first.grpc_address, tls=tls, token=writing) as writer,
        ):

            async def read() -> None:
                async for event in reader.subscribe("load", start="earliest"):
                    got.append(int(event.payload))

            reading_task = asyncio.create_task(read())
            async with asyncio.timeout(90):
                while min(each.protection.renewals for each in nodes) < 3:
                    await writer.publish("load", str(published))
                    published += 1
                    await asyncio.sleep(0.002)
            await until(lambda: len(got) >= published)
            assert got == list(range(published))
            assert all(each.protection.renewal_failures == 0 for each in nodes)
            reading_task.cancel()
            await asyncio.gather(reading_task, return_exceptions=True)


@pytest.mark.req("SEC-01")
async def test_a_node_that_gets_no_more_certificates_is_out_when_its_last_one_ends(tmp_path: Path) -> None:
    async with secured(tmp_path, time.time(), "a", "b", lifetime_s=6) as (first, second):
        revoke(authority_of(first).directory, node_identity("weft", "b"))
        await until(lambda: second.protection.renewal_failures and (second.protection.expires_in_s() or 0) < 0)
        await until(lambda: not linked(first, second))


@pytest.mark.req("SEC-02")
async def test_a_revoked_key_ends_open_streams(tmp_path: Path) -> None:
    async with secured(tmp_path, time.time(), "a") as (only,):
        data = only.config.node.data
        key_id, key = key_for(data, time.time(), publish=(">",), subscribe=(">",))
        async with weft.connect(only.grpc_address, tls=tls_of(only), token=key) as client:
            subscription = client.subscribe("t")
            await subscription.opened()
            await client.publish("t", b"1")
            revoke_key(data, key_id)
            with pytest.raises(Unauthenticated, match=f"key {key_id} was revoked"):
                async for _ in subscription:
                    pass
            with pytest.raises(Unauthenticated, match=f"key {key_id}"):
                for _ in range(1000):
                    await client.publish("t", b"2")
        assert only._refusals.totals["revoked-key"] >= 1


async def test_others_are_told_what_is_advertised(tmp_path: Path) -> None:
    node = Node(secure_config(tmp_path, "a", listen__advertise="localhost:0"))
    await node.start()
    try:
        port = node.grpc_address.rpartition(":")[2]
        assert node.members.own.addresses == (f"localhost:{port}",)
        _, key = key_for(tmp_path, time.time(), publish=(">",))
        async with weft.connect(f"127.0.0.1:{port}", tls=tls_of(node), token=key) as client:
            await client.publish("t", b"1")
    finally:
        await node.stop()


@pytest.mark.req("SEC-01")
async def test_streams_of_a_client_go_on_when_its_certificate_is_renewed(tmp_path: Path) -> None:
    class Lost(weft.Hooks):
        times = 0

        def on_disconnected(self, address: str, node: str, purpose: str, reason: str) -> None:
            Lost.times += 1

    async with secured(tmp_path, time.time(), "a") as (only,):
        _, key = key_for(only.config.node.data, time.time(), publish=(">",), subscribe=(">",))
        async with weft.connect(only.grpc_address, tls=tls_of(only), token=key, hooks=Lost()) as client:
            subscription = client.subscribe("t")
            await subscription.opened()
            await client.publish("t", b"0")
            for number in range(1, 4):
                settle_client(only.config.node.data, authority_of(only), time.time())
                assert await client.topics()  # over a channel of its own
                await client.publish("t", str(number))
            got = []
            async for event in subscription:
                got.append(event.payload)
                if len(got) == 4:
                    break
            assert got == [b"0", b"1", b"2", b"3"]
            assert Lost.times == 0
