"""kona-node's options become ours, with its units, names of chains and defaults."""

import pytest

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.options.table import FLAGS as OURS
from rollup_node.tools.convert.conversion import toml_lines
from rollup_node.tools.convert.kona_node import FLAGS, ROWS, convert
from tests.tools.convert.test_op_node import source

NODE = ("node", "--l1", "http://127.0.0.1:1", "--l1-beacon=http://127.0.0.1:2", "--l2-engine-rpc=http://127.0.0.1:3")


def converted(*words: str, **variables: str) -> dict[str, str]:
    lines = toml_lines(convert(source(*words, **variables)).options(), hide=False)
    return dict(line.replace('"', "", 2).split(" = ", 1) for line in lines if not line.startswith("#"))


def test_its_defaults_are_kept() -> None:
    assert converted(*NODE, "--metrics.enabled", "--conductor.rpc=http://127.0.0.1:4", "--mode=Sequencer") == {
        "l1": '["http://127.0.0.1:1"]',
        "l1.beacon": '"http://127.0.0.1:2"',
        "l2": '"http://127.0.0.1:3"',
        "l2.jwt-secret": '"jwt.hex"',
        "network": '"op-mainnet"',
        "syncmode": '"execution-layer"',
        "sequencer.enabled": "true",
        "conductor.enabled": "true",
        "conductor.rpc": '"http://127.0.0.1:4"',
        "metrics.enabled": "true",
        "metrics.port": "9090",
        "p2p.listen.udp": "9223",
    }


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("--l2.timeout=1500", "l2.engine-rpc-timeout", '"1500ms"'),
        ("--p2p.ban.duration 60", "p2p.ban.duration", '"60m"'),
        ("--p2p.peers.grace=30", "p2p.peers.grace", '"30s"'),
        ("--chain=11155420", "network", '"op-sepolia"'),
        ("-c optimism-sepolia", "network", '"op-sepolia"'),
        ("-vvvv", "log.level", '"debug"'),
        ("--port=1", "rpc.port", "1"),
        ("--logs.stdout.format=json", "log.format", '"json"'),
        ("--logs.stdout.format=pretty", "log.format", '"text"'),
        ("--p2p.signer.endpoint=https://s --p2p.signer.address=0x" + 20 * "11", "signer.endpoint", '"https://s"'),
    ],
)
def test_an_option(words: str, name: str, value: str) -> None:
    assert converted(*NODE, *words.split())[name] == value


def test_variables() -> None:
    result = converted(
        KONA_NODE_L1_ETH_RPC="http://127.0.0.1:1",
        KONA_NODE_L1_BEACON="http://127.0.0.1:2",
        KONA_NODE_L2_ENGINE_RPC="http://127.0.0.1:3",
        KONA_NODE_L2_CHAIN_ID="10",
        KONA_NODE_LOG_LEVEL="5",
        KONA_METRICS_ENABLED="true",
        KONA_METRICS_PORT="9",
    )
    assert (result["network"], result["log.level"], result["metrics.port"]) == ('"op-mainnet"', '"detail"', "9")


def test_what_has_no_counterpart_is_named() -> None:
    words = ("--p2p.redial=3", "--rpc.dev-enabled", "--l2.jwt-secret-encoded=5a5a", "--canyon-override=1", "--chain=7")
    notes = "\n".join(convert(source(*NODE, *words, "--l2-config-file=r.json")).notes)
    for name in ("p2p.redial", "rpc.dev-enabled", "l2.jwt-secret-encoded", "canyon-override", "chain"):
        assert f": {name} is left out: " in notes
    assert "5a5a" not in notes and "l1.trustrpc stays false" in notes


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--workers=1", "f, line 6: kona-node has no flag --workers"),
        ("--l2.timeout=1s", "f, line 6: kona-node refuses the value '1s' of l2.timeout"),
        ("--mode=both", "f, line 6: kona-node has no mode 'both'"),
        ("--chain=nonsense", "f, line 6: the chain id is wanted in place of 'nonsense'"),
        ("--rpc.enable-admin=1", "f, line 6: kona-node refuses the value '1' of rpc.enable-admin"),
        ("--port=x", 'invalid value "x" for rpc.port (f, line 6)'),
    ],
)
def test_what_it_refuses_has_its_line(words: str, error: str) -> None:
    with pytest.raises(WrongOptions) as raised:
        convert(source(*NODE, *words.split())).options()
    assert raised.value.lines[0].startswith(error)


def test_what_it_requires() -> None:
    with pytest.raises(WrongOptions, match=r"kona-node requires l1\.beacon"):
        convert(source("node")).options()


def test_every_row_names_an_option_of_ours_or_says_why_not() -> None:
    special = {"mode", "chain l2-chain-id c", *("v" * count for count in range(1, 10))}
    assert [row for row in ROWS if row.ours and row.ours not in OURS] == []
    assert {row.flags for row in ROWS if not row.ours and not row.why} == special
    assert len(FLAGS) == sum(len(row.flags.split()) for row in ROWS), "no flag is there twice"
