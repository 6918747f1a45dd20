"""Which options a running node takes over [LIF35]."""

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.reloading import RELOADED, changed_options, is_reloaded, with_reloaded
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values

TAKEN_OVER = {name for name, option in OPTIONS.items() if is_reloaded(option)}


def values_of(*words: str) -> Values:
    return parse_options(words, {}).values


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
    old = values_of("--l1=http://a", "--override.karst=0", "--log.level=info")
    assert changed_options(old, old) == []
    assert changed_options(old, values_of("--l1=http://a", "--log.level=info")) == ["override.karst"]
    assert changed_options(old, values_of("--l1=http://b", "--override.karst=0")) == ["l1", "log.level"]


def test_the_others_stay_as_they_are() -> None:
    old = values_of("--l1=http://a", "--rpc.port=1", "--l1.rpckind=any")
    mixed = with_reloaded(old, values_of("--l1=http://b", "--rpc.port=2", "--log.level=debug"))
    assert (mixed["l1"], mixed["rpc.port"], mixed["log.level"].label) == (("http://b",), 1, "debug")
    assert not mixed.given("l1.rpckind") and mixed.source("rpc.port") == "flag --rpc.port"
