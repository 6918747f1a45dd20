"""A node of ours beside a local network, with an engine of its own."""

import json
import os
import signal
from collections.abc import Mapping
from types import MappingProxyType

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet, Program, call, call_batch


class ExtraNode:
    """A verifier with an embedded engine of its own beside a network, which knows one peer of it. It can be killed and
    started again on its files, with other options than those `given` first."""

    def __init__(
        self, watch: Leftovers, net: Devnet, peer: str, given: Mapping[str, object], name: str = "own"
    ) -> None:
        self._watch, self._root = watch, watch.folder / name
        self._root.mkdir()
        network = net.network
        words = ("--genesis", network["l2_genesis"], "--jwt", network["jwt"], "--http", "0", "--auth", "0")
        self.engine = Program(watch, "rollup_node.tools.devnet.engine", *words)
        printed = self.engine.wait_for_line("genesis ").split()
        options = {
            "l1": network["l1"],
            "l1.beacon": network["beacon"],
            "l1.http-poll-interval": "500ms",
            "l2": printed[printed.index("auth") + 1],
            "l2.jwt-secret": network["jwt"],
            "rollup.config": network["rollup"],
            "rollup.l1-chain-config": str(net.root / "l1-chain-config.json"),
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
        self._options: dict[str, object] = options
        self.program = self.start(given)

    def start(self, given: Mapping[str, object] = MappingProxyType({})) -> Program:
        """Starts the node, with these options besides."""
        self._options |= given
        words = [f"--{name}={value}" for name, value in self._options.items()]
        self.program = Program(self._watch, "rollup_node.node", *words)
        return self.program

    @property
    def url(self) -> str:
        """The URL of the RPC server, which changes with each start."""
        line = self.program.wait_for_line('"rpc server is listening"')
        return f"http://127.0.0.1:{line.partition('port=')[2].split()[0]}"

    def head(self, name: str = "unsafe_l2") -> int:
        """The number of a head in optimism_syncStatus."""
        return int(call(self.url, "optimism_syncStatus")[name]["number"])

    def kill(self) -> None:
        """Kills the supervisor, and so all processes at once."""
        entries = json.loads((self._root / "run" / "processes.json").read_text())
        supervisor = next(entry for entry in entries if entry["role"] == "supervisor")
        os.kill(supervisor["pid"], signal.SIGKILL)
        self.program.process.wait(30)

    def stop(self) -> None:
        """Stops node and engine."""
        self.program.stop()
        self.engine.kill()


def assert_same_chain(net: Devnet, node: ExtraNode, last: int) -> None:
    """Asserts that a node's blocks up to `last` are those of the sequencer."""
    calls = [("optimism_outputAtBlock", hex(number)) for number in range(1, last + 1)]
    theirs, ours = (call_batch(url, *calls) for url in (net.node("sequencer")["rpc"], node.url))
    assert [each["blockRef"]["hash"] for each in ours] == [each["blockRef"]["hash"] for each in theirs]
