"""L2 blocks as the batcher reads them from an execution engine (`debug_getRawBlock`)."""

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
    """A block with its hash and L1 origin; `batch` is what a batch says of it."""

    number: int
    hash: Hash
    batch: BatchBlock


def parse_block(number: int, raw: bytes) -> L2Block:
    """Reads a block's RLP; its first transaction must be the L1 attributes deposit."""
    block = rlp.decode(raw)
    assert isinstance(block, list) and isinstance(block[0], list) and isinstance(block[1], list)
    header = block[0]
    parent, timestamp = header[PARENT], header[TIMESTAMP]
    assert isinstance(parent, bytes) and isinstance(timestamp, bytes)
    transactions = [item if isinstance(item, bytes) else rlp.encode(item) for item in block[1]]
    return L2Block(
        number,
        keccak256(rlp.encode(header)),
        BatchBlock(
            parent,
            int.from_bytes(timestamp, "big"),
            _origin(transactions[0]),
            tuple(raw for raw in transactions if raw[0] != DEPOSIT_TYPE),
        ),
    )


def _origin(info: bytes) -> BlockId:
    """The L1 origin in the call data of the L1 attributes deposit, in the Bedrock or one of the packed layouts."""
    if info[0] != DEPOSIT_TYPE:
        raise ValueError("the first transaction is not a deposit")
    fields = rlp.decode(info[1:])
    assert isinstance(fields, list)
    data = fields[DEPOSIT_DATA]
    assert isinstance(data, bytes)
    if data[:4] == BEDROCK_SELECTOR:
        return BlockId(int.from_bytes(data[4:36], "big"), data[100:132])
    return BlockId(int.from_bytes(data[28:36], "big"), data[100:132])
