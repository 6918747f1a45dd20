"""An L1 in memory with the local network's factory and anchor, and a node that has roots of its games.

Calls to L1 are counted, and the answers of both can be changed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Address
from rollup_node.stages.rpc.status.node_status import BlockStatus, ProofStatus
from rollup_node.tools.batcher.driver import dynamic_fee_transaction
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.files import L1_CHAIN_ID, RECEIVER_KEY, l1_genesis
from rollup_node.tools.devnet.games import FACTORY, create_call
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.traffic import FEES
from tests.support.rpc.node_statuses import UNKNOWN
from tests.support.servers.http_listener import json_rpc_app

GENESIS_TIME = 1_700_000_000
ROOT = b"\x11" * 32
"""What the node has as the root of every block and time."""


class L1WithGames:
    """`calls` counts requests by method; `changes` replaces answers."""

    def __init__(self) -> None:
        self.backend = L1Backend(l1_genesis(GENESIS_TIME), 1)
        self._methods = EthApi(self.backend, "test").methods()
        self.calls: Counter[str] = Counter()
        self.changes: dict[str, Callable[[Any], Any]] = {}
        self._nonce = 0

    def methods(self) -> dict[str, Callable[..., Any]]:
        """Return the methods of a JSON-RPC server."""
        return {name: self._counted(name) for name in self._methods}

    def _counted(self, name: str) -> Callable[..., Any]:
        def method(*params: Any) -> Any:
            self.calls[name] += 1
            answer = self._methods[name](*params)
            return self.changes[name](answer) if name in self.changes else answer

        return method

    def mine(self, *sent: tuple[Address, bytes]) -> Block:
        """Mines the next block with transactions to these contracts."""
        for to, data in sent:
            raw = dynamic_fee_transaction(RECEIVER_KEY, L1_CHAIN_ID, self._nonce, to, 0, data, 3_000_000, FEES)
            self.backend.send(raw)
            self._nonce += 1
        return self.backend.mine(self.backend.chain.head.header.timestamp + 1)

    def game(self, root: bytes, extra: int | bytes, game_type: int = 0) -> Block:
        """Mines a block that creates a game."""
        return self.mine((FACTORY, create_call(game_type, root, extra)))

    def hash_of(self, block: Block) -> str:
        """Return the hash of a block in hex."""
        return to_hex(block.hash)


class NodeWithRoots:
    """`answers` are results by method, or errors that it raises; `proof` is the L1 block that it has proven."""

    def __init__(self) -> None:
        heads = {"current_l1": 101, "finalized_l1": 0, "safe_l2": 60}
        self.answers: dict[str, Any] = {
            "optimism_rollupConfig": {"l1_chain_id": L1_CHAIN_ID, "l2_chain_id": 901},
            "optimism_syncStatus": {name: {"number": number} for name, number in heads.items()},
            "optimism_outputAtBlock": {"outputRoot": to_hex(ROOT)},
            "optimism_safeHeadAtL1Block": {"safeHead": {"number": 60}},
            "superroot_atTimestamp": super_root_answer(0),
        }
        self.proof: Block | None = None

    def app(self) -> web.Application:
        """Return its server."""
        app = json_rpc_app({name: self._answering(name) for name in self.answers})
        app.router.add_get("/status.json", self._status)
        return app

    def _answering(self, name: str) -> Callable[..., Any]:
        def method(*params: Any) -> Any:
            if isinstance(self.answers[name], Exception):
                raise self.answers[name]
            return self.answers[name]

        return method

    async def _status(self, request: web.Request) -> web.Response:
        if self.proof is None:
            return web.Response(status=404)
        head = BlockStatus(self.proof.header.number, to_hex(self.proof.hash), 0, 0.0)
        proof = ProofStatus(0, 0.0, 0, 0.0, 0, 1.0, linked=True)
        status = msgspec.structs.replace(UNKNOWN, l1=msgspec.structs.replace(UNKNOWN.l1, head=head, proof=proof))
        return web.Response(body=msgspec.json.encode(status))


def super_root_answer(required: int, current: int = 101) -> dict[str, Any]:
    """Return the answer of a node that has a super root from L1 block `required` on."""
    data = {"verified_required_l1": {"number": required}, "super_root": to_hex(ROOT)}
    return {"current_l1": {"number": current}, "data": data}
