"""A sequencing node whose options file changes while it runs: each change acts, and no block is missing [LIF33]."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains.local_chain import LocalChain
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, call, unready_reasons, wait_for
from tests.support.servers.tcp_relay import TcpRelay

ADMIN = "1b" * 32


class ReloadedNode:
    """A node that sequences, its options file, and relays to its endpoints that it does not use at first."""

    def __init__(self, chain: LocalChain, folder: Path) -> None:
        self.chain, self.file, self.runtime = chain, folder / "node.toml", folder / "run"
        self.settings: dict[str, object] = {"log.level": "info", "l1": chain.l1, "l1.beacon": chain.beacon}
        self.write()
        self.program: Program = chain.node(
            *("--sequencer.enabled", "--p2p.no-discovery", "--p2p.listen.ip=127.0.0.1", "--p2p.listen.tcp=0"),
            *("--p2p.peerstore.path=memory", "--sequencer.l1-confs=1", "--rpc.enable-admin"),
            l1=None,
            l1_beacon=None,
            p2p_disable=None,
            config=self.file,
            runtime_dir=self.runtime,
            p2p_priv_path=folder / "priv.txt",
        )

    @property
    def rpc(self) -> str:
        return wait_for((self.runtime / "rpc.url").read_text, "the URL of the RPC server")

    def write(self, **changes: object) -> None:
        """Write the options file; `__` in a name stands for a dash, `_` for a dot."""
        self.settings |= {name.replace("__", "-").replace("_", "."): value for name, value in changes.items()}
        text = "".join(
            f'"{name}" = {json.dumps(value)}\n' for name, value in self.settings.items() if value is not None
        )
        self.file.write_text(text)

    def reload(self, **changes: object) -> dict[str, Any]:
        """Change options by admin_reload; what that returns, when the node is ready again."""
        self.write(**changes)
        result: dict[str, Any] = call(self.rpc, "admin_reload")
        began = time.monotonic()
        for role in result["restarted"]:
            wait_for(lambda role=role: self.incarnations()[role] > self.before[role], f"{role} is restarted")
        wait_for(lambda: not unready_reasons(self.rpc), "the node is ready")
        print(f"ready after {time.monotonic() - began:.2f} s: {result}")
        return result

    def incarnations(self) -> dict[str, int]:
        entries = json.loads((self.runtime / "processes.json").read_text())
        return {entry["role"]: entry["incarnation"] for entry in entries}

    @property
    def late_blocks(self) -> float:
        """How many blocks the newest one is behind the clock."""
        block = call(self.chain.public, "eth_getBlockByNumber", "latest", False)
        return (time.time() - int(block["timestamp"], 16)) / float(self.chain.rollup["block_time"])


@pytest.fixture(scope="module")
def node(module_leftovers: Leftovers) -> Iterator[ReloadedNode]:
    with LocalChain(module_leftovers) as chain:
        node = ReloadedNode(chain, module_leftovers.folder)
        with node.program:
            node.program.wait_for_line(' processes are ready"')
            wait_for(lambda: not unready_reasons(node.rpc), "the node is ready")
            yield node


@pytest.fixture(autouse=True)
def no_block_is_late(node: ReloadedNode) -> Iterator[None]:
    """A sequencer that loses a block is late by one more."""
    wait_for(lambda: node.late_blocks < 2, "the sequencer keeps up")
    node.before = node.incarnations()
    yield
    wait_for(lambda: node.late_blocks < 2, "the sequencer keeps up")
    assert "process died" not in node.program.out and "Traceback" not in node.program.out


def test_try(node: ReloadedNode) -> None:
    node.reload(log_level="debug")
    node.program.wait_for_line("lvl=debug")
    with TcpRelay(int(node.chain.l1.rpartition(":")[2])) as relay:
        print(node.reload(l1=relay.url))
        relay.cut()
        wait_for(lambda: unready_reasons(node.rpc), "L1 is not reachable")
        relay.restore()
        node.reload(l1=node.chain.l1)
    print(node.program.out[-6000:])
