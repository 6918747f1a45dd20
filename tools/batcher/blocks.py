"""Parses L2 blocks as an execution engine returns them from `debug_getRawBlock`."""

from dataclasses import dataclass

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import BlockId, Hash
from rollup_node.tools.batcher.batches import BatchBlock

DEPOSIT_TYPE = 0x7E
BEDROCK_SELECTOR = bytes.fromhex("015d8eb9")
PARENT, TIMESTAMP = 0, 11
DEPOSIT_DATA = 7


@dataclass(frozen=True)
class L2Block:
    """A block's number and hash, the time of its L1 origin in seconds, and the part of it that a batch carries."""

    number: int
    hash: Hash
    origin_time: int
    batch: BatchBlock


def parse_block(number: int, raw: bytes) -> L2Block:
    """Parses a block's RLP. Raises ValueError unless its first transaction is the L1 attributes deposit."""
    block = rlp.decode(raw)
    assert isinstance(block, list) and isinstance(block[0], list) and isinstance(block[1], list)
    header = block[0]
    parent, timestamp = header[PARENT], header[TIMESTAMP]
    assert isinstance(parent, bytes) and isinstance(timestamp, bytes)
    transactions = [item if isinstance(item, bytes) else rlp.encode(item) for item in block[1]]
    origin, origin_time = _origin(transactions[0])
    return L2Block(
        number,
        keccak256(rlp.encode(header)),
        origin_time,
        BatchBlock(
            parent,
            int.from_bytes(timestamp, "big"),
            origin,
            tuple(raw for raw in transactions if raw[0] != DEPOSIT_TYPE),
        ),
    )


def _origin(info: bytes) -> tuple[BlockId, int]:
    """The L1 origin and its time in seconds, from the calldata of the L1 attributes deposit in either layout."""
    if info[0] != DEPOSIT_TYPE:
        raise ValueError("the first transaction is not a deposit")
    fields = rlp.decode(info[1:])
    assert isinstance(fields, list)
    data = fields[DEPOSIT_DATA]
    assert isinstance(data, bytes)
    if data[:4] == BEDROCK_SELECTOR:
        return BlockId(int.from_bytes(data[4:36], "big"), data[100:132]), int.from_bytes(data[36:68], "big")
    return BlockId(int.from_bytes(data[28:36], "big"), data[100:132]), int.from_bytes(data[20:28], "big")
