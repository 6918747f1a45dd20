"""The names of the entries of an archive of L1 data, below its folder.

They are blocks and receipts by block hash, the hash of each final block by number, and blobs by versioned hash. Folders
hold at most some thousand entries."""

from rollup_node.stages.protocol.types import Hash

_NUMBERS = 1_000


def number_name(chain_id: int, number: int) -> str:
    """Return the entry with the hash of a block, 0x and 64 hex digits."""
    return f"l1-{chain_id}/numbers/{number // _NUMBERS:09d}/{number:012d}"


def block_name(chain_id: int, block_hash: Hash) -> str:
    """Return the entry with the response to eth_getBlockByNumber with full transactions."""
    return f"l1-{chain_id}/blocks/{_spread(block_hash)}.json.gz"


def receipts_name(chain_id: int, block_hash: Hash) -> str:
    """Return the entry with the response to a method for all receipts of a block."""
    return f"l1-{chain_id}/receipts/{_spread(block_hash)}.json.gz"


def blob_name(versioned_hash: Hash) -> str:
    """Return the entry with a blob."""
    return f"blobs/{_spread(versioned_hash)}"


def _spread(name: Hash) -> str:
    """By the last bytes: the first one of a versioned hash is always the same."""
    text = name.hex()
    return f"{text[-2:]}/{text[-4:-2]}/{text}"
