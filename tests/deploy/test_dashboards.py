"""The Grafana dashboard and the Prometheus rules ask for metrics and labels that nodes have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.docs.blocks import blocks_for
from tests.up import END_TIMEOUT_S
from weft.node.metrics import DEFINITIONS, Kind

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
RULES: Final = DEPLOY / "prometheus" / "weft.rules.yml"
DASHBOARD: Final = DEPLOY / "grafana" / "weft.json"

# What every node has beside its own: of the client library for processes, and of Prometheus itself.
OTHERS: Final = {"up": {"job", "instance"}, "process_resident_memory_bytes": {"instance", "job"}}
WORDS: Final = {
    "and", "by", "histogram_quantile", "increase", "max", "predict_linear", "rate", "sum", "topk",
}  # fmt: skip


def labels_by_series() -> dict[str, set[str]]:
    known: dict[str, set[str]] = {name: set(labels) for name, labels in OTHERS.items()}
    for definition in DEFINITIONS:
        labels = {*definition.labels, "instance", "job"}
        if definition.kind is Kind.HISTOGRAM:
            known |= {f"{definition.name}{suffix}": labels | {"le"} for suffix in ("_bucket", "_sum", "_count")}
        else:
            known[definition.name] = labels
    return known


def rules() -> Iterator[tuple[str, str, str]]:
    """Name, expression, and the text that people read."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"], rule["annotations"]["summary"]


def panels() -> Iterator[tuple[str, str, str]]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


QUERIES: Final = [*rules(), *panels()]


@pytest.mark.req("OBS-01")
@pytest.mark.parametrize(("title", "expression", "text"), QUERIES, ids=[f"{each[0]}" for each in QUERIES])
def test_what_is_asked_for_is_there(title: str, expression: str, text: str) -> None:
    known = labels_by_series()
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    grouped = {name for group in re.findall(r"by \(([^)]*)\)", bare) for name in re.split(r",\s*", group)}
    matched = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r"==", "", bare)))
    words = set(re.findall(r"[a-zA-Z_]\w*", re.sub(r"by \([^)]*\)|\{[^}]*\}", "", bare))) - WORDS
    assert words, title
    assert words <= known.keys(), words - known.keys()
    labels = set.intersection(*(known[name] for name in words))
    assert grouped | matched <= labels, title
    shown = set(re.findall(r"\{\{\s*\$labels\.(\w+)\s*\}\}|\{\{(\w+)\}\}", text))
    kept = grouped or labels
    assert {one or other for one, other in shown} <= kept, title


def test_every_panel_and_every_alert_has_a_name_of_its_own() -> None:
    alerts = [name for name, _, _ in rules()]
    assert len(alerts) == len(set(alerts)) >= 12
    document = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in document["panels"]]
    assert len(ids) == len(set(ids))


def promtool(*arguments: str) -> None:
    command = shutil.which("promtool")
    if command is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run([command, *arguments], check=False, capture_output=True, text=True, timeout=END_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_rules() -> None:
    promtool("check", "rules", str(RULES))


def test_promtool_takes_the_configuration_of_the_page(tmp_path: Path) -> None:
    (block,) = blocks_for("docs/metrics.md", __file__)
    (tmp_path / "prometheus.yml").write_text(block.code)
    promtool("check", "config", "--syntax-only", str(tmp_path / "prometheus.yml"))
