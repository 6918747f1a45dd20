"""An L1 chain of empty blocks whose hashes are right, which can be extended and reorganised."""

from typing import Any

import msgspec

from rollup_node.stages.protocol.headers import EMPTY_UNCLES_HASH, ZERO_NONCE, Header, header_hash, l1_header
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, Hash, L1Block, L1BlockRef
from rollup_node.tools.devnet.chain.blocks import header_json
from tests.support.servers.http_listener import Methods

BLOCK_TIME = 12
LABELS = {"latest": 0, "safe": 3, "finalized": 6}
"""How many blocks each label is behind the head."""


def plain_header(number: int, parent: Hash, timestamp: int, **changes: Any) -> Header:
    """Return the header of an empty block, but for the changes."""
    header = Header(
        parent_hash=parent,
        uncles_hash=EMPTY_UNCLES_HASH,
        miner=ZERO_ADDRESS,
        state_root=ZERO_HASH,
        transactions_root=EMPTY_ROOT,
        receipts_root=EMPTY_ROOT,
        logs_bloom=bytes(256),
        difficulty=0,
        number=number,
        gas_limit=30_000_000,
        gas_used=0,
        timestamp=timestamp,
        extra_data=b"",
        mix_hash=ZERO_HASH,
        nonce=ZERO_NONCE,
        base_fee=7,
    )
    return msgspec.structs.replace(header, **changes)


class FakeL1Chain:
    """`length` blocks, from number 0 on, whose time is `genesis_time`.

    `asked` are label or number, and whether the whole block was asked for, of the calls of its `methods`."""

    def __init__(self, length: int, genesis_time: int = 0) -> None:
        self._branch, self._genesis_time = 0, genesis_time
        self.headers: list[Header] = []
        self.asked: list[tuple[str, bool]] = []
        self._hashes: list[Hash] = []
        self.extend(length)

    @property
    def head(self) -> int:
        """The number of the last block."""
        return len(self.headers) - 1

    def extend(self, count: int) -> None:
        """Add blocks."""
        for _ in range(count):
            number = len(self.headers)
            parent = self._hashes[-1] if self._hashes else ZERO_HASH
            time, branch = self._genesis_time + BLOCK_TIME * number, self._branch.to_bytes(20, "big")
            header = plain_header(number, parent, time, miner=branch)
            self.headers.append(header)
            self._hashes.append(header_hash(header))

    def reorg(self, depth: int, length: int) -> None:
        """Replace the last `depth` blocks, but never block 0, by `length` others."""
        self._branch += 1
        kept = max(1, len(self.headers) - depth)
        del self.headers[kept:], self._hashes[kept:]
        self.extend(length)

    def hash(self, number: int) -> Hash:
        """Return the hash of a block."""
        return self._hashes[number]

    def block(self, number: int) -> L1Block:
        """Return a block as the l1 process sends it."""
        return L1Block(l1_header(self.headers[number], self._hashes[number]), (), (), ())

    def ref(self, number: int) -> L1BlockRef:
        """Return the reference of a block."""
        return self.block(number).ref

    def block_json(self, number: int) -> dict[str, Any] | None:
        """Return a block as eth_getBlockByNumber returns it; None if there is none."""
        if not 0 <= number < len(self.headers):
            return None
        return {**header_json(self.headers[number]), "hash": to_hex(self._hashes[number]), "transactions": []}

    def block_by_name(self, name: str) -> dict[str, Any] | None:
        """Return a block by its label or its number in hex."""
        return self.block_json(self.head - LABELS[name] if name in LABELS else int(name, 16))

    def methods(self, chain_id: int, **others: "FakeL1Chain | Exception") -> Methods:
        """Return the JSON-RPC methods of an endpoint that has this chain.

        For a label or number among `others` it has that of another chain, or raises an error."""

        def block_by_number(number: str, full: bool) -> Any:
            self.asked.append((number, full))
            chain = others.get(number, self)
            if isinstance(chain, Exception):
                raise chain
            return chain.block_by_name(number)

        return {"eth_chainId": lambda: hex(chain_id), "eth_getBlockByNumber": block_by_number}
