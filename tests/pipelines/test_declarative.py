"""The example of a declarative pipeline runs, on a Spark Connect server, and finds what was published."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pyarrow import dataset

from tests.pipelines.cluster import ConnectServer
from tests.spark.meshes import fill
from tests.spark.secured_pair import SPARK_TIMEOUT_S
from weft.testing import blocking_mesh

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative_pipeline"


@pytest.mark.xdist_group("cluster")
@pytest.mark.req("LAK-05")
def test_the_example_fills_its_tables(connect_server: ConnectServer, tmp_path: Path) -> None:
    pytest.importorskip("pyspark.pipelines", reason="this Spark has no declarative pipelines")
    place = tmp_path / "example"
    shutil.copytree(EXAMPLE, place)
    with blocking_mesh(1) as mesh:
        with mesh.client() as client:
            fill(client, "plant.a.temp", ["20.5", "21.5"])
            fill(client, "plant.b.temp", ["7"])
            fill(client, "plant.b.speed", ["100"])
        spec = yaml.safe_load((place / "spark-pipeline.yml").read_text())
        spec["storage"] = (tmp_path / "storage").as_uri()
        spec["configuration"]["weft.nodes"] = mesh.address("n0")
        (place / "spark-pipeline.yml").write_text(yaml.safe_dump(spec))
        command = [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(place / "spark-pipeline.yml")]
        environ = os.environ | {"SPARK_REMOTE": connect_server.address, "SPARK_CONNECT_MODE_ENABLED": "1"}
        ended = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=SPARK_TIMEOUT_S, check=False
        )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    warehouse = connect_server.warehouse
    rows = dataset.dataset(warehouse / "latest", format="parquet").to_table().to_pylist()
    found = sorted((row["topic"], row["celsius"], row["readings"]) for row in rows)
    assert found == [("plant.a.temp", 21.5, 2), ("plant.b.temp", 7.0, 1)]
