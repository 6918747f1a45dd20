"""The options of op-node, kona-node and op-supernode become ours; what each refuses is refused, with its line."""

import re
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.node.options.table import FLAGS, OPTIONS
from rollup_node.node.options.values import GivenTexts, NodeOptions, Values
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.convert import kona_node, op_node, op_supernode
from rollup_node.tools.convert.conversion import Conversion, masked_address, toml_lines
from rollup_node.tools.convert.sources import Source, Word
from tests.support.foreign.op_programs import find_program


def source(words: str, **variables: str) -> Source:
    return Source(
        tuple(Word(word, f"f, line {number}") for number, word in enumerate(words.split(), 1)),
        {name: Word(text, f"e, line {number}") for number, (name, text) in enumerate(variables.items(), 1)},
        None,
    )


def conversion(program: str, words: str, **variables: str) -> Conversion:
    """Return what `program` is started with; of an op-supernode `op-supernode:CHAIN` is one of its chains."""
    given_source, (name, _, chain) = source(words, **variables), program.partition(":")
    if name == "op-supernode":
        return op_supernode.convert(given_source, chain)
    return op_node.convert(given_source) if name == "op-node" else kona_node.convert(given_source)


def converted(program: str, words: str, **variables: str) -> dict[str, str]:
    """Return the lines of the file, by option."""
    lines = toml_lines(conversion(program, words, **variables).options(), hide=False)
    return dict(line.replace('"', "", 2).split(" = ", 1) for line in lines if not line.startswith("#"))


def errors(program: str, words: str, **variables: str) -> tuple[str, ...]:
    with pytest.raises(WrongOptions) as error:
        conversion(program, words, **variables).options()
    return error.value.lines


A, B, C = (f"http://127.0.0.1:{number}" for number in (1, 2, 3))
REST = f"--l1={A} --l2={C} --l2.jwt-secret=jwt.hex --l1.beacon={B}"
OP_NODE = f"--network=op-sepolia {REST}"
KONA = f"node --l1 {A} --l1-beacon={B} --l2-engine-rpc={C}"
SUPERNODE = f"--chains=11155420,1301 --l1={A} --l1.beacon={B} --data-dir=/d/"
CHAINS = f"--vn.11155420.network=op-sepolia --vn.11155420.l2={C} --vn.1301.network=unichain-sepolia --vn.1301.l2={A}"
ALL = "--vn.all.l2.jwt-secret=jwt.hex --vn.all.l1.cache-size=7 --vn.1301.l1.cache-size=8"
OP, UNICHAIN = "op-supernode:11155420", "op-supernode:1301"


def test_the_defaults_of_kona_node_are_kept() -> None:
    assert converted("kona-node", f"{KONA} --metrics.enabled --conductor.rpc={A} --mode=Sequencer") == {
        "l1": f'["{A}"]',
        "l1.beacon": f'"{B}"',
        "l2": f'"{C}"',
        "l2.jwt-secret": '"jwt.hex"',
        "network": '"op-mainnet"',
        "syncmode": '"execution-layer"',
        "sequencer.enabled": "true",
        "conductor.enabled": "true",
        "conductor.rpc": f'"{A}"',
        "metrics.enabled": "true",
        "metrics.port": "9090",
        "p2p.listen.udp": "9223",
    }


@pytest.mark.parametrize(
    ("program", "words", "expected"),
    [
        ("kona-node", f"{KONA} --l2.timeout=1500", {"l2.engine-rpc-timeout": '"1500ms"'}),
        ("kona-node", f"{KONA} --p2p.ban.duration 60", {"p2p.ban.duration": '"60m"'}),
        ("kona-node", f"{KONA} --p2p.peers.grace=30", {"p2p.peers.grace": '"30s"'}),
        ("kona-node", f"{KONA} --chain=11155420", {"network": '"op-sepolia"'}),
        ("kona-node", f"{KONA} -c optimism-sepolia", {"network": '"op-sepolia"'}),
        ("kona-node", f"{KONA} -vvvv", {"log.level": '"debug"'}),
        ("kona-node", f"{KONA} --port=1 --metrics.enabled --metrics.port=2", {"rpc.port": "1", "metrics.port": "2"}),
        ("kona-node", f"{KONA} --logs.stdout.format=json", {"log.format": '"json"'}),
        ("kona-node", f"{KONA} --logs.stdout.format=pretty", {"log.format": '"text"'}),
        (
            "kona-node",
            f"{KONA} --p2p.signer.endpoint=https://s --p2p.signer.address=0x{20 * '11'}",
            {"signer.endpoint": '"https://s"', "signer.tls.enabled": "false"},
        ),
        # A file of another machine is not read.
        ("op-node", f"{REST} --rollup.config=/no/rollup.json", {"rollup.config": '"/no/rollup.json"'}),
        (
            "op-node",
            f"{OP_NODE} --safedb.path=/d/ --l2.engine-sync --log.format=jsonms",
            {"safedb.path": '"/d.sqlite"', "syncmode": '"execution-layer"', "log.format": '"json"'}
            | {"p2p.priv.path": '"opnode_p2p_priv.txt"'},
        ),
        (
            OP,
            f"{SUPERNODE} {CHAINS} {ALL} --dependency-set=/set.json --disable-p2p",
            {"l1.cache-size": "7", "network": '"op-sepolia"', "safedb.path": '"/d/safedb-11155420.sqlite"'}
            | {"p2p.disable": "true", "interop.dependency-set": '"/set.json"', "l1": f'["{A}"]'},
        ),
        (UNICHAIN, f"{SUPERNODE} {CHAINS} {ALL}", {"l1.cache-size": "8", "network": '"unichain-sepolia"'}),
    ],
)
def test_options_of_a_command_line(program: str, words: str, expected: dict[str, str]) -> None:
    result = converted(program, words)
    assert expected == {name: result[name] for name in expected} and "l2.engine-sync" not in result


def test_variables_stand_back_behind_flags_and_lists_grow() -> None:
    lists = "--p2p.netrestrict=10.0.0.0/8 --p2p.netrestrict=11.0.0.0/8"
    variables = {"RPC_PORT": "3", "METRICS_PORT": "4", "P2P_NETRESTRICT": "12.0.0.0/8"}
    words = f"{OP_NODE} --rpc.port=1 --rpc.port=2 {lists}"
    result = converted("op-node", words, **{f"OP_NODE_{name}": text for name, text in variables.items()})
    assert (result["rpc.port"], result["metrics.port"]) == ("2", "4")
    assert result["p2p.netrestrict"] == '["10.0.0.0/8", "11.0.0.0/8"]'


def test_variables_alone() -> None:
    variables = {"L1_ETH_RPC": A, "L1_BEACON": B, "L2_ENGINE_RPC": C, "L2_CHAIN_ID": "10", "LOG_LEVEL": "5"}
    kona = {f"KONA_NODE_{name}": text for name, text in variables.items()}
    result = converted("kona-node", "", **kona, KONA_METRICS_ENABLED="true", KONA_METRICS_PORT="9")
    assert (result["network"], result["log.level"], result["metrics.port"]) == ('"op-mainnet"', '"detail"', "9")
    variables = {"CHAINS": "11155420", "L1_ETH_RPC": A, "L1_BEACON": B, "VN_ALL_L2_ENGINE_AUTH": "jwt.hex"}
    variables |= {"VN_ALL_L2_ENGINE_RPC": C, "VN_ALL_NETWORK": "op-sepolia"}
    result = converted(OP, "", **{f"OP_SUPERNODE_{name}": text for name, text in variables.items()})
    assert (result["l2"], result["network"]) == (f'"{C}"', '"op-sepolia"')


NOTES = [
    (
        *("op-node", f"{OP_NODE} --safedb.path=/d/ --heartbeat.enabled", {"OP_NODE_NONSENSE": "1"}),
        "f, line 6: safedb.path is /d.sqlite in place of /d/: the database",
        "f, line 7: heartbeat.enabled is left out: it has no effect",
        "e, line 1: OP_NODE_NONSENSE is left out: op-node does not read it",
    ),
    (
        *("kona-node", f"{KONA} --rpc.dev-enabled --l2.jwt-secret-encoded=5a5a --canyon-override=1 --chain=7", {}),
        "f, line 6: rpc.dev-enabled is left out: ",
        "f, line 7: l2.jwt-secret-encoded is left out: a secret is not copied",
        "f, line 8: canyon-override is left out: ",
        "f, line 9: chain is left out: no built-in network",
        "l1.trustrpc stays false",
    ),
    (
        *(OP, f"{SUPERNODE} {CHAINS} {ALL} --vn.all.log.level=debug --interop.activation-timestamp=1", {}),
        "vn.all.log.level is left out: op-supernode ignores it for a chain",
        "interop.activation-timestamp is left out: a node of one chain verifies no messages",
    ),
    # Where a variable names the chains, op-supernode reads no options of a single one.
    (
        *("op-supernode:10", "", {"OP_SUPERNODE_CHAINS": "10", "OP_SUPERNODE_VN_10_NETWORK": "op-mainnet"}),
        "e, line 2: OP_SUPERNODE_VN_10_NETWORK is left out: op-supernode does not read it",
    ),
]


@pytest.mark.parametrize("row", NOTES, ids=range(len(NOTES)))
def test_what_has_no_counterpart_is_named(row: tuple[Any, ...]) -> None:
    program, words, variables, *notes = row
    text = "\n".join(conversion(program, words, **variables).notes)
    assert [note for note in notes if note not in text] == [] and "5a5a" not in text


ONE = "--network=op-sepolia"
REFUSED = [
    ("op-node", f"{OP_NODE} --workers=3", "f, line 6: op-node has no flag --workers"),
    (
        "op-node",
        f"{OP_NODE} --x --l1.trustrp",
        "f, line 6",
        "f, line 7: op-node has no flag --l1.trustrp; did you mean --l",
    ),
    (
        "op-node",
        f"{OP_NODE} --rpc.port=99999",
        'invalid value "99999" for rpc.port (f, line 6): expected a whole number',
    ),
    ("op-node", f"{OP_NODE} --l2.engine-sync --syncmode=execution-layer", "f, line 6: op-node refuses l2.engine-sync"),
    ("op-node", f"{OP_NODE} --metrics.enabled true --syncmode=x", 'f, line 7: op-node reads no flag from "true" on: '),
    ("op-node", f"{OP_NODE} --conductor.enabled", "f, line 6: sequencer must be enabled when conductor is enabled"),
    ("op-node", f"{OP_NODE} --network=op-foo", 'f, line 6: invalid network: "op-foo"; rollup-node networks lists them'),
    ("op-node", REST, "op-node requires network or rollup.config: give the file that sets it too"),
    ("op-node", ONE, "op-node requires l1: ", "op-node requires l2: ", "op-node requires l2.jwt-secret: "),
    ("kona-node", f"{KONA} --workers=1", "f, line 6: kona-node has no flag --workers"),
    ("kona-node", f"{KONA} --l2.timeout=1s", "f, line 6: kona-node refuses the value '1s' of l2.timeout"),
    ("kona-node", f"{KONA} --mode=both", "f, line 6: kona-node has no mode 'both'"),
    ("kona-node", f"{KONA} --chain=none", "f, line 6: the chain id is wanted in place of 'none'"),
    ("kona-node", f"{KONA} --rpc.enable-admin=1", "f, line 6: kona-node refuses the value '1' of rpc.enable-admin"),
    ("kona-node", f"{KONA} --port=x", 'invalid value "x" for rpc.port (f, line 6)'),
    ("kona-node", "node", "kona-node requires l1: ", "kona-node requires l1.beacon: ", "kona-node requires l2: "),
    ("op-supernode:5", f"{SUPERNODE} {CHAINS}", 'op-supernode runs no chain "5"'),
    ("op-supernode:901", "--chains=901,901", "f, line 1: op-supernode refuses chain 901 twice"),
    ("op-supernode:abc", "--chains=abc", "f, line 1: op-supernode refuses the chain id 'abc'"),
    (
        OP,
        f"{SUPERNODE} {CHAINS} {ALL} --vn.9.l2=x",
        "f, line 12: op-supernode has no flag --vn.9.l2; did you mean --vn.",
    ),
    (UNICHAIN, SUPERNODE, *(f"op-supernode requires {name}" for name in ("l2", "l2.jwt-secret", "network or rollup."))),
]


@pytest.mark.parametrize("row", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_has_its_line(row: tuple[str, ...]) -> None:
    program, words, *lines = row
    result = errors(program, words)
    assert len(result) >= len(lines), result
    assert [line for line, start in zip(result, lines, strict=False) if not line.startswith(start)] == []


def test_a_variable_that_op_node_refuses() -> None:
    (line,) = errors("op-node", OP_NODE, OP_NODE_L1_TRUST_RPC="maybe")
    assert line == "e, line 1: op-node refuses the value 'maybe' of l1.trustrpc: it takes true or false"


WORDS = [
    ("--workers=3", False),
    ("--l1.trustrpc=tRuE", False),
    ("--l1.trustrpc=T", True),
    ("--l1.trustrpc", True),
    ("--l1.cache-size=0x10", True),
    ("--l1.cache-size=1_0", True),
    ("--l1.cache-size=-1", False),
    ("--l1.cache-size=abc", False),
    ("--l1.http-poll-interval=5", False),
    ("--l1.http-poll-interval=1h30m", True),
    ("--l1.http-poll-interval", False),
    ("--l1.rpc-rate-limit=1e1", True),
    ("--l1.rpc-rate-limit=x", False),
    ("--l1.rpc-max-batch-size=0", False),
    ("--l1.rpckind=STANDARD", False),
    ("--l2.enginekind=foo", False),
    ("--syncmode=foo", False),
    ("--log.level=3", False),
    ("--log.level=DBUG", True),
    ("--log.format=jsonms", True),
    ("--log.format=json-pretty", False),
    ("--network=op-foo", False),
    ("--override.foo=3", False),
    ("--p2p.netrestrict=foo", False),
    ("--p2p.ban.duration=1h30m", True),
    ("-rpc.port 0", True),
    ("--rpc.port abc", False),
    ("--l1.beacon=", False),
]
"""Words beside OP_NODE, and whether op-node starts with them."""


@pytest.mark.parametrize(("words", "starts"), WORDS)
def test_it_refuses_what_op_node_refuses(words: str, starts: bool) -> None:
    if starts:
        assert converted("op-node", f"{OP_NODE} {words}")
    else:
        assert errors("op-node", f"{OP_NODE} {words}")


@pytest.mark.parametrize(("words", "starts"), WORDS)
def test_op_node_itself_says_the_same(words: str, starts: bool, tmp_path: Path) -> None:
    (tmp_path / "jwt.hex").write_text("11" * 32)
    restricted = "netrestrict" in words
    quiet = "--p2p.no-discovery --rpc.port=0" if restricted else "--p2p.disable --rpc.addr=127.0.0.1"
    command = [find_program("op-node"), *OP_NODE.split(), *quiet.split(), *words.split()]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as node:
        assert node.stdout is not None
        began = False
        for line in node.stdout:
            if "Initializing rollup node" in line:
                began = True
                node.send_signal(signal.SIGKILL)
    assert began == starts


def _help(program: str) -> str:
    return subprocess.run([find_program(program), "--help"], capture_output=True, text=True, timeout=20).stdout


def test_the_flags_are_those_of_op_node() -> None:
    flags = {word.strip(",").removeprefix("--") for word in _help("op-node").split() if word.startswith("--")}
    assert flags - {"help", "version"} <= set(op_node.NAMES)
    shown = {name for name, option in OPTIONS.items() if name in op_node.NAMES and not option.hidden}
    # Older or later versions than the one of June 2026 have these.
    others = (
        "interop.",
        "rollup.",
        "snapshotlog.",
        "l2.follow.source.",
        "override.keep",
        "p2p.timeout",
        "p2p.",
        "ignore",
    )
    assert [name for name in shown - flags if not name.startswith(others)] == []


def test_the_flags_of_op_supernode_are_those_of_the_program() -> None:
    """Those of its help's first column; an older one takes the dependency set from its chains alone."""
    flags = set(re.findall(r"^ +--([\w.-]+)", _help("op-supernode"), re.MULTILINE))
    own = {flag for flag in flags if not flag.startswith(("vn.", "l1", "log.", "metrics.", "pprof.", "rpc."))}
    assert own - {"help", "version"} | {"dependency-set"} == {*op_supernode.ALONE, *op_supernode.RENAMED}


def test_every_row_of_kona_node_names_an_option_of_ours_or_says_why_not() -> None:
    special = {"mode", "chain l2-chain-id c", *("v" * count for count in range(1, 10))}
    assert [row for row in kona_node.ROWS if row.ours and row.ours not in FLAGS] == []
    assert {row.flags for row in kona_node.ROWS if not row.ours and not row.why} == special
    assert len(kona_node.FLAGS) == sum(len(row.flags.split()) for row in kona_node.ROWS), "no flag is there twice"


# --- a file for a supernode ------------------------------------------------------------------------------------------


def test_all_chains_become_a_file_of_a_supernode(tmp_path: Path) -> None:
    more = "--vn.all.safedb.path=/x --vn.1301.p2p.netrestrict=10.0.0.0/8 --vn.1301.p2p.netrestrict=11.0.0.0/8"
    result, lines = op_supernode.convert_all(source(f"{SUPERNODE} {CHAINS} {ALL} {more} --disable-p2p"), hide=False)
    file = tmp_path / "supernode.toml"
    file.write_text("\n".join(lines))
    options = read_supernode_options([f"--config={file}"], {})
    assert options.errors == () and list(options.chains) == ["11155420", "1301"]
    assert options.own["data-dir"] == "/d/" and options.own["disable-p2p"]
    assert [values["l1.cache-size"] for values in options.chains.values()] == [900, 900], "as op-supernode shares them"
    assert options.chains["1301"]["p2p.netrestrict"] == ("10.0.0.0/8", "11.0.0.0/8")
    assert [values["l2"] for values in options.chains.values()] == [C, A]
    assert any("vn.all.safedb.path is ignored" in note and "f, line 12" in note for note in result.notes)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            "--vn.902.l2=http://a",
            ("f, line 9: op-supernode has no flag --vn.902.l2", "requires l2.jwt-secret for chain 1"),
        ),
        ("--vn.1301.syncmode=foo", ("f, line 9: invalid value",)),
        ("--vn.1301.l1.trustrpc=maybe", ("f, line 9: op-node refuses the value 'maybe'", "requires l2.jwt-secret for")),
    ],
)
def test_what_is_wrong_in_it_has_its_line(words: str, lines: tuple[str, ...]) -> None:
    with pytest.raises(WrongOptions) as raised:
        op_supernode.convert_all(source(f"{SUPERNODE} {CHAINS} {words}"), hide=False)
    assert all(start in line for start, line in zip(lines, raised.value.lines, strict=False))


# --- the text of a file ----------------------------------------------------------------------------------------------

GIVEN = (
    *("--l1=http://a,wss://b/KEY", "--l1.trustrpc", "--rpc.port=007", "--l1.rpc-rate-limit=1.5", "--log.level=3"),
    *("--p2p.peers.grace=1h", "--rpc.corsdomain=a,b", "--rpc.corsdomain=c", "--signer.endpoint=", "--p2p.ban.peers=f"),
)


def test_a_file_has_the_values_of_the_words(tmp_path: Path) -> None:
    expected = parse_options(GIVEN, {}).values
    file = tmp_path / "node.toml"
    file.write_text("\n".join(toml_lines(NodeOptions({"": expected}), hide=False)))
    values = parse_options([f"--config={file}"], {}).values
    assert {name: values[name] for name in OPTIONS if name != "config"} == {
        name: expected[name] for name in OPTIONS if name != "config"
    }
    assert tomllib.loads(file.read_text())["rpc.corsdomain"] == ["a", "b", "c"]


def test_secrets_are_comments_and_keys_are_hidden() -> None:
    values = parse_options([*GIVEN, "--p2p.sequencer.key=" + 32 * "5a", "--signer.header=a=SECRET"], {}).values
    text = "\n".join(toml_lines(NodeOptions({"": values}), hide=True))
    assert "5a5a" not in text and "SECRET" not in text and "KEY" not in text
    assert '# "p2p.sequencer.key" is a secret, and is not copied from flag --p2p.sequencer.key' in text


def written(text: str) -> str:
    return "\n".join(
        toml_lines(NodeOptions({"": Values({"safedb.path": GivenTexts((text,), "f", False)})}), hide=False)
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_written_as_toml(text: str) -> None:
    assert not text.isprintable() or tomllib.loads(written(text)) == {"safedb.path": text}


def test_a_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(SetupError, match="is not text in UTF-8"):
        written("\udc80")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("https://a/v3/KEY", "https://a/***"),
        ("wss://KEY@b", "wss://***@b"),
        ("https://a?key=KEY", "https://a/***"),
        ("http://[::1", "***"),
        ("enr://a/b", "enr://a/b"),
        ("/a/b.ipc", "/a/b.ipc"),
    ],
)
def test_an_address(text: str, shown: str) -> None:
    assert masked_address(text) == shown
