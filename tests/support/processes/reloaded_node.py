"""A node that sequences, whose options file a test changes while it runs."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollup_node.tools.devnet.files import SIGNER_KEY
from tests.support.chains.local_chain import LocalChain
from tests.support.processes.programs import Program, call, process_entries, unready_reasons, wait_for
from tests.support.servers.tcp_relay import TcpRelay


class ReloadedNode:
    """A node that sequences, its options file, and relays to its endpoints that it does not use at first."""

    def __init__(self, chain: LocalChain, folder: Path, *words: str, **settings: object) -> None:
        self.chain, self.file, self.runtime = chain, folder / "node.toml", folder / "run"
        self.key, self.log = folder / "signer-key.txt", folder / "node.log"
        self.key.write_text(SIGNER_KEY.secret.hex())
        self.before: dict[str, int] = {}
        self.engine = TcpRelay(chain.engine)
        self.settings: dict[str, object] = {"log.level": "info", "l1": chain.l1, "l1.beacon": chain.beacon}
        self.settings |= {"l1.http-poll-interval": "200ms", "l1.epoch-poll-interval": "1s"}
        self.settings |= {"p2p.sequencer.key.path": str(self.key), "l2.jwt-secret": str(chain.files.jwt)}
        self.write(**settings)
        self.program: Program = chain.node(
            *("--sequencer.enabled", "--p2p.no-discovery", "--p2p.listen.ip=127.0.0.1", "--p2p.listen.tcp=0"),
            *("--p2p.peerstore.path=memory", "--sequencer.l1-confs=1", "--rpc.enable-admin"),
            *words,
            l1=None,
            l1_beacon=None,
            l1_http__poll__interval=None,
            l1_epoch__poll__interval=None,
            p2p_disable=None,
            l2=self.engine.url,
            l2_jwt__secret=None,
            config=self.file,
            runtime_dir=self.runtime,
            p2p_priv_path=folder / "priv.txt",
            log_file=self.log,
        )

    @property
    def rpc(self) -> str:
        return wait_for((self.runtime / "rpc.url").read_text, "the URL of the RPC server")

    def write(self, **changes: object) -> None:
        """Write the options file; `__` in a name stands for a dash, `_` for a dot; None leaves an option out."""
        self.settings |= {name.replace("__", "-").replace("_", "."): value for name, value in changes.items()}
        text = "".join(
            f'"{name}" = {json.dumps(value)}\n' for name, value in self.settings.items() if value is not None
        )
        self.file.write_text(text)

    def take_over(self, settings: Mapping[str, object]) -> dict[str, Any]:
        """Change options by name, by admin_reload; what that returns, when the processes are restarted."""
        self.settings |= settings
        self.write()
        before = self.incarnations()
        result: dict[str, Any] = call(self.rpc, "admin_reload")
        roles = result["restarted"]
        wait_for(lambda: all(self.incarnations().get(role, 0) > before[role] for role in roles), "they are restarted")
        return result

    def reload(self, **changes: object) -> dict[str, Any]:
        """Do the same with the names of `write`; what it returns, when the node is ready again."""
        self.write(**changes)
        result = self.take_over({})
        wait_for(lambda: not unready_reasons(self.rpc), "the node is ready")
        return result

    def incarnations(self) -> dict[str, int]:
        return {role: entry["incarnation"] for role, entry in process_entries(self.runtime).items()}

    @property
    def late_blocks(self) -> float:
        """How many blocks the newest one is behind the clock."""
        block = call(self.chain.public, "eth_getBlockByNumber", "latest", False)
        return (time.time() - int(block["timestamp"], 16)) / float(self.chain.rollup["block_time"])
