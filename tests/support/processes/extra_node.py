"""A node of ours beside a local network, with an engine of its own."""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import (
    Devnet,
    EmbeddedEngine,
    Program,
    as_json,
    call,
    call_batch,
    process_entries,
    unready_reasons,
    wait_for,
)

T = TypeVar("T")


class LocalNetwork(Protocol):
    """What a program beside a local network reads of it: its files, and what is in `network.json` of one chain."""

    @property
    def root(self) -> Path: ...

    @property
    def network(self) -> dict[str, Any]: ...


def network_options(net: LocalNetwork) -> dict[str, object]:
    """Return the options of a node on the network's L1 and with its chain, as op-node has them too."""
    network = net.network
    return {
        "l1": network["l1"],
        "l1.beacon": network["beacon"],
        "l1.http-poll-interval": "500ms",
        "l2.jwt-secret": network["jwt"],
        "rollup.config": network["rollup"],
        "rollup.l1-chain-config": str(net.root / "l1-chain-config.json"),
    }


class ExtraEngine(EmbeddedEngine):
    """An embedded engine with the network's genesis."""

    def __init__(self, watch: Leftovers, net: LocalNetwork, *flags: str) -> None:
        super().__init__(watch, net.network["l2_genesis"], net.network["jwt"], *flags)


class ExtraNode:
    """A verifier with an embedded engine of its own beside a network, which knows one peer of it.

    It can be killed and started again on its files, with other options than those `given` first. `engine` are flags
    of the engine, `numbers` are those of the node."""

    def __init__(
        self,
        watch: Leftovers,
        net: Devnet,
        peer: str,
        fields: Mapping[str, object],
        name: str = "own",
        engine: tuple[str, ...] = (),
        numbers: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._watch, self._root, self._numbers = watch, watch.folder / name, as_json(numbers)
        self._root.mkdir()
        self.engine = ExtraEngine(watch, net, *engine)
        self._options = network_options(net) | {
            "l2": self.engine.auth,
            "interop.dependency-set": str(net.root / "dependency-set.json"),
            "rpc.addr": "127.0.0.1",
            "rpc.port": 0,
            "p2p.listen.ip": "127.0.0.1",
            "p2p.listen.tcp": 0,
            "p2p.netrestrict": "127.0.0.0/8",
            "p2p.no-discovery": "true",
            "p2p.static": peer,
            "p2p.priv.path": self._root / "key",
            "p2p.peerstore.path": self._root / "peers.db",
            "runtime.dir": self._root / "run",
            "log.level": "debug",
            "workers": 1,
        }
        self.program = self.start(fields)

    def start(self, fields: Mapping[str, object] = MappingProxyType({})) -> Program:
        """Start the node, with these options besides."""
        self._options |= fields
        words = [f"--{name}={value}" for name, value in self._options.items()]
        self.program = Program(self._watch, "rollup_node", *words, ROLLUP_NODE_TEST_NUMBERS=self._numbers)
        self._url = ""
        return self.program

    @property
    def url(self) -> str:
        """The URL of the RPC server, which changes with each start."""
        if not self._url:
            self._url = f"http://127.0.0.1:{self.program.port()}"
        return self._url

    def head(self, name: str = "unsafe_l2") -> int:
        """Return the number of a head in optimism_syncStatus."""
        return int(call(self.url, "optimism_syncStatus")[name]["number"])

    def wait(self, condition: Callable[[], T], what: str) -> T:
        """`wait_for`, which shows the node's log, and asks as seldom as `Devnet.wait`."""
        try:
            return wait_for(condition, what, every=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.program.out[-3000:]}") from None

    def wait_for_head(self, number: int, name: str = "unsafe_l2") -> None:
        """Wait until a head has at least that number."""
        self.wait(lambda: self.head(name) >= number, f"{name} {number}")

    def wait_until_ready(self) -> None:
        """Wait until `/readyz` names no reason."""
        self.wait(lambda: unready_reasons(self.url) == [], "it is ready")

    def processes(self) -> dict[str, dict[str, Any]]:
        """Return the entries of its processes, as `process_entries` does, once it writes them."""
        return wait_for(lambda: process_entries(self._root / "run"), "processes.json")

    def kill_process(self, role: str) -> None:
        """Kills one process and waits for its next life."""
        before = self.processes()[role]
        os.kill(before["pid"], signal.SIGKILL)

        def lives_again() -> bool:
            return int(self.processes().get(role, before)["incarnation"]) > int(before["incarnation"])

        wait_for(lives_again, f"{role} is restarted: {self.program.out[-3000:]}")

    def kill(self) -> None:
        """Kills the supervisor, and so all processes at once."""
        os.kill(self.processes()["supervisor"]["pid"], signal.SIGKILL)
        self.program.process.wait(30)

    def stop(self) -> None:
        """Stop node and engine."""
        self.program.stop()
        self.engine.kill()


def assert_same_chain(net: Devnet, node: ExtraNode, last: int) -> None:
    """Assert that a node's blocks up to `last` are those of the sequencer."""
    calls = [("optimism_outputAtBlock", hex(number)) for number in range(1, last + 1)]
    theirs, ours = (call_batch(url, *calls) for url in (net.node("sequencer")["rpc"], node.url))
    assert [our["blockRef"]["hash"] for our in ours] == [their["blockRef"]["hash"] for their in theirs]
