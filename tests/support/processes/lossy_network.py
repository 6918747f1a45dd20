"""A sequencer and a verifier without a batcher, on an engine that loses its newest blocks with each kill, as op-reth
does: only gossip moves the verifier."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rollup_node.stages.p2p.signer.signed_blocks import BlockFate
from rollup_node.tools.devnet.engine.backend import FILE_NAME, drop_last_blocks
from rollup_node.tools.devnet.files import L2_CHAIN_ID, RECEIVER_KEY, TRANSFER_KEY, write_secrets
from rollup_node.tools.devnet.ports import NodePorts, peer_options, reserved
from rollup_node.tools.devnet.traffic import GWEI
from tests.support.chains.local_chain import LocalChain
from tests.support.foreign.engines import EngineListeners, start_engine
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import EmbeddedEngine, Program, call, process_entries, wait_for
from tests.support.processes.sent_transactions import send
from tests.support.servers.tcp_relay import LOOPBACK

SEQUENCER, VERIFIER = "sequencer", "verifier"


class LossyNetwork:
    """The verifier has the engine of `chain`, the sequencer the embedded one or a foreign one."""

    def __init__(self, leftovers: Leftovers, chain: LocalChain, ports: dict[str, NodePorts], foreign: str) -> None:
        self._leftovers, self._chain, self._ports, self._foreign = leftovers, chain, ports, foreign
        write_secrets(chain.files, (SEQUENCER, VERIFIER))
        self._transfers = 0
        self._engine = self._start_engine()
        self._nodes = {name: self._start_node(name) for name in (SEQUENCER, VERIFIER)}

    def close(self) -> None:
        """End its programs, the nodes in order."""
        for node in self._nodes.values():
            assert node.stop().code == 0, node.err[-3000:]
        self._engine.kill()

    # --- programs ----------------------------------------------------------------------------------------------------

    def _start_engine(self) -> Program:
        files, ports = self._chain.files, self._ports[SEQUENCER]
        data, listen = files.engine_data(SEQUENCER), EngineListeners(LOOPBACK, ports.engine, ports.engine_auth)
        if self._foreign:
            return start_engine(self._foreign, self._leftovers, data, files.l2_genesis, files.jwt, listen)
        words = (files.l2_genesis, files.jwt, "--data-dir", str(data))
        return EmbeddedEngine(self._leftovers, *words, ports=(ports.engine, ports.engine_auth))

    def _start_node(self, name: str) -> Program:
        files, ports = self._chain.files, self._ports[name]
        options = peer_options(files, name, ports.p2p, {SEQUENCER: self._ports[SEQUENCER].p2p})
        options |= {"rpc.port": str(ports.rpc), "runtime.dir": str(files.node(name))}
        if name == SEQUENCER:
            options |= {"l2": f"http://{LOOPBACK}:{ports.engine_auth}", "rpc.enable-admin": "true"}
            options |= {"sequencer.enabled": "true", "sequencer.l1-confs": "0"}
        changes: dict[str, Any] = {flag.replace("-", "__").replace(".", "_"): text for flag, text in options.items()}
        return self._chain.node(**{**changes, "p2p_disable": None})

    def lose(self, count: int, *roles: str) -> None:
        """Kills the sequencer's engine, which loses so many blocks that the verifier has (a foreign one what it loses),
        together with processes of its node, or with the whole `node`; then starts what is not started again by itself,
        and waits until the sequencer says that the blocks are back."""
        entries = process_entries(self._chain.files.node(SEQUENCER))
        pids = [entries[role]["pid"] for role in roles if role != "node"]
        self._engine.process.send_signal(signal.SIGKILL)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if "node" in roles:
            self._nodes[SEQUENCER].kill()
        self._engine.kill()
        if not self._foreign:
            # A block that was not signed yet is not lost by anybody.
            data, signed = self._chain.files.engine_data(SEQUENCER), self.height()
            drop_last_blocks(data, _last_number(data) - signed + count)
        before = 0 if "node" in roles else self._times_back()
        self._engine = self._start_engine()
        if "node" in roles:
            self._nodes[SEQUENCER] = self._start_node(SEQUENCER)
        if not self._foreign:
            wait_for(lambda: self._times_back() > before, "the lost blocks in the sequencer's engine")

    def _times_back(self) -> int:
        return self.log(SEQUENCER).count("the latest blocks are back in the execution engine")

    # --- what is seen ------------------------------------------------------------------------------------------------

    def log(self, name: str) -> str:
        """Return the log of the present program of a node."""
        return self._nodes[name].err + self._nodes[name].out

    def _rpc(self, name: str) -> str:
        return f"http://{LOOPBACK}:{self._ports[name].rpc}"

    def height(self, name: str = VERIFIER) -> int:
        """Return the number of a node's unsafe head."""
        return int(call(self._rpc(name), "optimism_syncStatus")["unsafe_l2"]["number"])

    def transfer(self) -> None:
        """Send a transaction to the sequencer's engine, so that no two blocks of it are the same."""
        url = f"http://{LOOPBACK}:{self._ports[SEQUENCER].engine}"
        self._transfers += 1
        send(url, TRANSFER_KEY, L2_CHAIN_ID, RECEIVER_KEY.address, b"", 21_000, GWEI + self._transfers)

    def advance(self, blocks: int) -> None:
        """Wait until the verifier has so many blocks more, with transactions in them."""
        wanted = wait_for(lambda: self.height() + 1, "a head of the verifier") - 1 + blocks

        def reached() -> bool:
            self.transfer()
            return self.height() >= wanted

        try:
            wait_for(reached, f"block {wanted} of the verifier", every=0.3)
        except AssertionError as error:
            logs = (self.log(name)[-4000:] for name in (SEQUENCER, VERIFIER))
            raise AssertionError("\n---\n".join((str(error), *logs))) from None

    def outputs(self) -> tuple[list[str], list[str]]:
        """Return the output roots of all blocks that both nodes have."""
        last = min(self.height(name) for name in (SEQUENCER, VERIFIER))
        result = [
            [call(self._rpc(name), "optimism_outputAtBlock", hex(number))["outputRoot"] for number in range(last + 1)]
            for name in (SEQUENCER, VERIFIER)
        ]
        return result[0], result[1]

    def signed(self) -> dict[BlockFate, list[int]]:
        """Return the numbers of the blocks that the sequencer has signed and refused, once it has ended."""
        with sqlite3.connect(f"{self._chain.files.peer_database(SEQUENCER)}_signed_blocks") as connection:
            rows = connection.execute("select fate, number from blocks order by number").fetchall()
        connection.close()
        return {fate: [number for item, number in rows if item == fate] for fate in BlockFate}


def _last_number(engine_data: Path) -> int:
    """Return the number of the newest block of an embedded engine that is stopped."""
    entries = [json.loads(line) for line in (engine_data / FILE_NAME).read_text().splitlines()]
    payloads = [entry["executionPayload"] for entry in entries if "executionPayload" in entry]
    return int(payloads[-1]["blockNumber"], 16)


@contextmanager
def lossy_network(leftovers: Leftovers, foreign: str = "") -> Iterator[LossyNetwork]:
    """Yield the network, once both nodes have blocks.

    At its end the nodes have the same outputs, and no block was refused by the signer or signed beside another of
    its height. Skips the test where the foreign engine is not installed."""
    with LocalChain(leftovers) as chain, reserved(0, (SEQUENCER, VERIFIER)) as ports:
        network = LossyNetwork(leftovers, chain, ports.nodes, foreign)
        network.advance(3)
        yield network
        ours, theirs = network.outputs()
        assert ours == theirs
        network.close()
        signed = network.signed()
        assert signed[BlockFate.REFUSED] == []
        assert signed[BlockFate.SIGNED] == list(range(1, len(signed[BlockFate.SIGNED]) + 1))
