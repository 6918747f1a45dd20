"""The engine's listeners: eth_* for everybody, and with a JWT or over IPC the Engine API as well."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.protocol.engine_json import payload_from_json
from rollup_node.stages.protocol.hex_encoding import from_quantity, hash_from_hex, to_hex
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.chain.jsonrpc_server import IpcListener, JsonRpc, Listener, application
from rollup_node.tools.devnet.engine.backend import Journal, L2Backend
from rollup_node.tools.devnet.engine.chain_sync import ChainSync
from rollup_node.tools.devnet.engine.engine_api import NO_TRAITS, EngineApi, Traits
from rollup_node.tools.devnet.engine.execution import DaLimits
from rollup_node.tools.devnet.engine.genesis import ParsedGenesis

CLIENT_VERSION = "rollup-node-devnet-engine/v1"

log = Logger("engine")


class EngineServer:
    """An embedded engine with its listeners, that of IPC at `ipc`, and with `data_dir` a journal to restart from.

    With `el_sync_from`, the URL of another engine's public methods, it fetches a chain that it lacks from there.
    `traits` are its differences from op-geth."""

    def __init__(
        self,
        genesis: ParsedGenesis,
        jwt_secret: bytes,
        *,
        http_port: int = 0,
        auth_port: int = 0,
        ipc: Path | None = None,
        data_dir: Path | None = None,
        el_sync_from: str | None = None,
        traits: Traits = NO_TRAITS,
    ) -> None:
        self.backend = L2Backend(genesis)
        self._journal = None if data_dir is None else Journal(data_dir)
        if self._journal is not None:
            restore(self.backend, self._journal)
        self._sync = None if el_sync_from is None else ChainSync(self.backend, self._journal, el_sync_from)
        public = EthApi(self.backend, CLIENT_VERSION).methods()
        public["miner_setMaxDASize"] = self.set_max_da_size
        if self._sync is not None:
            public["eth_syncing"] = self._sync.progress
        private = public | EngineApi(self.backend, self._journal, self._sync, traits).methods()
        self.http = Listener(application(JsonRpc(public)), http_port)
        self.auth = Listener(application(JsonRpc(private), jwt_secret), auth_port)
        self._ipc = None if ipc is None else IpcListener(JsonRpc(private), ipc)

    def set_max_da_size(self, transaction: Any, block: Any) -> bool:
        """miner_setMaxDASize, by which a batcher slows the chain down.

        The limits of a transaction and of a block that is built from now on, in bytes by Fjord's estimate; 0 removes
        one."""
        self.backend.da_limits = DaLimits(from_quantity(transaction), from_quantity(block))
        return True

    async def start(self) -> None:
        """Bind the ports and the socket. Raises OSError where one is in use."""
        await self.http.start()
        await self.auth.start()
        if self._ipc is not None:
            await self._ipc.start()

    async def stop(self) -> None:
        """Close listeners and journal."""
        if self._ipc is not None:
            await self._ipc.stop()
        await self.auth.stop()
        await self.http.stop()
        if self._sync is not None:
            await self._sync.close()
        if self._journal is not None:
            self._journal.close()


def restore(backend: L2Backend, journal: Journal) -> None:
    """Replay a journal into a backend. Raises InvalidBlock or ValueError where it does not fit the genesis."""
    chain = backend.chain
    for entry in journal.entries():
        if "executionPayload" in entry:
            root = entry.get("parentBeaconBlockRoot")
            payload = payload_from_json(entry["executionPayload"], None if root is None else hash_from_hex(root))
            parent = chain.get(payload.parent_hash)
            if parent is not None:
                chain.insert(backend.check(parent, payload))
            continue
        head, safe, finalized = (
            chain.get(hash_from_hex(entry[f"{name}BlockHash"])) for name in ("head", "safe", "finalized")
        )
        if head is not None:
            backend.set_head(head)
            chain.safe, chain.finalized = safe or chain.safe, finalized or chain.finalized


async def serve(server: EngineServer) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await server.start()
    genesis = server.backend.chain.genesis
    print(f"genesis {to_hex(genesis.hash)}  http {server.http.url}  auth {server.auth.url}", flush=True)
    try:
        await stopping.wait()
    finally:
        await server.stop()
