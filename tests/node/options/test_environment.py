"""Environment variables: old names, the shared variable, unknown ones [OPT3, OPT5, OPT9]."""

import pytest

from rollup_node.node.options.environment import MAX_LISTED, read_environment
from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.parsing import parse_options

BEACON, FETCH_ALL = "NODE_L1_BEACON", "NODE_L1_BEACON_FETCH_ALL_SIDECARS"


@pytest.mark.fault("F60")
@pytest.mark.parametrize(
    ("environ", "beacon", "fetches_all"),
    [
        *(({BEACON: text}, None, text in ("true", "1")) for text in ("true", "false", "1", "F")),
        ({BEACON: "http://b:5052", FETCH_ALL: "true"}, "http://b:5052", True),
        ({BEACON: "true", FETCH_ALL: "false"}, None, False),
    ],
)
def test_a_boolean_in_the_beacon_variable_is_for_the_other_option(
    environ: dict[str, str], beacon: str | None, fetches_all: bool
) -> None:
    """Whose own variable wins."""
    values = parse_options([], environ).values
    assert (values["l1.beacon"], values["l1.beacon.fetch-all-sidecars"]) == (beacon, fetches_all)
    variable = list(environ)[-1]
    assert values.source("l1.beacon.fetch-all-sidecars") == f"variable {variable} (--l1.beacon.fetch-all-sidecars)"


def test_an_old_variable_is_read_and_the_present_one_beats_it() -> None:
    old = {"NODE_L1_BEACON_ARCHIVER": "http://old"}
    values = parse_options([], old).values
    assert values["l1.beacon-fallbacks"] == ("http://old",)
    assert values.source("l1.beacon-fallbacks") == "variable NODE_L1_BEACON_ARCHIVER (--l1.beacon-fallbacks)"
    both = old | {"NODE_L1_BEACON_FALLBACKS": "http://new"}
    assert parse_options([], both).values["l1.beacon-fallbacks"] == ("http://new",)


@pytest.mark.fault("F60")
def test_each_unknown_variable_with_our_prefix_is_a_warning() -> None:
    environ = {"NODE_L1_RPC_KNID": "x", "NODE_ZZZZZZ": "x", "PATH": "x", "NODE_RPC_PORT": "1"}
    assert read_environment(environ).warnings == (
        "unknown variable NODE_L1_RPC_KNID is ignored; did you mean NODE_L1_RPC_KIND?",
        "unknown variable NODE_ZZZZZZ is ignored",
    )


@pytest.mark.parametrize(
    "environ",
    [{"NODE_RPC_PORT": "", "NODE_NETWORK": ""}, {"NODE_EXTRA_CA_CERTS": "certs.pem", "NODE_ENV": "production"}],
)
def test_empty_variables_and_those_of_node_js_are_left_alone(environ: dict[str, str]) -> None:
    result = read_environment(environ)
    assert (result.values, result.warnings) == ({}, ())


@pytest.mark.parametrize("prefix", ["NODE_RPC", "OP_NODE_METRICS", "NODE"])
def test_variables_of_a_kubernetes_service_are_no_options(prefix: str) -> None:
    """[OPT84] A service node-rpc has every container of its namespace see NODE_RPC_PORT=tcp://.."""
    address = "tcp://10.0.12.7:9545"
    links = {
        f"{prefix}_PORT": address,
        f"{prefix}_PORT_9545_TCP": address,
        f"{prefix}_PORT_9545_TCP_ADDR": "10.0.12.7",
        f"{prefix}_PORT_9545_TCP_PORT": "9545",
        f"{prefix}_SERVICE_HOST": "10.0.12.7",
        f"{prefix}_SERVICE_PORT": "9545",
        f"{prefix}_SERVICE_PORT_HTTP": "9545",
    }
    result = parse_options([], links | {"NODE_P2P_LISTEN_TCP_PORT": "9", "NODE_L2_ENGINE_RPC": "http://l2"})
    assert (result.errors, result.values["rpc.port"], result.values["p2p.listen.tcp"]) == ((), 9545, 9)
    assert result.warnings == (
        "variables of a Kubernetes service are no options and are ignored (enableServiceLinks: false removes them):"
        f" {', '.join(sorted(links))}",
    )


def test_variables_of_op_node_are_read_with_one_notice() -> None:
    environ = {"OP_NODE_L1_ETH_RPC": "http://a", "OP_NODE_L1_BEACON_ARCHIVER": "http://b", "OP_NODE_L1_BEACON": "true"}
    parsed = parse_options([], environ)
    assert parsed.values["l1"] == ("http://a",)
    assert parsed.values["l1.beacon-fallbacks"] == ("http://b",)
    assert parsed.values["l1.beacon.fetch-all-sidecars"] is True, "the variable of two options"
    assert parsed.values.source("l1") == "variable OP_NODE_L1_ETH_RPC (--l1)"
    assert parsed.warnings == (
        "variables of op-node are read: OP_NODE_L1_BEACON, OP_NODE_L1_BEACON_ARCHIVER, OP_NODE_L1_ETH_RPC;"
        " ours begin with NODE_ and win",
    )


def test_our_variables_beat_those_of_op_node() -> None:
    parsed = parse_options([], {"OP_NODE_RPC_PORT": "1", "NODE_RPC_PORT": "2", "OP_NODE_RPC_ADDR": ""})
    assert parsed.values["rpc.port"] == 2
    assert parsed.warnings == ("variables of op-node are not read, as ours are set: OP_NODE_RPC_PORT",)
    old = {"NODE_L1_BEACON_ARCHIVER": "http://old", "OP_NODE_L1_BEACON_FALLBACKS": "http://new"}
    assert parse_options([], old).values["l1.beacon-fallbacks"] == ("http://old",)


def test_a_wrong_variable_of_op_node_is_named() -> None:
    with pytest.raises(OptionError, match=r'invalid value "x" for variable OP_NODE_RPC_PORT \(--rpc.port\)'):
        parse_options([], {"OP_NODE_RPC_PORT": "x"})


def test_unknown_variables_of_op_node_are_one_notice() -> None:
    environ = {"OP_NODE_SERVICE": "10.0.0.1", "OP_NODE_PORT": "9545"}
    assert read_environment(environ).warnings == (
        "unknown variables of op-node are ignored: OP_NODE_PORT, OP_NODE_SERVICE",
    )
    many = {f"OP_NODE_{number:03}": "x" for number in range(200)}
    (line,) = read_environment(many).warnings
    assert line.endswith(f" and {200 - MAX_LISTED} more")
