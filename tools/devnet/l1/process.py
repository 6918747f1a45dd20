"""The embedded L1 as a program: JSON-RPC on one port, the Beacon API on another, a block in each slot."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollup_node.stages.blobs.kzg import load_setup
from rollup_node.stages.protocol.hex_encoding import from_quantity, to_hex
from rollup_node.stages.protocol.jsonrpc_codes import INVALID_PARAMS
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.l1 import beacon
from rollup_node.tools.devnet.l1.ledger import L1Ledger
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, Listener, Method, application

CLIENT_VERSION = "rollup-node-development-l1"
MAX_REORG = 64


class L1Methods:
    """The eth_* methods and those that drive a development chain."""

    def __init__(self, ledger: L1Ledger) -> None:
        self._ledger = ledger

    def methods(self) -> dict[str, Method]:
        """The table."""
        return {
            **EthApi(self._ledger, CLIENT_VERSION).methods(),
            "evm_mine": self.mine,
            "dev_reorg": self.reorganise,
        }

    def mine(self) -> str:
        """Makes the block of the next slot at once."""
        head = self._ledger.chain.head
        return to_hex(self._ledger.mine(head.header.timestamp + self._ledger.slot_seconds).hash)

    def reorganise(self, depth: Any) -> str:
        """Replaces the last blocks; the hash of the new head."""
        number = depth if isinstance(depth, int) else from_quantity(depth)
        if not 1 <= number <= MAX_REORG:
            raise JsonRpcError(INVALID_PARAMS, f"a reorganisation replaces 1 to {MAX_REORG} blocks, not {number}")
        return to_hex(self._ledger.reorganise(number).hash)


async def mine_in_slots(ledger: L1Ledger) -> None:
    """A block at the begin of each slot; a slot that is late is missed, as on a real chain."""
    while True:
        now = time.time()
        slot = ledger.slot_time(now)
        if slot > ledger.chain.head.header.timestamp:
            ledger.mine(slot)
        await asyncio.sleep(max(0.01, slot + ledger.slot_seconds - time.time()))


async def serve(genesis: dict[str, Any], port: int, beacon_port: int, slot_seconds: int) -> None:
    """Serves and mines until cancelled."""
    ledger = L1Ledger(genesis, slot_seconds)
    listeners = [
        Listener(application(JsonRpc(L1Methods(ledger).methods())), port),
        Listener(beacon.application(ledger), beacon_port),
    ]
    for listener in listeners:
        await listener.start()
    print(f"L1 {listeners[0].url} beacon {listeners[1].url} genesis {to_hex(ledger.chain.genesis.hash)}", flush=True)
    await asyncio.to_thread(load_setup)
    try:
        await mine_in_slots(ledger)
    finally:
        for listener in listeners:
            await listener.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs until a signal ends it."""
    parser = argparse.ArgumentParser(prog="l1", description="An embedded L1 for development.", allow_abbrev=False)
    parser.add_argument("--genesis", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--beacon-port", type=int, default=0)
    parser.add_argument("--slot-time", type=int, default=12, help="seconds")
    given = parser.parse_args(sys.argv[1:] if argv is None else argv)
    try:
        genesis = json.loads(given.genesis.read_text())
        asyncio.run(serve(genesis, given.port, given.beacon_port, given.slot_time))
    except KeyboardInterrupt:
        return 0
    except (OSError, ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
