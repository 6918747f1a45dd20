"""A network crosses Lagoon with a bundle that is not the package's, and with others in its dependency set: nodes with
another bundle wait before the activation block, and go on with the right one [UPG18, UPG22 to UPG26]."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from tests.support.processes.chains import CHAINS, Chains
from tests.support.processes.extra_node import ExtraNode, assert_same_chain
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call, http_get

FORKS = ("--fork", "jovian=2", "--fork", "karst=4", "--fork", "lagoon=8")
ACTIVATION = 8
LATER = 20
"""A second at which a supernode has had the sequencers' blocks for a while."""
DEPTH = 3
"""Blocks of an L1 reorg: fewer than make a block final."""
OURS, THEIRS, *_ = BUNDLE_FORKS["lagoon"].carried
FILE = Path(upgrades.__file__).parent / "forks" / THEIRS.file


def reason(net: Devnet, url: str, *words: str) -> str:
    """Return the reason of `/readyz` that has these words, once it is there."""

    def found() -> str:
        reasons = json.loads(http_get(url + "/readyz")[1]).get("reasons", ())
        return next((reason for reason in reasons if all(word in reason for word in words)), "")

    return net.wait(found, f"a reason with {words}")


def node_with_unsafe_blocks(leftovers: Leftovers, net: Devnet) -> ExtraNode:
    """Return a node whose engine has the sequencer's blocks beyond the fork before it derives the first one."""
    options = {"rollup.bundle-dir": leftovers.folder / "seen", "verifier.l1-confs": 1000}
    own = ExtraNode(leftovers, net, net.node("sequencer")["p2p"], options)
    try:
        net.wait(lambda: own.head() > ACTIVATION, "blocks of the sequencer")
        assert own.head("safe_l2") == 0
    except BaseException:
        own.stop()
        raise
    own.kill()
    own.start({"verifier.l1-confs": 0})
    return own


@pytest.mark.condition("C13")
def test_nodes_with_another_bundle_wait_and_go_on_with_the_right_one(leftovers: Leftovers) -> None:
    """The verifier chooses by itself; a node without that option is started again with the file that it wrote. While
    it waits L1 changes, and processes die."""
    words = (*FORKS, *CALLDATA, "--dependency-set", "902", "--lagoon-bundle", f"sequencer={FILE}")
    with Devnet(leftovers, *words, "--lagoon-bundle", "verifier=auto") as net:
        own = node_with_unsafe_blocks(leftovers, net)
        alone = ExtraNode(leftovers, net, "", {"p2p.disable": "true"}, "alone")
        try:
            result = reason(net, own.url, "BUNDLE-DIFFERS", "later batch on L1")
            activates = rf"before block {ACTIVATION}:0x\w+, .* lagoon .* {OURS.sha256[:8]}.*: transaction 4"
            assert re.search(activates, result)
            head = own.head()
            assert own.head("safe_l2") == ACTIVATION - 1 < head, "the engine keeps the sequencer's blocks"
            net.wait(lambda: own.head() > head, "gossip goes on")
            seen = leftovers.folder / "seen" / f"lagoon_bundle_{THEIRS.sha256[:8]}.json"
            assert hashlib.sha256(seen.read_bytes()).hexdigest() == THEIRS.sha256
            # The verifier has chosen it meanwhile, and its safe head is beyond.
            net.wait_for_safe(ACTIVATION + 2)
            assert "BUNDLE-CHOSEN" in net.log("verifier") and "a new start is asked for" in net.log("verifier")
            # Without the sequencer's blocks the wrong one is built, and no batch fits it.
            reason(net, alone.url, "BUNDLE-UNCONFIRMED", "batches after the activation of lagoon")
            depth = int(call(net.network["l1"], "eth_blockNumber"), 16) - own.head("current_l1") + 1
            if depth <= DEPTH:
                # The L1 block with the batch is replaced, and derivation reads none that would show it.
                call(net.network["l1"], "dev_reorg", DEPTH)
                net.wait(lambda: "derivation requests a reset" in own.program.out, "the reorg is noticed")
            for role in ("derivation", "engine", "l1"):
                reason(net, own.url, "BUNDLE-DIFFERS")
                own.kill_process(role)
            reason(net, own.url, "BUNDLE-DIFFERS", "later batch on L1")
            net.wait(
                lambda: own.head("safe_l2") == ACTIVATION - 1 < own.head(), "what was derived again after the kills"
            )
            own.kill()
            own.start({"rollup.lagoon-bundle": seen})
            own.wait_for_head(ACTIVATION + 4, "safe_l2")
            assert_same_chain(net, own, ACTIVATION + 4)
            block = call(net.node("verifier")["engine"], "eth_getBlockByNumber", hex(ACTIVATION), True)
            expected = (upgrades.SET_FEATURE, *upgrades.carried_bundle("lagoon", THEIRS).transactions, upgrades.FUND)
            hashes = [to_hex(keccak256(item)) for item in expected]  # behind user deposits, if the epoch begins there
            assert [item["hash"] for item in block["transactions"]][-len(hashes) :] == hashes
            receipts = call(net.node("verifier")["engine"], "eth_getBlockReceipts", hex(ACTIVATION))
            assert {receipt["status"] for receipt in receipts[-len(hashes) :]} == {"0x1"}
        finally:
            own.stop()
            alone.stop()
        net.finish()


def test_a_node_that_has_built_a_wrong_block_goes_on_with_the_right_bundle(leftovers: Leftovers) -> None:
    """It has no peers. Batches have several blocks, so that none names the block at the fork as its parent."""
    words = (*FORKS, *CALLDATA, "--l1-block-time=3", "--lagoon-bundle", str(FILE))
    with Devnet(leftovers, *words) as net:
        alone = ExtraNode(leftovers, net, "", {"p2p.disable": "true", "rollup.bundle-dir": leftovers.folder / "seen"})
        try:
            reason(net, alone.url, "BUNDLE-UNCONFIRMED", "batches after the activation of lagoon")
            alone.kill()
            alone.start({"rollup.lagoon-bundle": FILE})
            alone.wait_for_head(ACTIVATION + 6, "safe_l2")
            assert "do not build on block 8" in alone.program.out
            net.wait_for_safe(ACTIVATION + 6)
            assert_same_chain(net, alone, ACTIVATION + 6)
        finally:
            alone.stop()
        net.finish()


def test_a_supernode_takes_the_bundle_of_its_chains(leftovers: Leftovers) -> None:
    """Each chain waits and chooses for itself, into its own folder; messages go on [SNO4, UPG26]."""
    forks = ("--fork=jovian=2", "--fork=karst=4", f"--fork=lagoon={LATER}")
    content = FILE.read_bytes()
    with Chains(
        leftovers,
        *("--chains=2", "--p2p", "--interop=4", *forks, *CALLDATA),
        OP_NODE_ROLLUP_LAGOON_BUNDLE=str(FILE),
        OP_SUPERNODE_VN_ALL_ROLLUP_LAGOON_BUNDLE="auto",
    ) as net:
        net.wait_for_height(LATER + 3)
        log = net.log("supernode")
        for chain in CHAINS:
            assert f"code=BUNDLE-DIFFERS chain={chain} " in log and f"code=BUNDLE-CHOSEN chain={chain} " in log
            assert (net.root / "supernode-data" / str(chain) / "lagoon_bundle_auto.json").read_bytes() == content
        assert "a bug ends" not in log and "Traceback" not in log, net.logs(60)
        net.finish()
