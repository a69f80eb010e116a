"""Ids, objects and vectors that the tests of this room share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

VECTORS = Path(__file__).parents[2] / "vectors" / "coaty"

AGENT = "a9e20000-0000-4000-8000-000000000001"
OTHER_AGENT = "a9e20000-0000-4000-8000-000000000002"
CORRELATION = "c0440000-0000-4000-8000-000000000009"
PEER = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "id", "x.y"]), inner),
    max_leaves=6,
)


def uuid(number: int) -> str:
    return f"0b1ec700-0000-4000-8000-{number:012}"


def motor(**properties: Any) -> dict[str, Any]:
    return {
        "objectId": uuid(1),
        "objectType": "com.example.Motor",
        "coreType": "CoatyObject",
        "name": "Motor 7",
        **properties,
    }


def vectors(file: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((VECTORS / file).read_text())
    return content
