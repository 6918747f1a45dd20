"""Local networks with programs of others: op-node as one more verifier, op-batcher in place of the network's batcher,
op-geth as the verifier's engine."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.leftovers import Leftovers
from tests.support.loopback import free_port
from tests.support.op_programs import ForeignProgram, find_program
from tests.support.programs import CALLDATA, Devnet, Program, call, wait_for

BLOCKS = 3
OUTPUT_FIELDS = ("version", "outputRoot", "blockRef", "withdrawalStorageRoot", "stateRoot")
GETH_STOP_SECONDS = 20.0


@contextmanager
def extra_engine(watch: Leftovers, net: Devnet) -> Iterator[str]:
    """The authenticated URL of an embedded engine with the network's genesis, which no node of the network drives."""
    about = net.network
    words = ("--genesis", about["l2_genesis"], "--jwt", about["jwt"], "--http", "0", "--auth", "0")
    with Program(watch, "rollup_node.tools.devnet.engine", *words) as engine:
        yield engine.wait_for_line("  auth ").rpartition("  auth ")[2]
        engine.stop()


def op_node_options(net: Devnet, engine: str, port: int) -> list[str]:
    """The command line of op-node as a verifier without P2P, on the network's L1 and an engine of its own."""
    about = net.network
    options = {
        "l1": about["l1"],
        "l1.beacon": about["beacon"],
        "l1.http-poll-interval": "500ms",
        "l1.epoch-poll-interval": "2s",
        "l2": engine,
        "l2.jwt-secret": about["jwt"],
        "rollup.config": about["rollup"],
        "rollup.l1-chain-config": str(net.root / "l1-chain-config.json"),
        "rpc.addr": "127.0.0.1",
        "rpc.port": str(port),
        "p2p.disable": "true",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def our_node(watch: Leftovers) -> str:
    """A program that takes op-node's command line and runs our node."""
    path = watch.folder / "op-node"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m rollup_node.node "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("program", ["op-node", "rollup-node"])
def test_a_verifier_by_the_command_line_of_op_node_derives_the_same_chain(leftovers: Leftovers, program: str) -> None:
    binary = find_program(program) if program == "op-node" else our_node(leftovers)
    with Devnet(leftovers, *CALLDATA) as net, extra_engine(leftovers, net) as engine:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with ForeignProgram(leftovers, binary, *op_node_options(net, engine, port)) as op_node:

            def safe_number() -> int:
                assert op_node.running, op_node.out + op_node.err
                return int(call(url, "optimism_syncStatus")["safe_l2"]["number"])

            net.wait(lambda: safe_number() >= BLOCKS, f"op-node's safe head is {BLOCKS}")
            theirs = call(url, "optimism_syncStatus")["safe_l2"]
            net.wait_for_safe(theirs["number"])
            for number in range(theirs["number"] + 1):
                outputs = [
                    call(each, "optimism_outputAtBlock", hex(number)) for each in (url, net.node("verifier")["rpc"])
                ]
                first, second = ([output[field] for field in OUTPUT_FIELDS] for output in outputs)
                assert first == second, number
            assert outputs[1]["blockRef"] == theirs, "the safe heads at this number are equal"
            op_node.stop()
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
            "rpc.addr": "127.0.0.1",
            "rpc.port": str(free_port()),
        }
        words = (f"--{name}={value}" for name, value in options.items())
        with ForeignProgram(leftovers, binary, *words) as batcher:

            def is_safe() -> bool:
                assert batcher.running, batcher.out + batcher.err
                return net.safe_number() >= BLOCKS

            net.wait(is_safe, f"the verifier's safe head is {BLOCKS}")
            batcher.stop()
        net.finish()


def test_op_geth_as_engine_of_a_verifier(leftovers: Leftovers) -> None:
    binary = find_program("op-geth")
    net_folder, data = leftovers.folder / "net", str(leftovers.folder / "geth")
    with Program(leftovers, "rollup_node.node", "devnet", "--prepare", "--data-dir", str(net_folder)) as prepare:
        prepare.wait_for_exit().lines()
    genesis = str(net_folder / "l2-genesis.json")
    with ForeignProgram(leftovers, binary, "init", "--state.scheme=hash", "--datadir", data, genesis) as init:
        ended = init.wait_for_exit()
        assert ended.code == 0, ended
    http, auth = free_port(), free_port()
    words = ["--datadir", data, "--syncmode", "full", "--gcmode", "archive", "--ipcdisable"]
    words += ["--port", "0", "--nat", "none", "--netrestrict", "127.0.0.0/8", "--maxpeers", "0", "--nodiscover"]
    words += ["--http", "--http.addr", "127.0.0.1", "--http.port", str(http), "--http.api", "eth,debug,net,web3,miner"]
    words += ["--authrpc.addr", "127.0.0.1", "--authrpc.port", str(auth)]
    words += ["--authrpc.jwtsecret", str(net_folder / "jwt.txt")]
    url, auth_url = f"http://127.0.0.1:{http}", f"http://127.0.0.1:{auth}"
    with ForeignProgram(leftovers, binary, *words) as geth:
        wait_for(lambda: call(url, "eth_chainId"), "op-geth answers")
        expected = json.loads((net_folder / "l2-genesis.json").read_text())["timestamp"]
        assert call(url, "eth_getBlockByNumber", "0x0", False)["timestamp"] == expected
        with Devnet(leftovers, "--verifier-engine", f"{url},{auth_url}", *CALLDATA) as net:
            net.wait_for_safe(BLOCKS)
            safe = net.safe_number()
            ours = call(net.node("sequencer")["engine"], "eth_getBlockByNumber", hex(safe), False)
            theirs = call(url, "eth_getBlockByNumber", hex(safe), False)
            assert theirs["hash"] == ours["hash"], safe
            net.finish()
        assert geth.running, geth.err
        geth.stop(GETH_STOP_SECONDS)
