"""`watch` and `witness` beside the nodes of a local network whose L1 they have proven: a wrong claim is reported, and
the engine proves output roots and gives the blocks."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.payloads import super_preimage
from rollup_node.tools.devnet.files import L2_CHAIN_ID
from rollup_node.tools.devnet.games import ANCHOR, FACTORY, set_anchor_call
from rollup_node.tools.witness.manifest import read_manifest
from rollup_node.tools.witness.reader import WitnessReader, derive_witness
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, Program, call, http_get, wait_for
from tests.support.processes.sent_transactions import claim, send_to_l1


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network whose nodes believe of L1 what its sync committees have signed."""
    with Devnet(module_leftovers, "--checkpoint", *CALLDATA) as result:
        l2 = result.node("verifier")["rpc"]
        result.wait(lambda: call(l2, "optimism_syncStatus")["safe_l2"]["number"] > 8, "safe blocks")
        yield result
        result.finish()


def _root(net: Devnet, number: int) -> bytes:
    return from_hex(call(net.node("verifier")["rpc"], "optimism_outputAtBlock", hex(number))["outputRoot"])


def _words(net: Devnet, *more: str) -> tuple[str, ...]:
    about = net.network
    flags = ("--l1", about["l1"], "--rpc", net.node("verifier")["rpc"], "--games", about["games"])
    return ("watch", *flags, "--anchor", about["anchor"], "--json", "--interval", "200ms", *more)


def _records(program: Program) -> list[dict[str, Any]]:
    return [json.loads(line) for line in program.out.splitlines()]


def test_a_wrong_claim_is_reported(net: Devnet, leftovers: Leftovers) -> None:
    """And a right one is agreed with; both are proven, as the anchor is compared."""
    assert net.network["games"] == to_hex(FACTORY) and net.network["anchor"] == to_hex(ANCHOR)
    right, wrong = _root(net, 5), bytes(32 * [7])
    claim(net.network["l1"], right, 5)
    send_to_l1(net.network["l1"], ANCHOR, set_anchor_call(_root(net, 4), 4))
    with Program(leftovers, "rollup_node", *_words(net, "--metrics", "--metrics.port", "0")) as program:
        program.wait_for_line("agree: the anchor", on_stderr=True)
        (port,) = re.findall(r"games.json at http://[\d.]+:(\d+)/", program.err)
        wait_for(lambda: len(_records(program)) == 1, "the game from before the start")
        (first,) = _records(program)
        assert (first["verdict"], first["l2SequenceNumber"], first["rootClaim"]) == ("agree", 5, to_hex(right))
        assert first["proven"], program.err
        claim(net.network["l1"], wrong, 6)
        wait_for(lambda: len(_records(program)) == 2, "the wrong claim is reported")
        second = _records(program)[-1]
        assert (second["verdict"], second["agreeWithClaim"], second["proven"]) == ("disagree", False, True)
        assert second["expectedRootClaim"] == to_hex(_root(net, 6))
        _, metrics = http_get(f"http://127.0.0.1:{port}/metrics")
        assert 'rollup_node_watch_games{verdict="disagree"} 1.0' in metrics
        assert "rollup_node_watch_l1_proven 1.0" in metrics
        _, page = http_get(f"http://127.0.0.1:{port}/")
        assert second["proxy"] in page and "1 agree, 1 disagree, 0 not yet" in page
        _, games = http_get(f"http://127.0.0.1:{port}/games.json")
        assert [item["verdict"] for item in json.loads(games)] == ["disagree", "agree"]
        program.stop()
    assert "L1 is proven: by the node's checkpoint" in program.err


def test_a_watch_goes_on_after_its_node_was_away(net: Devnet, leftovers: Leftovers) -> None:
    """The node's rpc process is killed, and restarted at once: the claim made then is judged."""
    with Program(leftovers, "rollup_node", *_words(net)) as program:
        program.wait_for_line("comparing the games", on_stderr=True)
        before = wait_for(lambda: _records(program), "the games so far")
        os.kill(net.process_entry("verifier", "rpc")["pid"], signal.SIGKILL)
        claim(net.network["l1"], b"\x09" * 32, 7, 8)
        wait_for(lambda: _records(program)[-1]["rootClaim"] == "0x" + "09" * 32, "the claim is judged")
        assert _records(program)[-1]["verdict"] == "disagree" and len(before) >= 1
        program.stop()


def test_a_claim_of_a_super_root_is_compared_with_ours(net: Devnet, leftovers: Leftovers) -> None:
    """As op-proposer makes it, with the preimage as extra data [WAT2, WAT6]; a wrong one has that of a wrong output."""
    l1, node = net.network["l1"], net.node("verifier")["rpc"]
    output = call(node, "optimism_outputAtBlock", "0x6")
    time = output["blockRef"]["timestamp"]
    root = call(node, "superroot_atTimestamp", hex(time))["data"]["super_root"]
    right, wrong = (super_preimage(time, [(L2_CHAIN_ID, of)]) for of in (from_hex(output["outputRoot"]), bytes(32)))
    assert to_hex(keccak256(right)) == root
    for preimage in (right, wrong):
        claim(l1, keccak256(preimage), preimage, 4)
    with Program(leftovers, "rollup_node", *_words(net)) as program:

        def judged() -> list[str]:
            return [item["verdict"] for item in _records(program) if item["gameType"] == 4 and item["proven"]]

        assert wait_for(lambda: len(judged()) == 2 and judged(), "both are judged") == ["agree", "disagree"]
        program.stop()


def test_a_witness_of_a_running_network(net: Devnet, leftovers: Leftovers, tmp_path: Path) -> None:
    """From genesis, of two ranges, with the roots that the node has; `--execution` is refused by an engine without the
    method."""
    node = net.node("verifier")
    l1_chain = str(net.root / "l1-chain-config.json")
    chain = ("--rollup.config", str(net.root / "rollup.json"), "--rollup.l1-chain-config", l1_chain)
    endpoints = ("--l1", net.network["l1"], "--l1.beacon", net.network["beacon"], "--l2", node["engine"])
    words = ("witness", *chain, *endpoints, "--from-l2", "0", "--to-l2", "5")
    with Program(leftovers, "rollup_node", *words, "--range-size", "3", "--out", str(tmp_path / "made")) as program:
        done = program.wait_for_exit()
    assert done.code == 0, done.err
    with Program(leftovers, "rollup_node", *words, "--execution", "--out", str(tmp_path / "no")) as program:
        refused = program.wait_for_exit()
    assert refused.code == 1 and "the L2 source does not serve debug_executePayload" in refused.err
    outputs = [call(node["rpc"], "optimism_outputAtBlock", hex(number)) for number in range(6)]
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    manifest = read_manifest(tmp_path / "made")
    assert (manifest.agreed, manifest.claimed) == (outputs[0]["outputRoot"], outputs[5]["outputRoot"])
    assert manifest.safe_head.hash == outputs[0]["blockRef"]["hash"] and not manifest.executes
    done_blocks = list(derive_witness(WitnessReader(tmp_path / "made")))
    assert [item.values["hash"] for item in done_blocks] == [item["blockRef"]["hash"] for item in outputs[1:]]
