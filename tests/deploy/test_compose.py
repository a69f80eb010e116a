"""The compose file: a mesh whose nodes know each other, with settings that a node takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.deploy.files import ADMIN, CA, GRPC, ROOT, compose, compose_nodes, settings, unescaped
from weft import __version__

pytestmark = pytest.mark.xdist_group("schemas")  # as tests/deploy/test_chart.py

SCHEMA = ROOT / "tests" / "vectors" / "compose" / "compose-spec.json"


def complaints(document: Any) -> list[str]:
    """What the Compose Specification's schema says against it. It refuses fields that it does not know."""
    from jsonschema import Draft202012Validator  # takes seconds

    schema = json.loads(SCHEMA.read_text())
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.req("OPS-01")
def test_the_schema_of_compose_takes_the_file_and_refuses_mistakes_in_it() -> None:
    assert complaints(compose()) == []
    for wrong, said in (
        ({"read_onyl": True}, "'read_onyl' was unexpected"),
        ({"healthcheck": {"intervall": "5s"}}, "'intervall' does not match"),
        ({"depends_on": {"ca": {"condition": "ready"}}}, "$.services.a.depends_on"),
        ({"ports": [{"target": 7400, "publish": "1"}]}, "$.services.a.ports[0]"),
    ):
        whole = compose()
        whole["services"]["a"] |= wrong
        found = complaints(whole)
        assert any(said in each for each in found), found


@pytest.mark.req("OPS-01")
def test_nodes_take_their_settings_and_dial_each_other() -> None:
    nodes = compose_nodes()
    assert len(nodes) == 3
    for name, service in nodes.items():
        config = settings(service["environment"])
        assert (config.node.id, str(config.node.data)) == (name, "/data")
        assert str(config.listen.advertise) == f"{name}:{GRPC}"
        assert {peer.address.host for peer in config.peers} == nodes.keys() - {name}
        assert [port.rpartition(":")[2] for port in service["ports"]] == [str(GRPC), str(ADMIN)]


@pytest.mark.req("OPS-01")
def test_nodes_have_volumes_of_their_own_and_read_the_ca_that_is_made_first() -> None:
    whole = compose()
    for name, service in compose_nodes().items():
        assert service["volumes"] == [f"{name}:/data", "ca:/mesh:ro"]
        assert service["depends_on"] == {"ca": {"condition": "service_healthy"}}
        assert unescaped(service["entrypoint"][-1]).startswith("weft-enrol /mesh/ca /mesh/keys ")
    assert whole["volumes"].keys() == whole["services"].keys()
    script = unescaped(whole["services"]["ca"]["command"][0])
    assert f"--url https://ca:{CA}" in script and f"exec weft ca serve --data /data --listen 0.0.0.0:{CA}" in script


def test_containers_can_change_nothing_but_their_volume_and_have_time_to_end() -> None:
    for service in compose()["services"].values():
        assert service["image"] == f"weft:{__version__}"
        assert (service["read_only"], service["cap_drop"], service["tmpfs"]) == (True, ["ALL"], ["/tmp"])
        config = settings({})
        assert float(service["stop_grace_period"].rstrip("s")) > (
            config.shutdown.drain_timeout_s + config.membership.leave_timeout_s
        )
