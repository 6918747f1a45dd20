"""Local networks with programs of others: op-node as the sequencer while all forks activate and as one more verifier,
kona-node as one more verifier, op-batcher in place of the network's batcher, op-proposer."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rollup_node.stages.protocol import secp256k1
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Address
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.tools.devnet.files import L2_CHAIN_ID, RECEIVER_KEY, NetworkFiles
from rollup_node.tools.devnet.games import FACTORY
from rollup_node.tools.watch.games import SUPER_TYPES
from rollup_node.tools.watch.l1_reader import GameData, game_data
from tests.support.foreign.op_programs import ForeignProgram, find_program, op_node_options, words
from tests.support.processes.extra_node import ExtraEngine
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, Program, RpcError, assert_same_outputs, call, wait_for
from tests.support.servers.certificates import certificate
from tests.support.servers.loopback import free_port, own_address

BLOCKS = 3
FORKS = FORK_NAMES[2:]
FORK_SECONDS = 2
HANDOVER = 5
"""The first block that op-node may build: several forks are behind, and several ahead."""


def sequencer_options(net: Devnet, folder: Path) -> dict[str, str]:
    """Return what op-node needs besides to sequence: the network's signing key, and the network's nodes as its only
    peers. Without bootnodes of its own it would ask for the public ones."""
    files = NetworkFiles(net.root)
    key = secp256k1.public_key(bytes.fromhex(files.peer_key("sequencer").read_text().strip()), compressed=False)
    address = net.node("sequencer")["p2p"]
    return {
        "sequencer.enabled": "true",
        "sequencer.stopped": "true",
        "sequencer.l1-confs": "0",
        "rpc.enable-admin": "true",
        "p2p.disable": "false",
        "p2p.sequencer.key": files.signer_key.read_text().strip(),
        "p2p.listen.ip": own_address(),
        "p2p.listen.tcp": str(free_port()),
        "p2p.no-discovery": "true",
        "p2p.bootnodes": f"enode://{key[1:].hex()}@127.0.0.1:{address.split('/')[4]}",
        "p2p.netrestrict": "127.0.0.0/8",
        "p2p.static": ",".join(net.node(name)["p2p"] for name in net.nodes),
        "p2p.priv.path": str(folder / "p2p-key.txt"),
        "p2p.peerstore.path": "memory",
        "p2p.discovery.path": "memory",
    }


def our_node(watch: Leftovers) -> str:
    """Return a program that takes op-node's command line and runs our node."""
    path = watch.folder / "op-node"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m rollup_node "$@"\n')
    path.chmod(0o755)
    return str(path)


class OpNode(NamedTuple):
    """A program with op-node's command line, and the seconds after genesis at which forks activate in its network."""

    program: str
    forks: Mapping[str, int]


@pytest.fixture(scope="module", params=["op-node", "rollup-node"])
def foreign(request: pytest.FixtureRequest, module_leftovers: Leftovers) -> OpNode:
    """op-node, or our node by its command line.

    An op-node before v1.19.6 keeps the gas of upgrade transactions in the blocks after the fork [ATT30]: its network
    has the forks before the first bundle."""
    if request.param == "rollup-node":
        program, forks = our_node(module_leftovers), FORKS
    else:
        program = find_program("op-node")
        forks = FORKS if is_current(program) else FORKS[: FORKS.index("karst")]
    return OpNode(program, {fork: place * FORK_SECONDS for place, fork in enumerate(forks, 1)})


def is_current(program: str) -> bool:
    """Whether it is op-node of v1.19.6 or later; a build from sources does not say its version."""
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    version = re.search(r"version v(\d+)\.(\d+)\.(\d+)", shown)
    return version is not None and tuple(map(int, version.groups())) >= (1, 19, 6)


@pytest.fixture(scope="module")
def net(foreign: OpNode, module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network for the nodes of one program, in which forks activate.

    It ends with equal output roots. Another chain in the dependency set adds transactions to Lagoon's activation
    block [UPG18]."""
    schedule = [f"--fork={fork}={offset}" for fork, offset in foreign.forks.items()]
    with Devnet(module_leftovers, *CALLDATA, *schedule, "--dependency-set=902") as running:
        yield running
        running.finish()


def test_a_sequencer_by_the_command_line_of_op_node_takes_over(
    module_leftovers: Leftovers, net: Devnet, foreign: OpNode
) -> None:
    """While forks activate; our nodes get its blocks by gossip, and derive the same ones."""
    for name in net.nodes:
        # op-node dials a static peer that does not listen yet again only after a minute.
        net.wait(partial(net.sync_status, name), f"the {name} answers")
    with ExtraEngine(module_leftovers, net) as engine:
        port = free_port()
        url, ours = f"http://{own_address()}:{port}", net.node("sequencer")["rpc"]
        options = op_node_options(net, engine.auth, port) | sequencer_options(net, module_leftovers.folder)
        with ForeignProgram(module_leftovers, foreign.program, *words(options)) as op_node:

            def unsafe() -> dict[str, Any]:
                assert op_node.running, op_node.out + op_node.err
                head: dict[str, Any] = call(url, "optimism_syncStatus")["unsafe_l2"]
                return head

            net.wait(lambda: unsafe()["number"] >= HANDOVER - 1, "op-node follows our sequencer")
            last = call(ours, "admin_stopSequencer")
            net.wait(lambda: unsafe()["hash"] == last, "op-node has our sequencer's last block")
            handed_over = unsafe()["number"]
            call(url, "admin_startSequencer", last)
            end = max(handed_over, *foreign.forks.values()) + BLOCKS

            def has_unsafe_blocks(name: str) -> bool:
                status = net.sync_status(name)
                return bool(status["unsafe_l2"]["number"] >= max(handed_over, status["safe_l2"]["number"]) + 1)

            for name in net.nodes:
                net.wait(partial(has_unsafe_blocks, name), f"the {name} has blocks of op-node by gossip")
            net.wait_for_safe(end)
            call(url, "admin_stopSequencer")
            net.wait(lambda: call(url, "optimism_syncStatus")["safe_l2"]["number"] >= end, "op-node's safe blocks")
            assert_same_outputs(url, net.node("verifier")["rpc"], end)
            op_node.stop()


def test_the_network_crosses_every_fork(net: Devnet, foreign: OpNode) -> None:
    """Each block in which a fork activates has all its upgrade transactions, which succeed."""
    for name in net.nodes:
        net.wait_for_safe(max(foreign.forks.values()) + BLOCKS, name)
    engine = net.node("verifier")["engine"]
    config = parse_rollup_config((net.root / "rollup.json").read_bytes()).config
    start = config.genesis.l2_time
    assert config.fork_times == {"regolith": 0} | {fork: start + offset for fork, offset in foreign.forks.items()}
    for offset in foreign.forks.values():
        receipts = call(engine, "eth_getBlockReceipts", hex(offset))
        bundles = [
            activation.bundle for activation in config.schedule().activations(start + offset) if activation.bundle
        ]
        assert len(receipts) > sum(len(load_bundle(name).transactions) for name in bundles)
        assert {receipt["status"] for receipt in receipts} == {"0x1"}


@pytest.mark.parametrize("foreign", ["op-node"], indirect=True)
def test_a_verifier_by_the_command_line_of_op_node_derives_the_same_chain(
    module_leftovers: Leftovers, net: Devnet, foreign: OpNode
) -> None:
    """While our sequencer, which another may have taken over from, makes more. Ours does so when it takes over."""
    sequencer = net.node("sequencer")["rpc"]
    if not call(sequencer, "admin_sequencerActive"):
        call(sequencer, "admin_startSequencer", net.sync_status("sequencer")["unsafe_l2"]["hash"])
    net.wait_for_safe(BLOCKS)
    with ExtraEngine(module_leftovers, net) as engine:
        port = free_port()
        url = f"http://{own_address()}:{port}"
        with ForeignProgram(
            module_leftovers, foreign.program, *words(op_node_options(net, engine.auth, port))
        ) as op_node:

            def safe_number() -> int:
                assert op_node.running, op_node.out + op_node.err
                return int(call(url, "optimism_syncStatus")["safe_l2"]["number"])

            last = net.safe_number() + BLOCKS
            net.wait(lambda: safe_number() >= last, f"op-node's safe head is {last}")
            theirs = call(url, "optimism_syncStatus")["safe_l2"]
            net.wait_for_safe(theirs["number"])
            compared = assert_same_outputs(url, net.node("verifier")["rpc"], theirs["number"])
            assert compared == theirs, "the safe heads at this number are equal"
            op_node.stop()


def test_kona_node_derives_the_same_chain(leftovers: Leftovers) -> None:
    """It crosses Lagoon with two chains in the dependency set [UPG18], with its own copy of the bundle.

    It begins with a block that it gets by gossip from its only peer, our sequencer, and with its engine's sync. Its
    discovery, which nothing turns off, knows no bootnodes of a chain that is not in the registry."""
    binary = find_program("kona-node")
    forks = {"jovian": 2, "karst": 4, "lagoon": 8}
    schedule = [f"--fork={fork}={offset}" for fork, offset in forks.items()]
    with Devnet(leftovers, *CALLDATA, *schedule, "--dependency-set=902") as net:
        net.wait_for_first_safe()
        about, sequencer = net.network, net.node("sequencer")
        rpc, tcp, udp = free_port(), free_port(), free_port()
        url = f"http://{own_address()}:{rpc}"
        with ExtraEngine(leftovers, net, "--el-sync-from", sequencer["engine"]) as engine:
            options = {
                "chain": str(L2_CHAIN_ID),
                "l2-config-file": about["rollup"],
                "l1-config-file": str(net.root / "l1-chain-config.json"),
                "interop.dependency-set": str(net.root / "dependency-set.json"),
                "l1-eth-rpc": about["l1"],
                "l1-beacon": about["beacon"],
                "l2-engine-rpc": engine.auth,
                "l2-engine-jwt-secret": about["jwt"],
                "rpc.addr": own_address(),
                "port": str(rpc),
                "p2p.listen.ip": own_address(),
                "p2p.advertise.ip": own_address(),
                "p2p.listen.tcp": str(tcp),
                "p2p.listen.udp": str(udp),
                "p2p.priv.raw": "0x" + "11" * 32,
            }
            # Without any authority it ends at its start; the tests' own environment has none.
            authority, _ = certificate("authority").write(leftovers.folder, "authority")
            words_of_node = ("node", *words(options), "--p2p.no-bootstore")
            with ForeignProgram(leftovers, binary, *words_of_node, SSL_CERT_FILE=authority) as kona:

                def safe_number() -> int:
                    assert kona.running, kona.out + kona.err
                    # It says that the peer is not connected, and then connects.
                    with suppress(RpcError):
                        call(url, "opp2p_connectPeer", sequencer["p2p"])
                    return int(call(url, "optimism_syncStatus")["safe_l2"]["number"])

                last = max(net.safe_number(), forks["lagoon"]) + BLOCKS
                net.wait(lambda: safe_number() >= last, f"kona's safe head is {last}")
                assert_same_outputs(url, net.node("verifier")["rpc"], last)
        net.finish()


def test_op_batcher_in_place_of_our_batcher(leftovers: Leftovers) -> None:
    binary = find_program("op-batcher")
    with Devnet(leftovers, "--no-batcher", *CALLDATA) as net:
        net.wait(lambda: net.sync_status("sequencer")["unsafe_l2"]["number"] >= 2, "unsafe blocks")
        assert net.safe_number() == 0
        about, sequencer = net.network, net.node("sequencer")
        options = {
            "l1-eth-rpc": about["l1"],
            "l2-eth-rpc": sequencer["engine"],
            "rollup-rpc": sequencer["rpc"],
            "private-key": (net.root / "batcher-key.txt").read_text().strip(),
            "data-availability-type": "calldata",
            "max-channel-duration": "2",
            "poll-interval": "1s",
            "rpc.addr": own_address(),
            "rpc.port": str(free_port()),
        }
        with ForeignProgram(leftovers, binary, *words(options)) as batcher:

            def is_safe() -> bool:
                assert batcher.running, batcher.out + batcher.err
                return net.safe_number() >= BLOCKS

            net.wait(is_safe, f"the verifier's safe head is {BLOCKS}")
            batcher.stop()
        net.finish()


@pytest.mark.parametrize(("source", "game_type"), [("rollup-rpc", 1), ("superroot-rpcs", 4)])
def test_op_proposer_proposes_our_roots(source: str, game_type: int, leftovers: Leftovers) -> None:
    """Outputs, or super roots, to the factory of the local L1; `watch` agrees with every claim."""
    binary = find_program("op-proposer")
    if f"--{source}" not in subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout:
        pytest.skip(f"this op-proposer has no --{source}")
    with Devnet(leftovers, *CALLDATA) as net:
        net.wait_for_first_safe()
        l1, ours = net.network["l1"], net.node("verifier")["rpc"]
        options = {
            "l1-eth-rpc": l1,
            source: ours,
            "game-factory-address": to_hex(FACTORY),
            "game-type": str(game_type),
            "proposal-interval": "2s",
            "poll-interval": "1s",
            "allow-non-finalized": "true",
            "num-confirmations": "1",
            "private-key": RECEIVER_KEY.secret.hex(),
            "rpc.addr": own_address(),
            "rpc.port": str(free_port()),
        }
        with ForeignProgram(leftovers, binary, *words(options)) as proposer:

            def proposed() -> list[GameData]:
                assert proposer.running, proposer.out + proposer.err
                return proposals(l1, FACTORY)

            net.wait(lambda: len(proposed()) >= BLOCKS, f"{BLOCKS} proposals")
            proposer.stop()
        for game in proposals(l1, FACTORY):
            assert game.game_type == game_type and game.l2_sequence_number > 0
            assert to_hex(game.root_claim) == our_root(ours, game)
        flags = ("--l1", l1, "--rpc", ours, "--games", to_hex(FACTORY), "--interval", "500ms", "--json")
        with Program(leftovers, "rollup_node", "watch", *flags) as watch:
            wait_for(lambda: len(watch.out.splitlines()) >= len(proposals(l1, FACTORY)), "all claims are judged")
            verdicts = [json.loads(line)["verdict"] for line in watch.out.splitlines()]
            assert set(verdicts) == {"agree"}, watch.out
            watch.stop()
        net.finish()


def our_root(node: str, game: GameData) -> str:
    """Return the root that our node has where a game claims one."""
    number = hex(game.l2_sequence_number)
    if game.game_type in SUPER_TYPES:
        return str(call(node, "superroot_atTimestamp", number)["data"]["super_root"])
    return str(call(node, "optimism_outputAtBlock", number)["outputRoot"])


def proposals(url: str, factory: Address) -> list[GameData]:
    """Return the games of all calls of create(uint32 gameType, bytes32 rootClaim, bytes extraData) on L1."""
    result = []
    for number in range(int(call(url, "eth_blockNumber"), 16) + 1):
        for transaction in call(url, "eth_getBlockByNumber", hex(number), True)["transactions"]:
            if transaction["to"] == to_hex(factory):
                result.append(game_data("0x" + transaction["input"][10:]))
    return result
