"""What keeps every pipeline, source and sink fit for Spark Connect: nothing reaches for Spark's JVM."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
# Attributes and names that a Spark Connect client does not have.
FORBIDDEN = {"sparkContext", "SparkContext", "rdd", "RDD", "parallelize", "toJavaRDD", "py4j", "JavaObject"}
JVM_HANDLES = ("_jvm", "_jsc", "_jdf", "_jsparkSession", "_jconf", "_jq", "_gateway", "_sc")


def reached_for(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a module names something of the JVM, as an attribute, a name or an import."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name):
                names = [name]
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names = [part for each in imported for part in each.name.split(".")]
                names += (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
            case ast.Constant(value=str(text)):
                names = [text] if text in FORBIDDEN or text in JVM_HANDLES else []  # getattr(spark, "_jvm")
            case _:
                continue
        for each in names:
            if each in FORBIDDEN or each in JVM_HANDLES:
                yield getattr(node, "lineno", 0), each


@pytest.mark.req("LAK-05")
def test_nothing_reaches_for_the_jvm() -> None:
    rooms = [SOURCES / "weft" / "spark", SOURCES / "weft" / "pipelines", SOURCES / "weft" / "cli"]
    files = [file for room in rooms for file in room.rglob("*.py")] + [SOURCES / "pyspark_weft.py"]
    assert len(files) > 50
    found = [
        f"{file.relative_to(SOURCES)}:{line}: {name}"
        for file in files
        for line, name in reached_for(ast.parse(file.read_text()))
    ]
    assert not found, "Spark Connect has no such thing"


@pytest.mark.parametrize(
    "text",
    [
        "spark.sparkContext.master",
        "frame.rdd.getNumPartitions()",
        "from pyspark import SparkContext",
        "import py4j.java_gateway",
        "spark._jvm.System",
        "getattr(spark, '_jvm')",
        "spark.sparkContext.parallelize([1])",
    ],
)
def test_the_check_sees_it(text: str) -> None:
    assert list(reached_for(ast.parse(text)))


def test_the_check_lets_tasks_have_their_context() -> None:
    assert not list(reached_for(ast.parse("from pyspark import SparkFiles, TaskContext\nTaskContext.get()")))
