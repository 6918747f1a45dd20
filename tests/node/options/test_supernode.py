"""Options of a supernode: its own, those of all chains and of one [SNO1 to SNO4]."""

from pathlib import Path

import pytest

from rollup_node.node.options.credentials import FOLDER
from rollup_node.node.options.supernode import SUPERNODE, help_text, read_supernode_options
from rollup_node.node.options.values import NodeOptions

BASE = ("--chains=10,130", "--l1=http://a")


def read(*words: str, **environ: str) -> NodeOptions:
    return read_supernode_options((*BASE, *words), environ)


def errors(*words: str, **environ: str) -> tuple[str, ...]:
    return read(*words, **environ).errors


def test_the_value_of_a_chain_wins() -> None:
    """[SNO2] Over that of all chains, wherever both are given; flags win over variables."""
    variables = {"OP_SUPERNODE_VN_130_L2_ENGINE_RPC": "http://variable", "OP_SUPERNODE_VN_ALL_P2P_DISABLE": "true"}
    options = read("--vn.all.l2", "http://all", "--vn.10.l2=http://ten", "--vn.all.p2p.no-discovery", **variables)
    assert not options.errors and not options.warnings
    ten, other = options.chains["10"], options.chains["130"]
    assert (ten["l2"], other["l2"]) == ("http://ten", "http://variable")
    assert other.source("l2") == "variable OP_SUPERNODE_VN_130_L2_ENGINE_RPC (--vn.130.l2)"
    assert ten["p2p.no-discovery"] and ten["p2p.disable"] and other["p2p.disable"]
    assert ten["l1"] == other["l1"] == ("http://a",)
    assert options.own["rpc.port"] == 8545 and options.own["data-dir"] == "./datadir"


def test_lists_of_a_chain_replace_those_of_all() -> None:
    options = read("--vn.all.p2p.static=/ip4/1", "--vn.10.p2p.static=/ip4/2,/ip4/3", "--vn.10.p2p.static=/ip4/4")
    assert options.chains["10"]["p2p.static"] == ("/ip4/2", "/ip4/3", "/ip4/4")
    assert options.chains["130"]["p2p.static"] == ("/ip4/1",)


def test_a_file_has_tables_for_all_chains_and_for_each(tmp_path: Path) -> None:
    """[SNO1] It has the lowest precedence."""
    path = tmp_path / "options.toml"
    path.write_text(
        'chains = [10, 130]\nl1.value = "http://file"\nrpc.port = 9000\n'
        '[vn.all]\nl2 = "http://all"\n[vn.130]\nl2 = "http://one"\np2p.listen.tcp = 9223\n'
    )
    options = read_supernode_options((f"--config={path}", "--vn.10.l2=http://flag", "--rpc.port=1"), {})
    assert not options.errors
    assert [options.chains[chain]["l2"] for chain in ("10", "130")] == ["http://flag", "http://one"]
    assert options.chains["130"]["p2p.listen.tcp"] == 9223 and options.own["rpc.port"] == 1
    assert options.chains["10"]["l1"] == ("http://file",)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--l2=http://x",), "flag --l2 is an option of a chain: give --vn.all.l2 or --vn.CHAIN.l2"),
        (("--vn.5.l2=http://x",), "flag --vn.5.l2: chain 5 is not one of --chains=10,130"),
        (("--vn.ab.l2=1",), "flag --vn.ab: expected vn.all or vn.CHAIN with a decimal chain id"),
        (("--vn.010.l2=1",), "flag --vn.010: expected vn.all or vn.CHAIN with a decimal chain id"),
        (("--vn..l2=1",), "flag --vn.: expected vn.all or vn.CHAIN with a decimal chain id"),
        (("--vn.10.l3=1",), "unknown flag --vn.10.l3"),
        (("--chain=1",), "unknown flag --chain; did you mean --chains?"),
        (("--chains=10,x",), 'invalid value "x" for flag --chains: expected decimal chain ids with commas between'),
        (("--chains=10",), "flag --chains has chain 10 twice"),
        (("--vn.10.l2",), "flag --vn.10.l2 needs a value: expected an address such as http://127.0.0.1:8545"),
        (("--vn.10.workers=x", "--rpc.port=x"), 'invalid value "x" for flag --rpc.port: expected'),
        (
            ("--vn.all.p2p.listen.tcp=9222",),
            "flag --vn.all.p2p.listen.tcp: two chains cannot listen on one port; give --vn.CHAIN.p2p.listen.tcp to one",
        ),
        (
            ("--vn.10.l2.follow.source=http://x",),
            "flag --vn.10.l2.follow.source is not for a chain of a supernode: it is derived here",
        ),
        (("--vn.10.l2=--",), 'invalid value "--" for flag --vn.10.l2'),
        (("word",), 'unexpected argument "word": options start with --'),
        (("--config=/nowhere",), "--config /nowhere: no such file or directory"),
    ],
)
def test_each_wrong_option_is_one_line(words: tuple[str, ...], expected: str) -> None:
    result = errors(*words)
    assert result[0].startswith(expected), result
    assert all("\n" not in line for line in result)


def test_all_that_is_wrong_is_told_at_once() -> None:
    lines = errors("--vn.10.l3=1", "--vn.5.l2=x", "--vn.130.rpc.addr", "x", "--l2=1", OP_SUPERNODE_RPC_PORT="x")
    assert len(lines) == 4
    assert read_supernode_options((), {}).errors == (
        "flag chains is required: give the ids of the chains with commas between",
    )


def test_what_the_supernode_owns_is_ignored_for_a_chain() -> None:
    """[SNO2] With a warning, as op-supernode does."""
    options = read("--vn.10.l1.http-poll-interval=3s", "--vn.all.safedb.path=/x", OP_SUPERNODE_VN_10_FOO="1")
    unknown, *owned = options.warnings
    assert unknown.startswith("unknown variable OP_SUPERNODE_VN_10_FOO is ignored")
    assert owned == [
        f"flag --vn.{name} is ignored: it belongs to the supernode, not to a chain"
        for name in ("10.l1.http-poll-interval", "all.safedb.path")
    ]
    assert options.chains["10"]["l1.http-poll-interval"] == 12.0 and options.chains["10"]["safedb.path"] is None


def test_the_help_names_every_option() -> None:
    text = help_text()
    assert all(f"--{option.name} " in text and option.variable in text for option in SUPERNODE.options)
    assert max(map(len, text.splitlines())) <= 90


def test_credentials_name_the_chain(tmp_path: Path) -> None:
    """[OPT87] A variable wins, and the file of options loses."""
    (tmp_path / "options.toml").write_text(f'[vn.all]\np2p.sequencer.key = "{"33" * 32}"\n[l1]\nrpckind = "alchemy"')
    folder = tmp_path / "folder"
    folder.mkdir()
    files = {
        "vn.all.p2p.sequencer.key": "11" * 32,
        "vn.10.l2.jwt-secret": "any",
        "vn.130.p2p.sequencer.key": f"0x{'22' * 32}\n",
        "l1": "http://b/key",
        "vn.130.p2p.priv.rwa": "x",
        "vn.ab.p2p.priv.raw": "11" * 32,
        "rpc.port": "7",
        "tls.crt": "x",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    base = ("--chains=10,130", f"--config={tmp_path}/options.toml")
    options = read_supernode_options(base, {FOLDER: str(folder), "OP_SUPERNODE_RPC_PORT": "8"})
    assert options.errors == (
        f"credential vn.ab.p2p.priv.raw in {folder}: expected vn.all or vn.CHAIN with a decimal chain id",
    )
    assert options.warnings == (
        "credential vn.130.p2p.priv.rwa is no option and is ignored; did you mean vn.130.p2p.priv.raw?",
    )
    ten, other = options.chains["10"], options.chains["130"]
    assert ten["p2p.sequencer.key"] == b"\x11" * 32 and other["p2p.sequencer.key"] == b"\x22" * 32
    assert ten["l2.jwt-secret"] == f"{folder}/vn.10.l2.jwt-secret" and not other.given("l2.jwt-secret")
    assert ten["l1"] == ("http://b/key",) and ten["l1.rpckind"] == "alchemy" and options.own["rpc.port"] == 8
    assert other.source("p2p.sequencer.key") == f"credential vn.130.p2p.sequencer.key in {folder}"
