"""Where settings come from, which one counts, and what a person is told about a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

import pytest

from weft.configuration import CONFIG_FILE_BYTES_MAX, BadConfig
from weft.node.config import NodeConfig
from weft.node.config.loading import VARIABLES, knobs, load_config
from weft.node.config.sections import LogFormat
from weft.transport.addresses import Address
from weft.transport.peers.settings import DropPolicy

INSECURE: Mapping[str, object] = {"insecure": True}

WriteToml = Callable[[str], Path]


@pytest.fixture
def toml(tmp_path: Path) -> WriteToml:
    def write(text: str) -> Path:
        file = tmp_path / "weft.toml"
        file.write_text(text)
        return file

    return write


def refusal(file: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object] = INSECURE) -> str:
    with pytest.raises(BadConfig) as caught:
        load_config(file, environ, overrides)
    return str(caught.value)


# --- what counts -------------------------------------------------------------------------------------------------


@pytest.mark.req("PL-07")
def test_flags_are_above_the_environment_and_that_above_the_file(toml: WriteToml) -> None:
    file = toml("insecure = true\n[link]\nqueue_frames_max = 1\nsend_timeout_s = 1\nwindow_bytes = 100000\n")
    environ = {"WEFT_LINK_SEND_TIMEOUT_S": "2", "WEFT_LINK_WINDOW_BYTES": "200000"}
    config = load_config(file, environ, {"link.window_bytes": 300000})
    assert (config.link.queue_frames_max, config.link.send_timeout_s, config.link.window_bytes) == (1, 2.0, 300000)
    assert config.link.drop_policy is DropPolicy.NEWEST  # the default is below all of them


def test_a_flag_that_was_not_given_hides_nothing(toml: WriteToml) -> None:
    config = load_config(toml("insecure = true\n[node]\nid = 'a'"), {}, {"node.id": None, "listen.grpc": None})
    assert config.node.id == "a"


@pytest.mark.req("PL-07")
def test_a_whole_file(toml: WriteToml) -> None:
    config = load_config(
        toml(
            """
            insecure = true
            peers = ["127.0.0.1:7410", { address = "[::1]:7420", node_id = "node-c" }]
            legacy_peers = ["plant.>"]
            [node]
            id = "node-a"
            data = "/var/lib/weft"
            [listen]
            grpc = "localhost:0"
            [link]
            drop_policy = "oldest"
            compression = true
            [membership]
            heartbeat_interval_s = 2
            [[topics]]
            pattern = "plant.>"
            copies = 2
            [log]
            format = "json"
            """
        ),
        {},
        {},
    )
    assert [(str(peer.address), peer.node_id) for peer in config.peers] == [
        ("127.0.0.1:7410", None),
        ("[::1]:7420", "node-c"),
    ]
    assert config.legacy_peers == ("plant.>",)
    assert (config.node.id, config.node.data) == ("node-a", Path("/var/lib/weft"))
    assert config.listen.grpc == Address("localhost", 0)
    assert config.link.drop_policy is DropPolicy.OLDEST and config.link.compression
    assert config.membership.settings().heartbeat_interval_s == 2.0
    assert [(each.pattern, each.copies) for each in config.topics] == [("plant.>", 2)]
    assert config.log.format is LogFormat.JSON


def test_the_environment_has_a_name_for_every_knob_but_tables() -> None:
    assert len(VARIABLES) == len(list(knobs()))  # no two knobs share one
    assert VARIABLES["WEFT_LINK_QUEUE_FRAMES_MAX"] == ("link", "queue_frames_max")
    assert VARIABLES["WEFT_PEERS"] == ("peers",)
    assert "WEFT_TOPICS" not in VARIABLES


def test_every_variable_arrives_at_its_knob() -> None:
    defaults = NodeConfig(insecure=True)
    values = {"WEFT_NODE_ID": "node-z", "WEFT_PEERS": "127.0.0.1:1, [::1]:2", "WEFT_INSECURE": "true"}
    for name, path in VARIABLES.items():
        if name not in values and len(path) == 2:
            value = getattr(getattr(defaults, path[0]), path[1])
            if value is not None and value != ():
                values[name] = str(value.value if isinstance(value, Enum) else value)
    config = load_config(None, values, {})
    assert config.model_copy(update={"peers": (), "node": defaults.node}) == defaults
    assert [str(peer.address) for peer in config.peers] == ["127.0.0.1:1", "[::1]:2"]
    assert config.node.id == "node-z"


def test_variables_of_others_are_left_alone() -> None:
    environ = {
        "HOME": "/root",
        "WEFT_CONTEXT": "prod",
        "WEFT_CONFIG_DIR": "/tmp",
        "WEFT_SERVICE_HOST": "10.0.0.1",
        "WEFT_PORT": "tcp://10.0.0.1:7400",
        "WEFT_NODE_PORT_7400_TCP_ADDR": "10.0.0.1",
        "WEFT_NODE_SERVICE_PORT_GRPC": "7400",
    }
    assert load_config(None, environ, INSECURE) == NodeConfig(insecure=True)


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.req("PL-07")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[link]\nqueue_frames_max = 0", "link.queue_frames_max = 0: has to be at least 1"),
        ("[link]\nsend_timeout_s = 601", "link.send_timeout_s = 601: has to be at most 600"),
        ("[link]\nmessage_bytes_max = 1", "link.message_bytes_max = 1: has to be at least 17825792"),
        ("[link]\nsend_timeout_s = nan", "link.send_timeout_s = nan: input should be a finite number"),
        ("[link]\nqueue_frames_max = true", "link.queue_frames_max = True: has to be a number, not true or false"),
        ("[link]\nqueue_frames_max = 1.5", "link.queue_frames_max = 1.5: input should be a valid integer"),
        ("[link]\ndrop_policy = 'all'", "link.drop_policy = \"all\": has to be 'oldest' or 'newest'"),
        ("[link]\nbackoff_s_min = 50", "link: backoff_s_min (50.0) is above backoff_s_max (30.0)"),
        ("[membership]\nprobe_timeout_s = 1", "membership: probe_timeout_s has to leave time for indirect probes"),
        ("[link]\nqeue_bytes_max = 3", 'unknown setting "link.qeue_bytes_max": did you mean queue_bytes_max?'),
        ("[lnk]\nx = 3", 'unknown setting "lnk": did you mean link?'),
        ("wholly_unlike = 3", 'unknown setting "wholly_unlike" ('),
        ("[[topics]]\npatern = 'a'", 'unknown setting "topics[0].patern": did you mean pattern?'),
        ("[[topics]]\ncopies = 1", "topics[0].pattern: is missing"),
        ("[[topics]]\npattern = 'a..b'", 'topics[0].pattern = "a..b": pattern "a..b": token 2 is empty'),
        ("[[topics]]\npattern = 'a'\nretention_age_s = 0", "topics[0].retention_age_s = 0: has to be at least 1"),
        ("peers = ['127.0.0.1']", 'peers[0].address = "127.0.0.1": "127.0.0.1" is not HOST:PORT'),
        ("peers = ['127.0.0.1:0']", "a peer needs the port it listens on, not 0"),
        ("peers = [{ address = 'localhost:1', node = 'b' }]", "did you mean node_id?"),
        ("peers = [5]", "peers[0] = 5: has to be a table"),
        ("legacy_peers = ['a.>.b']", '">" is only allowed as the last token'),
        ("link = 3", "link = 3: has to be a table"),
        ("listen.grpc = ['0.0.0.0', 1]", "has to be text"),
        ("listen.grpc = '0.0.0.0:7400'", "loopback addresses (127.0.0.1, [::1], localhost) only"),
        ("node.id = '-a'", "node.id = \"-a\": node id"),
        ("[link", "is not TOML"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_told(toml: WriteToml, text: str, message: str) -> None:
    assert message in refusal(toml(text), {})


def test_the_place_of_a_mistake_is_told(toml: WriteToml) -> None:
    file = toml("[link]\nqueue_frames_max = 0")
    assert str(file) in refusal(file, {})
    environ = {"WEFT_LINK_QUEUE_FRAMES_MAX": "-1"}
    assert refusal(file, environ).endswith("(in WEFT_LINK_QUEUE_FRAMES_MAX)")
    assert refusal(file, environ, {**INSECURE, "link.queue_frames_max": -2}).endswith("(given by flags)")


def test_all_mistakes_are_told_at_once(toml: WriteToml) -> None:
    told = refusal(toml("[link]\nqueue_frames_max = 0\nwindow = 1\n[node]\nid = '?'"), {})
    assert len(told.split("; ")) == 3
    assert told.isprintable(), "commands print it as one line"


def test_an_unknown_variable_is_refused_with_the_nearest() -> None:
    text = refusal(None, {"WEFT_LINK_QUEUE_FRAME_MAX": "7"})
    assert text == (
        "WEFT_LINK_QUEUE_FRAME_MAX in the environment is not a setting of a node: did you mean "
        "WEFT_LINK_QUEUE_FRAMES_MAX?"
    )


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert "cannot read" in refusal(tmp_path / "absent.toml", {})
    assert "cannot read" in refusal(tmp_path, {})


def test_a_file_that_is_no_text_or_endless_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_bytes(b"insecure = true # \xff")
    assert "not UTF-8 (at 18)" in refusal(file, {})
    file.write_bytes(b"#" * (CONFIG_FILE_BYTES_MAX + 1))
    assert "too large" in refusal(file, {})


# --- security ----------------------------------------------------------------------------------------------------


def test_without_insecure_everything_is_protected() -> None:
    config = load_config(None, {}, {"listen.grpc": "10.0.0.1:7400"})
    assert not config.insecure
    assert config.listen.ca is None


@pytest.mark.parametrize(
    ("knob", "value", "message"),
    [
        ("node.mesh", "Plant", "node.mesh: 'Plant' is not a name for a mesh"),
        ("security.ca_url", "http://ca:7443", "'http://ca:7443' is not the address of a CA"),
        ("security.ca_fingerprint", "abc", 'security.ca_fingerprint = "abc"'),
        ("security.certificate_lifetime_s", 0, "has to be at least 1"),
        ("listen.ca", "nonsense", 'listen.ca = "nonsense"'),
        ("listen.grpc", "0.0.0.0:7400", "say with --advertise (listen.advertise) which one others are told"),
    ],
)
def test_security_that_cannot_be_is_refused(knob: str, value: object, message: str) -> None:
    assert message in refusal(None, {}, {knob: value})


@pytest.mark.parametrize("knob", ["listen.ca", "security.ca_url", "security.token"])
def test_insecure_has_no_certificates(knob: str) -> None:
    value = {"listen.ca": "127.0.0.1:7443", "security.ca_url": "https://ca:7443", "security.token": "s3cret"}[knob]
    told = refusal(None, {}, {**INSECURE, knob: value})
    assert knob in told
    assert "s3cret" not in told


def test_a_token_is_shown_to_nobody() -> None:
    config = load_config(None, {"WEFT_SECURITY_TOKEN": "s3cret"}, {})
    assert config.security.token is not None and config.security.token.reveal() == "s3cret"
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize("knob", ["listen.grpc", "listen.admin"])
@pytest.mark.parametrize("address", ["0.0.0.0:7400", "10.1.2.3:7400", "[::]:7400", "node-a:7400"])
def test_insecure_listens_on_loopback_only(knob: str, address: str) -> None:
    assert f"{knob} {address}" in refusal(None, {}, {**INSECURE, knob: address})


def test_insecure_dials_loopback_only() -> None:
    assert "peer 10.0.0.2:7400" in refusal(None, {}, {**INSECURE, "peers": ["127.0.0.1:7400", "10.0.0.2:7400"]})
