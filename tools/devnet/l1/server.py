"""The embedded L1 program: JSON-RPC on one port, the Beacon API on another, and a block in each slot."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rollup_node.stages.protocol.errors import INVALID_PARAMS
from rollup_node.stages.protocol.hex_encoding import from_quantity, to_hex
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, Method, application
from rollup_node.tools.devnet.l1 import beacon, light_client_routes
from rollup_node.tools.devnet.l1.backend import FINALIZED_DISTANCE, L1Backend
from rollup_node.tools.devnet.l1.signed_headers import DEVELOPMENT

CLIENT_VERSION = "rollup-node-development-l1"
MAX_REORG = 64


class L1Methods:
    """The eth_* methods, and evm_mine, dev_reorg and dev_switchBack to control the chain."""

    def __init__(self, backend: L1Backend) -> None:
        self._backend = backend

    def methods(self) -> dict[str, Method]:
        """Return the method table."""
        return {
            **EthApi(self._backend, CLIENT_VERSION).methods(),
            "evm_mine": self.mine,
            "dev_reorg": self.reorg,
            "dev_switchBack": self.switch_back,
        }

    def mine(self) -> str:
        """evm_mine: mines the block of the next slot now; its hash."""
        head = self._backend.chain.head
        return to_hex(self._backend.mine(head.header.timestamp + self._backend.slot_seconds).hash)

    def reorg(self, depth: Any) -> str:
        """dev_reorg: replaces the last `depth` blocks; the new head's hash. Raises JsonRpcError for a wrong depth."""
        number = depth if isinstance(depth, int) else from_quantity(depth)
        if not 1 <= number <= MAX_REORG:
            raise JsonRpcError(INVALID_PARAMS, f"a reorg replaces 1 to {MAX_REORG} blocks, not {number}")
        return to_hex(self._backend.reorg(number).hash)

    def switch_back(self) -> str:
        """dev_switchBack: goes back to the branch before the last reorg; the new head's hash.

        Raises JsonRpcError if there was none."""
        try:
            return to_hex(self._backend.switch_back().hash)
        except ValueError as error:
            raise JsonRpcError(INVALID_PARAMS, str(error)) from None


async def mine_in_slots(backend: L1Backend) -> None:
    """Mine a block at the start of each slot; a slot that passed meanwhile stays empty, as on a real chain."""
    while True:
        now = time.time()
        slot = backend.slot_time(now)
        if slot > backend.chain.head.header.timestamp:
            backend.mine(slot)
        await asyncio.sleep(max(0.01, slot + backend.slot_seconds - time.time()))


async def serve(backend: L1Backend, port: int, beacon_port: int) -> None:
    """Serve and mine until cancelled; prints URLs and genesis hash once it listens."""
    beacon_api = beacon.application(backend)
    light_client_routes.add_routes(beacon_api, backend)
    l1 = application(JsonRpc(L1Methods(backend).methods()))
    async with Listener(l1, port) as rpc, Listener(beacon_api, beacon_port) as api:
        print(f"L1 {rpc.url} beacon {api.url} genesis {to_hex(backend.chain.genesis.hash)}", flush=True)
        await mine_in_slots(backend)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal stops it."""
    parser = argparse.ArgumentParser(prog="l1", description="Embedded L1 for development.", allow_abbrev=False)
    parser.add_argument("--genesis", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--beacon-port", type=int, default=0)
    parser.add_argument("--slot-time", type=int, default=12, help="seconds")
    parser.add_argument("--finalized-distance", type=int, default=FINALIZED_DISTANCE, help="blocks below the head")
    parser.add_argument("--committee-size", type=int, default=DEVELOPMENT.sync_committee_size)
    parser.add_argument("--period-epochs", type=int, default=DEVELOPMENT.epochs_per_period, help="of a sync committee")
    parser.add_argument("--signers", type=int, help="members of each sync committee that sign; without it all")
    parser.add_argument("--branch", type=int, default=0, help="a number by which the blocks after genesis differ")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    try:
        genesis = json.loads(args.genesis.read_text())
        preset = replace(DEVELOPMENT, sync_committee_size=args.committee_size, epochs_per_period=args.period_epochs)
        backend = L1Backend(genesis, args.slot_time, args.finalized_distance, preset, args.signers, args.branch)
        asyncio.run(serve(backend, args.port, args.beacon_port))
    except KeyboardInterrupt:
        return 0
    except (OSError, ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
