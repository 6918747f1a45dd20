"""A witness of a local network, whose engine proves the output roots and gives the blocks."""

from pathlib import Path

from rollup_node.tools.witness.manifest import read_manifest
from rollup_node.tools.witness.reader import WitnessReader, derive_witness
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, Program, call


def test_a_witness_of_a_running_network(leftovers: Leftovers, tmp_path: Path) -> None:
    """From genesis, with the roots that the node has; `--execution` is refused by an engine without the method."""
    with Devnet(leftovers, *CALLDATA) as net:
        node = net.node("verifier")
        net.wait(lambda: net.safe_number() >= 6, "safe blocks")
        l1_chain = str(net.root / "l1-chain-config.json")
        chain = ("--rollup.config", str(net.root / "rollup.json"), "--rollup.l1-chain-config", l1_chain)
        endpoints = ("--l1", net.network["l1"], "--l1.beacon", net.network["beacon"], "--l2", node["engine"])
        words = ("witness", *chain, *endpoints, "--from-l2", "0", "--to-l2", "5")
        with Program(leftovers, "rollup_node", *words, "--out", str(tmp_path / "made")) as program:
            done = program.wait_for_exit()
        assert done.code == 0, done.err
        with Program(leftovers, "rollup_node", *words, "--execution", "--out", str(tmp_path / "no")) as program:
            refused = program.wait_for_exit()
        assert refused.code == 1 and "the L2 source does not serve debug_executePayload" in refused.err
        outputs = [call(node["rpc"], "optimism_outputAtBlock", hex(number)) for number in range(6)]
        net.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    manifest = read_manifest(tmp_path / "made")
    assert (manifest.agreed, manifest.claimed) == (outputs[0]["outputRoot"], outputs[5]["outputRoot"])
    assert manifest.safe_head.hash == outputs[0]["blockRef"]["hash"] and not manifest.executes
    done_blocks = list(derive_witness(WitnessReader(tmp_path / "made")))
    assert [item.values["hash"] for item in done_blocks] == [item["blockRef"]["hash"] for item in outputs[1:]]
