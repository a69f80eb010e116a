"""``[gateway.exmp]``: off unless asked for, plain text on loopback only, TLS with certificates only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.node.running import config_of
from weft.configuration import BadConfig
from weft.node.config.loading import load_config


def test_nothing_is_opened_without_being_asked(tmp_path: Path) -> None:
    exmp = config_of(tmp_path).gateway.exmp
    assert (exmp.tcp, exmp.tls) == (None, None)


@pytest.mark.req("EXM-01")
def test_the_protocols_own_ports_are_meant_where_none_is_given(tmp_path: Path) -> None:
    exmp = config_of(tmp_path, insecure=False, gateway__exmp__tcp="127.0.0.1", gateway__exmp__tls="[::1]").gateway.exmp
    assert (str(exmp.tcp), str(exmp.tls)) == ("127.0.0.1:5040", "[::1]:5041")
    assert str(config_of(tmp_path, gateway__exmp__tcp="localhost:7").gateway.exmp.tcp) == "localhost:7"


def test_a_file_and_the_environment_can_say_it(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text('insecure = true\n[gateway.exmp]\ntcp = "127.0.0.1"\npending_max = 8\n')
    config = load_config(file, {"WEFT_GATEWAY_EXMP_PENDING_MAX": "9", "WEFT_GATEWAY_EXMP_PUBLISH": "a.>, b"}, {})
    assert (config.gateway.exmp.pending_max, config.gateway.exmp.publish) == (9, ("a.>", "b"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gateway__exmp__tcp": "0.0.0.0:5040"}, "gateway.exmp.tcp 0.0.0.0:5040 is plain text"),
        ({"gateway__exmp__tcp": "10.0.0.1", "insecure": False}, "use gateway.exmp.tls for others"),
        ({"gateway__exmp__tls": "127.0.0.1"}, "cannot be combined with gateway.exmp.tls"),
        ({"gateway__exmp__tcp": "a b"}, "is not HOST:PORT"),
        ({"gateway__exmp__tcp": "127.0.0.1:99999"}, "has no such port"),
        ({"gateway__exmp__pending_max": 0}, "has to be at least 1"),
        ({"gateway__exmp__tpc": "x"}, "did you mean tcp?"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, **settings)
    assert words in str(caught.value)
