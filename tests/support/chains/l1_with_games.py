"""An L1 in memory with the local network's factory and anchor: its calls are counted, and each can be changed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.batcher.driver import dynamic_fee_transaction
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.files import L1_CHAIN_ID, RECEIVER_KEY, l1_genesis
from rollup_node.tools.devnet.games import FACTORY, create_call
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.traffic import FEES

GENESIS_TIME = 1_700_000_000


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
