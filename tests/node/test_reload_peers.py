"""Options about peers, changed in a sequencing node that runs and finds peers by discovery [LIF35]."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import pytest

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, peer_id_text
from tests.support.chains.local_chain import LocalChain
from tests.support.p2p.discv5_servers import running_discv5
from tests.support.p2p.hosts import RecordingHost, running_host
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import RpcError, call, wait_for
from tests.support.processes.reloaded_node import ReloadedNode
from tests.support.servers.loopback import free_port
from tests.support.servers.threads import in_thread

PEER = peer_id_text(NetworkIdentity(bytes([1]) * 32).peer_id)


class Peers(NamedTuple):
    """The node, and what it says of the one peer, which it dials where it is told to; its score is 0."""

    node: ReloadedNode

    def take_over(self, options: dict[str, object]) -> None:
        """Reload these options, for which the p2p process restarts."""
        result = self.node.take_over(options)
        assert (set(result["changed"]), result["restarted"]) == (set(options), ["p2p"])

    @contextmanager
    def reloaded(self, options: dict[str, object]) -> Iterator[RecordingHost]:
        """Yield the peer, which comes again after the reload: its score is stored when it goes."""
        self.take_over(options)
        with in_thread(running_host(1)) as host:
            self.connect(host)
        wait_for(lambda: not self.is_connected, "the peer is gone")
        with in_thread(running_host(1)) as host:
            self.connect(host)
            yield host

    def call(self, method: str, *params: object) -> Any:
        return call(self.node.rpc, f"opp2p_{method}", *params)

    def connect(self, host: RecordingHost) -> None:
        def tried() -> bool:
            with suppress(RpcError):
                self.call("connectPeer", host.multiaddr)
            return self.is_connected

        wait_for(tried, "the peer is connected")

    @property
    def is_connected(self) -> bool:
        return bool(self.call("peers", True)["totalConnected"])

    @property
    def ban_seconds(self) -> float:
        """How long the ban of the peer still lasts, 0 without one."""
        return float(self.call("diagnosis")["bans"].get(PEER, 0.0))

    def stays(self) -> bool:
        """Whether the peer stays connected during three checks of its score, one each second."""
        for _ in range(35):
            if not self.is_connected:
                return False
            time.sleep(0.1)
        return True


@pytest.fixture(scope="module")
def peers(module_leftovers: Leftovers) -> Iterator[Peers]:
    """Its file has no bootnode."""
    with LocalChain(module_leftovers) as chain, ExitStack() as stack:
        words = ("--p2p.no-discovery=false", "--p2p.discovery.path=memory")
        node = ReloadedNode(chain, module_leftovers.folder, *words, p2p_netrestrict=["127.0.0.0/8"])
        stack.enter_context(node.engine)
        stack.enter_context(node.program)
        node.program.wait_for_line(' processes are ready"')
        yield Peers(node)


@pytest.fixture(autouse=True)
def no_block_is_lost(peers: Peers) -> Iterator[None]:
    """A sequencer that loses a block is late by one more."""
    wait_for(lambda: peers.node.late_blocks < 2, "the sequencer keeps up")
    yield
    wait_for(lambda: peers.node.late_blocks < 2, "the sequencer keeps up")
    assert "process died" not in peers.node.program.out and "Traceback" not in peers.node.program.out


def test_bans(peers: Peers) -> None:
    """The peer's score is above the threshold by default."""
    with peers.reloaded({"p2p.ban.threshold": 1}):
        assert wait_for(lambda: peers.ban_seconds, "the threshold acts") > 3500
    with peers.reloaded({"p2p.ban.duration": "3s"}) as host:
        assert wait_for(lambda: peers.ban_seconds, "it is banned again") <= 3
        peers.connect(host)
    with peers.reloaded({"p2p.ban.peers": False}):
        assert peers.stays()
    with peers.reloaded({"p2p.ban.peers": True, "p2p.ban.threshold": -1}):
        assert peers.stays()


def test_bootnodes(peers: Peers) -> None:
    with in_thread(running_discv5("bootnode", tcp=free_port())) as bootnode:
        assert peers.call("discoveryTable") == []
        peers.take_over({"p2p.bootnodes": [bootnode.enr.text]})
        wait_for(lambda: peers.call("discoveryTable") == [bootnode.enr.text], "the bootnode is in the table")
        own = peers.call("self")["ENR"]
        wait_for(lambda: own in bootnode.table_texts, "the bootnode knows the node")
