"""`rollup-node devnet` crosses all forks in one run."""

from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call

OFFSETS = {
    "canyon": 2,
    "delta": 4,
    "ecotone": 8,
    "fjord": 10,
    "granite": 12,
    "holocene": 14,
    "isthmus": 16,
    "jovian": 18,
    "karst": 20,
    "lagoon": 22,
}
LAST = 25
SUCCESS = "0x1"


def test_the_network_crosses_every_fork(leftovers: Leftovers) -> None:
    words = [word for fork, offset in OFFSETS.items() for word in ("--fork", f"{fork}={offset}")]
    with Devnet(leftovers, *words, *CALLDATA) as net:
        for name in net.nodes:
            net.wait_for_safe(LAST, name, seconds=50)
        engine = net.node("verifier")["engine"]
        config = parse_rollup_config((net.root / "rollup.json").read_bytes()).config
        start = config.genesis.l2_time
        assert config.fork_times == {"regolith": 0} | {fork: start + offset for fork, offset in OFFSETS.items()}
        for offset in OFFSETS.values():
            receipts = call(engine, "eth_getBlockReceipts", hex(offset))
            bundles = [each.bundle for each in config.schedule().activations(start + offset) if each.bundle]
            assert len(receipts) > sum(len(load_bundle(name).transactions) for name in bundles)
            assert {receipt["status"] for receipt in receipts} == {SUCCESS}
        result = net.finish()
    assert result["safe"] >= LAST
