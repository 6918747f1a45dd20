"""Our nodes behind op-supernode: a verifier that follows it, loses it and finds it again, and a sequencer that follows
it and takes over [FSR1 to FSR11]."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.stages.protocol.payloads import super_preimage
from rollup_node.tools.devnet.files import NetworkFiles
from tests.support.foreign.op_programs import ForeignProgram, find_program
from tests.support.processes.extra_node import ExtraEngine, ExtraNode
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import (
    CALLDATA,
    Devnet,
    Program,
    RpcError,
    assert_same_outputs,
    call,
    unready_reasons,
    wait_for,
)
from tests.support.processes.sent_transactions import claim
from tests.support.servers.loopback import free_port, own_address

CHAIN = 901
HEADS = ("local_safe_l2", "safe_l2", "finalized_l2")
BLOCKS = 3


class Supernode:
    """op-supernode with our network's chain on an embedded engine. It can be killed and started again on its files."""

    def __init__(self, watch: Leftovers, net: Devnet) -> None:
        self._watch, self._program = watch, find_program("op-supernode")
        self.engine = ExtraEngine(watch, net)
        about, port = net.network, free_port()
        options = {
            "chains": CHAIN,
            "l1": about["l1"],
            "l1.beacon": about["beacon"],
            "l1.http-poll-interval": "500ms",
            "data-dir": watch.folder / "supernode",
            "disable-p2p": "true",
            "rpc.addr": own_address(),
            "rpc.port": port,
            f"vn.{CHAIN}.l1.epoch-poll-interval": "2s",
            f"vn.{CHAIN}.l2": self.engine.auth,
            f"vn.{CHAIN}.l2.jwt-secret": about["jwt"],
            f"vn.{CHAIN}.rollup.config": about["rollup"],
            f"vn.{CHAIN}.rollup.l1-chain-config": net.root / "l1-chain-config.json",
        }
        self._words = [f"--{name}={value}" for name, value in options.items()]
        self.url = f"http://{own_address()}:{port}/{CHAIN}/"
        self.program = self.start()

    def start(self) -> ForeignProgram:
        """Start it."""
        self.program = ForeignProgram(self._watch, self._program, *self._words)
        return self.program

    def status(self) -> dict[str, Any]:
        """`optimism_syncStatus` of the chain, once its node has started in it."""

        def told() -> dict[str, Any]:
            assert self.program.running, self.program.out[-3000:] + self.program.err[-3000:]
            try:
                result: dict[str, Any] = call(self.url, "optimism_syncStatus")
            except RpcError:
                return {}
            return result

        return wait_for(told, "op-supernode has started the chain's node")

    def stop(self) -> None:
        """Stop it with its engine."""
        self.program.kill()
        self.engine.kill()


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    find_program("op-supernode")
    with Devnet(module_leftovers, *CALLDATA) as running:
        running.wait_for_first_safe()
        yield running
        running.finish()


@pytest.fixture(scope="module")
def supernode(net: Devnet, module_leftovers: Leftovers) -> Iterator[Supernode]:
    result = Supernode(module_leftovers, net)
    try:
        net.wait(lambda: result.status()["safe_l2"]["number"] >= 1, "op-supernode derives")
        yield result
    finally:
        result.stop()


def follower(watch: Leftovers, net: Devnet, name: str, source: str, **options: object) -> ExtraNode:
    """Return a node that follows a source, with the network's nodes as its peers."""
    peers = ",".join(net.node(name)["p2p"] for name in net.nodes)
    engine = ("--el-sync-from", net.node("sequencer")["engine"])
    return ExtraNode(watch, net, peers, {"l2.follow.source": source, **options}, name, engine)


def test_a_verifier_follows_a_supernode_that_is_killed_and_comes_back(
    net: Devnet, supernode: Supernode, module_leftovers: Leftovers
) -> None:
    node = follower(module_leftovers, net, "light", supernode.url)
    try:

        def follows() -> bool:
            theirs, ours = supernode.status(), call(node.url, "optimism_syncStatus")
            return all(ours[name] == theirs[name] and ours[name]["number"] > 0 for name in HEADS)

        node.wait(follows, "it follows")
        node.wait_until_ready()
        before = {name: node.head(name) for name in ("unsafe_l2", *HEADS)}
        supernode.program.kill()
        node.wait_for_head(before["unsafe_l2"] + BLOCKS + 1)
        assert any("FOLLOW-UNREACHABLE" in unready_reason for unready_reason in unready_reasons(node.url))
        supernode.start()
        node.wait_for_head(before["safe_l2"] + 1, "safe_l2")
        assert all(node.head(name) >= before[name] for name in HEADS)
        node.wait_until_ready()
        last = node.head("safe_l2")
        net.wait_for_safe(last)
        assert_same_outputs(node.url, net.node("verifier")["rpc"], last)
        assert "a bug ends" not in node.program.out
    finally:
        node.stop()


def test_a_sequencer_follows_a_supernode(net: Devnet, supernode: Supernode, module_leftovers: Leftovers) -> None:
    """What it builds becomes safe by what op-supernode derives."""
    options = {
        "sequencer.enabled": "true",
        "sequencer.stopped": "true",
        "sequencer.l1-confs": 1,
        "rpc.enable-admin": "true",
        "p2p.sequencer.key": NetworkFiles(net.root).signer_key.read_text().strip(),
    }
    sequencer = net.node("sequencer")["rpc"]
    node = follower(module_leftovers, net, "sequencing", supernode.url, **options)
    try:
        node.wait_for_head(1, "safe_l2")
        last = call(sequencer, "admin_stopSequencer")
        node.wait(lambda: call(node.url, "optimism_syncStatus")["unsafe_l2"]["hash"] == last, "the last block")
        end = node.head() + BLOCKS
        call(node.url, "admin_startSequencer", last)
        node.wait_for_head(end, "safe_l2")
        assert supernode.status()["safe_l2"]["number"] >= end
        net.wait(lambda: net.sync_status("verifier")["unsafe_l2"]["number"] >= end, "its blocks by gossip")
        last = call(node.url, "admin_stopSequencer")
        net.wait(
            lambda: net.sync_status("sequencer")["unsafe_l2"]["hash"] == last, "the network's sequencer has it all"
        )
        call(sequencer, "admin_startSequencer", last)
        assert "a bug ends" not in node.program.out and "died" not in node.program.out
    finally:
        node.stop()


def test_a_watch_compares_games_with_super_roots(
    net: Devnet, supernode: Supernode, module_leftovers: Leftovers
) -> None:
    """[WAT6] The claims have the super root's preimage, as op-proposer's have, or its time alone."""
    l1, root_url = net.network["l1"], supernode.url.removesuffix(f"/{CHAIN}/")
    head = wait_for(lambda: supernode.status()["safe_l2"], "a safe head")
    answer = call(root_url, "superroot_atTimestamp", hex(head["timestamp"]))
    chains = [(int(chain["ChainID"]), from_hex(chain["Output"])) for chain in answer["data"]["super"]["chains"]]
    preimage = super_preimage(head["timestamp"], chains)
    claim(l1, from_hex(answer["data"]["super_root"]), preimage, 4)
    claim(l1, b"\x07" * 32, head["timestamp"], 5)
    flags = ("--l1", l1, "--rpc", root_url, "--games", net.network["games"], "--interval", "500ms", "--json")
    with Program(module_leftovers, "rollup_node", "watch", *flags) as watch:
        wait_for(lambda: len(watch.out.splitlines()) >= 2, f"both are judged: {watch.err}")
        games = [json.loads(line) for line in watch.out.splitlines()]
        assert [(game["gameType"], game["verdict"]) for game in games] == [(4, "agree"), (5, "disagree")]
        watch.stop()
