"""op-node's options become ours, and what op-node itself refuses is refused."""

import signal
import subprocess
from pathlib import Path

import pytest

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.options.table import OPTIONS
from rollup_node.tools.convert.conversion import toml_lines
from rollup_node.tools.convert.op_node import NAMES, convert
from rollup_node.tools.convert.sources import Source, Word
from tests.support.foreign.op_programs import find_program

NEEDED = ("--network=op-sepolia", "--l1=http://127.0.0.1:1", "--l2=http://127.0.0.1:1", "--l2.jwt-secret=jwt.hex")
NODE = (*NEEDED, "--l1.beacon=http://127.0.0.1:1")
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
"""Words beside NODE, and whether op-node starts with them."""


def source(*words: str, **variables: str) -> Source:
    return Source(
        tuple(Word(word, f"f, line {number}") for number, word in enumerate(words, 1)),
        {name: Word(text, f"e, line {number}") for number, (name, text) in enumerate(variables.items(), 1)},
        None,
    )


def converted(*words: str, **variables: str) -> dict[str, str]:
    lines = toml_lines(convert(source(*words, **variables)).options(), hide=False)
    return dict(line.replace('"', "", 2).split(" = ", 1) for line in lines if not line.startswith("#"))


def errors(*words: str, **variables: str) -> tuple[str, ...]:
    with pytest.raises(WrongOptions) as error:
        convert(source(*words, **variables)).options()
    return error.value.lines


def test_flags_override_variables_and_lists_grow() -> None:
    result = converted(
        *(*NODE, "--rpc.port=1", "--rpc.port=2", "--p2p.netrestrict=10.0.0.0/8", "--p2p.netrestrict=11.0.0.0/8"),
        OP_NODE_RPC_PORT="3",
        OP_NODE_METRICS_PORT="4",
        OP_NODE_P2P_NETRESTRICT="12.0.0.0/8",
    )
    assert (result["rpc.port"], result["metrics.port"]) == ("2", "4")
    assert result["p2p.netrestrict"] == '["10.0.0.0/8", "11.0.0.0/8"]'


def test_what_differs_is_written_and_noted() -> None:
    words = (*NODE, "--safedb.path=/d/", "--l2.engine-sync", "--log.format=jsonms", "--heartbeat.enabled")
    conversion = convert(source(*words, OP_NODE_NONSENSE="1"))
    result = converted(*words)
    assert result["safedb.path"] == '"/d.sqlite"' and result["syncmode"] == '"execution-layer"'
    assert result["log.format"] == '"json"' and result["p2p.priv.path"] == '"opnode_p2p_priv.txt"'
    assert not {"l2.engine-sync", "heartbeat.enabled"} & set(result)
    notes = "\n".join(conversion.notes)
    assert "f, line 9: heartbeat.enabled is left out: it has no effect" in notes
    assert "e, line 1: OP_NODE_NONSENSE is left out: op-node does not read it" in notes
    assert "f, line 6: safedb.path is /d.sqlite in place of /d/: the database" in notes


def test_what_is_wrong_has_its_line() -> None:
    assert errors(*NODE, "--workers=3", "--l1.trustrp") == (
        "f, line 6: op-node has no flag --workers",
        "f, line 7: op-node has no flag --l1.trustrp; did you mean --l1.trustrpc?",
    )
    assert errors(*NODE, "--rpc.port=99999") == (
        'invalid value "99999" for rpc.port (f, line 6): expected a whole number from 0 to 65535',
    )
    (line,) = errors(*NODE, "--l2.engine-sync", "--syncmode=execution-layer")
    assert line == "f, line 6: op-node refuses l2.engine-sync beside syncmode"
    (line,) = errors(*NODE, OP_NODE_L1_TRUST_RPC="maybe")
    assert line == "e, line 1: op-node refuses the value 'maybe' of l1.trustrpc: it takes true or false"
    assert errors(*NODE[1:]) == ("op-node requires network or rollup.config: give the file that sets it too",)
    assert errors(NODE[0]) == (
        *(f"op-node requires {name}: give the file that sets it too" for name in ("l1", "l2", "l2.jwt-secret")),
    )


def test_a_boolean_in_a_word_of_its_own_hides_what_follows() -> None:
    (line,) = errors(*NODE, "--metrics.enabled", "true", "--syncmode=foo")
    assert line == 'f, line 7: op-node reads no flag from "true" on: booleans are --name=true'


def test_a_combination_that_is_refused_names_its_lines() -> None:
    (line,) = errors(*NODE, "--conductor.enabled")
    assert line.startswith("f, line 6: sequencer must be enabled when conductor is enabled")


def test_files_of_another_machine_are_not_read() -> None:
    result = converted(*NODE[1:], "--rollup.config=/nowhere/rollup.json")
    assert result["rollup.config"] == '"/nowhere/rollup.json"'


@pytest.mark.parametrize(("words", "starts"), WORDS)
def test_it_refuses_what_op_node_refuses(words: str, starts: bool) -> None:
    if starts:
        assert converted(*NODE, *words.split())
    else:
        assert errors(*NODE, *words.split())


def test_the_flags_are_those_of_op_node() -> None:
    text = subprocess.run([find_program("op-node"), "--help"], capture_output=True, text=True, timeout=20).stdout
    flags = {word.strip(",").removeprefix("--") for word in text.split() if word.startswith("--")}
    assert flags - {"help", "version"} <= set(NAMES)
    shown = {name for name, option in OPTIONS.items() if name in NAMES and not option.hidden}
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


@pytest.mark.parametrize(("words", "starts"), WORDS)
def test_op_node_itself_says_the_same(words: str, starts: bool, tmp_path: Path) -> None:
    (tmp_path / "jwt.hex").write_text("11" * 32)
    quiet = (
        ("--p2p.disable", "--rpc.addr=127.0.0.1")
        if "netrestrict" not in words
        else ("--p2p.no-discovery", "--rpc.port=0")
    )
    command = [find_program("op-node"), *NODE, *quiet, *words.split()]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as node:
        assert node.stdout is not None
        began = False
        for line in node.stdout:
            if "Initializing rollup node" in line:
                began = True
                node.send_signal(signal.SIGKILL)
    assert began == starts
