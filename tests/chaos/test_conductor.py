"""A sequencing node as a program with a conductor: it is the conductor that starts it, also after its engine process
was killed, and no block is in the chain that the conductor does not have [CND5 to CND8]."""

import os
import signal

import pytest

from tests.support.chains.local_chain import LocalChain
from tests.support.engine.fake_conductor import FakeConductor
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import (
    RpcError,
    call,
    process_entries,
    reports_problem,
    unready_reasons,
    wait_for,
)
from tests.support.servers.tcp_relay import LOOPBACK
from tests.support.servers.threads import in_thread


class ConductedChain:
    """The chain of an engine and what the conductor has of it."""

    def __init__(self, chain: LocalChain, conductor: FakeConductor) -> None:
        self._url, self._conductor = chain.public, conductor

    def hashes(self) -> list[str]:
        """Return the hashes of the blocks above genesis."""
        top = int(call(self._url, "eth_blockNumber"), 16)
        return [call(self._url, "eth_getBlockByNumber", hex(number), False)["hash"] for number in range(1, top + 1)]

    def check(self) -> None:
        """Every block was committed."""
        hashes = set(self.hashes())
        assert hashes <= {"0x" + payload.block_hash.hex() for payload in self._conductor.committed}


def starts(rpc: str) -> bool:
    """Whether the node starts the sequencer at its unsafe head; an engine process that is new does not know it yet."""
    head = call(rpc, "optimism_syncStatus")["unsafe_l2"]["hash"]
    if int(head, 16) == 0:
        return False
    try:
        return call(rpc, "admin_startSequencer", head) is None
    except RpcError as error:
        if "no prestate" not in error.message:
            raise
        return False


def start_sequencer(rpc: str, blocks: ConductedChain) -> None:
    """What the conductor does with a leader that does not sequence."""
    wait_for(lambda: call(rpc, "admin_sequencerActive") is False, "the sequencer is stopped")
    wait_for(lambda: not unready_reasons(rpc), "the node is ready", every=0.2)
    length = len(blocks.hashes())
    wait_for(lambda: starts(rpc), "the heads are known and the sequencer is started")
    wait_for(lambda: len(blocks.hashes()) >= length + 2, "two blocks", every=0.2)
    blocks.check()


@pytest.mark.fault("F52")
@pytest.mark.condition("C10")
def test_only_the_conductor_starts_the_sequencer_again_after_a_kill(leftovers: Leftovers) -> None:
    directory = leftovers.folder / "run"
    with LocalChain(leftovers) as chain, in_thread(FakeConductor().serving()) as conductor:
        blocks = ConductedChain(chain, conductor)
        options = {"conductor_enabled": "true", "conductor_rpc": conductor.url, "sequencer_enabled": "true"}
        options |= {"sequencer_l1__confs": "0", "rpc_enable__admin": "true", "runtime_dir": str(directory)}
        with chain.node(**options) as node:
            rpc = f"http://{LOOPBACK}:{node.port()}"
            assert call(rpc, "admin_conductorEnabled") is True
            start_sequencer(rpc, blocks)
            killed = process_entries(directory)["engine"]
            os.kill(killed["pid"], signal.SIGKILL)
            wait_for(lambda: process_entries(directory).get("engine", killed) != killed, "another engine process")
            start_sequencer(rpc, blocks)
            conductor.is_leader = False
            wait_for(lambda: reports_problem(rpc, "engine", "failed to commit unsafe payload"), "the refused commit")
            assert call(rpc, "admin_stopSequencer") == blocks.hashes()[-1]
            assert call(rpc, "admin_sequencerActive") is False
            blocks.check()
            assert node.stop().code == 0
