"""Which options a running node takes over [LIF35]."""

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.reloading import RELOADED, Change, changes, is_reloaded, with_reloaded
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import NodeOptions

TAKEN_OVER = {name for name, option in OPTIONS.items() if is_reloaded(option)}


def options_of(*words: str) -> NodeOptions:
    return NodeOptions({"": parse_options(words, {}).values})


def changed(old: NodeOptions, new: NodeOptions) -> list[str]:
    return [change.name for change in changes(old, new)]


def test_only_options_that_exist_are_taken_over() -> None:
    assert set(OPTIONS) >= RELOADED
    assert {"l1", "l1.beacon", "log.level", "p2p.static", "signer.tls.ca", "verifier.l1-confs"} <= TAKEN_OVER


def test_neither_chain_nor_ports_nor_files_of_a_node_are_taken_over() -> None:
    kept = (
        "l2",
        "network",
        "rollup.",
        "override.",
        "syncmode",
        "safedb",
        "workers",
        "runtime.dir",
        "p2p.priv",
        "config",
    )
    assert not [name for name in TAKEN_OVER if name.startswith(kept) and not name.startswith("l2.")]
    assert not [name for name in TAKEN_OVER if name.endswith((".port", ".addr", ".enabled", ".tcp", ".udp"))] or {
        name for name in TAKEN_OVER if name.endswith(".enabled")
    } == {"signer.tls.enabled"}


def test_an_option_differs_by_its_value_and_by_being_given() -> None:
    old = options_of("--l1=http://a", "--override.karst=0", "--log.level=info")
    assert changed(old, old) == []
    assert changed(old, options_of("--l1=http://a", "--log.level=info")) == ["override.karst"]
    assert changed(old, options_of("--l1=http://b", "--override.karst=0")) == ["l1", "log.level"]


def test_the_others_stay_as_they_are() -> None:
    old = options_of("--l1=http://a", "--rpc.port=1", "--l1.rpckind=any")
    mixed = with_reloaded(old, options_of("--l1=http://b", "--rpc.port=2", "--log.level=debug")).chains[""]
    assert (mixed["l1"], mixed["rpc.port"], mixed["log.level"].label) == (("http://b",), 1, "debug")
    assert not mixed.given("l1.rpckind") and mixed.source("rpc.port") == "flag --rpc.port"


def test_options_of_chains_are_named_with_the_chain() -> None:
    """Those that chains share once, and the supernode's own by their names."""
    base = ("--l1=http://a", "--vn.all.l2=http://x")
    old = read_supernode_options((*base, "--chains=10,130", "--vn.130.p2p.ban.duration=1s"), {})
    words = (
        "--chains=10,130,7",
        "--l1=http://b",
        "--vn.all.l2=http://x",
        "--vn.10.p2p.ban.duration=1s",
        "--rpc.port=1",
    )
    new = read_supernode_options((*words, "--vn.130.safedb.path=x", "--vn.130.l2.enginekind=reth"), {})
    named = [
        *(Change("chains", False), Change("rpc.port", False), Change("l1", True)),
        *(Change("vn.10.p2p.ban.duration", True), Change("vn.130.l2.enginekind", False)),
        Change("vn.130.p2p.ban.duration", True),
    ]
    assert changes(old, new) == named and changes(old, old) == []
    mixed = with_reloaded(old, new)
    assert list(mixed.chains) == ["10", "130"] and mixed.own is old.own
    assert mixed.chains["130"]["l1"] == ("http://b",) and not mixed.chains["130"].given("l2.enginekind")
    less = read_supernode_options((*base, "--chains=10"), {})
    assert changed(old, less) == ["chains"]
    assert with_reloaded(old, less).chains["130"].given("p2p.ban.duration"), (
        "a chain that is gone stays until a restart"
    )
