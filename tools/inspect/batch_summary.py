"""Summaries of batches, with the same fields in `rollup-node batches` and `rollup-node decode`."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.inspect.row_formats import Column, RowLayout, Values, shown_hashes, shown_range, shown_time

UNKNOWN = "-"
SHORT = 8
"""Hex digits of an id or a hash in a table."""


class BatchSummary(msgspec.Struct, frozen=True):
    """A batch.

    `inclusion` and `inclusion_time` are the number and time of the L1 block in which its channel ended,
    `l1_transactions` the hashes of those with its frames, `channel_bytes` the size of the compressed channel; what
    is not known is None or empty. `parent` is the parent hash, or the 20 bytes of a span's parent check; `digest` is
    the sha256 over the keccak hashes of its transactions."""

    inclusion: int | None
    channel: bytes | None
    kind: str
    first_timestamp: int
    blocks: int
    transactions: int
    parent: bytes
    digest: Hash
    inclusion_time: int | None = None
    l1_transactions: tuple[Hash, ...] = ()
    channel_bytes: int | None = None


class Batch(msgspec.Struct, frozen=True):
    """A batch that was read, such as the one that a block was derived from.

    `kind` is "span" or "singular", `first_timestamp` the time of its first block in Unix seconds, `blocks` how many it
    has. `channel` is the id of its channel, `channel_bytes` the compressed size of that, and `l1_transactions` are the
    hashes of the transactions with its frames, none where L1 was read without hashes."""

    kind: str
    first_timestamp: int
    blocks: int
    channel: bytes
    channel_bytes: int
    l1_transactions: tuple[Hash, ...]


class BlockNumbers(NamedTuple):
    """The L2 genesis block and the seconds between L2 blocks: numbers of blocks from their times."""

    genesis_number: int
    genesis_time: int
    block_time: int

    def at(self, timestamp: int) -> int | None:
        """Return the number of the block of that time; None for a time that no block has."""
        if timestamp < self.genesis_time or (timestamp - self.genesis_time) % self.block_time:
            return None
        return self.genesis_number + (timestamp - self.genesis_time) // self.block_time


def block_numbers(config: RollupConfig) -> BlockNumbers:
    """Those of a chain."""
    return BlockNumbers(config.genesis.l2.number, config.genesis.l2_time, config.block_time)


def hashes_digest(transactions: Iterable[bytes]) -> Hash:
    """Return the sha256 over the keccak hashes of transactions."""
    digest = sha256()
    for transaction in transactions:
        digest.update(keccak256(transaction))
    return digest.digest()


def batch_values(batch: BatchSummary, numbers: BlockNumbers | None = None) -> Values:
    """Return the batch as a JSON object; unknown fields are left out.

    With `numbers` it has the numbers of its L2 blocks."""
    values: dict[str, Any] = {}
    if batch.inclusion is not None:
        values["inclusion"] = batch.inclusion
    if batch.inclusion_time is not None:
        values["inclusion_timestamp"] = batch.inclusion_time
    if batch.l1_transactions:
        values["l1_transactions"] = [to_hex(l1_transaction) for l1_transaction in batch.l1_transactions]
    if batch.channel is not None:
        values["channel"] = batch.channel.hex()
    if batch.channel_bytes is not None:
        values["channel_bytes"] = batch.channel_bytes
    first = None if numbers is None else numbers.at(batch.first_timestamp)
    values["kind"] = batch.kind
    if first is not None:
        values |= {"first_block": first, "last_block": first + batch.blocks - 1}
    parent = "parent_hash" if batch.kind == "singular" else "parent_check"
    return values | {
        "first_timestamp": batch.first_timestamp,
        "blocks": batch.blocks,
        "transactions": batch.transactions,
        parent: batch.parent.hex(),
        "tx_hashes_sha256": batch.digest.hex(),
    }


def batch_text(values: Values) -> str:
    """Return the values of a batch as a line of text."""
    parts = []
    if "inclusion" in values:
        parts.append(f"L1 {values['inclusion']}")
    if "inclusion_timestamp" in values:
        parts.append(shown_time(values["inclusion_timestamp"]))
    if "channel" in values:
        parts.append(f"channel {values['channel']}")
    if "channel_bytes" in values:
        parts.append(f"bytes {values['channel_bytes']}")
    if "l1_transactions" in values:
        parts.append(f"L1 transactions {' '.join(values['l1_transactions'])}")
    parts.append(values["kind"])
    if "first_block" in values:
        parts.append(f"L2 {shown_range(values['first_block'], values['blocks'])}")
    time = f"time {values['first_timestamp']}"
    if "first_block" in values or values["kind"] == "singular":
        time += f" {shown_time(values['first_timestamp'])}"
    parts += [time, f"blocks {values['blocks']}", f"transactions {values['transactions']}", values["tx_hashes_sha256"]]
    return "  ".join(parts)


def _contents(values: Values) -> tuple[str, ...]:
    blocks = values["blocks"]
    has_number = "first_block" in values
    numbers = shown_range(values["first_block"], blocks) if has_number else f"{blocks} block{'s'[: blocks != 1]}"
    time = shown_time(values["first_timestamp"], " ")
    if not has_number and values["kind"] == "span":
        time = f"{values['first_timestamp']} s"
    return (str(values.get("channel_bytes", UNKNOWN)), values["kind"], numbers, time, str(values["transactions"]))


def _listed(values: Values) -> tuple[str, ...]:
    channel = values.get("channel", UNKNOWN)[:SHORT]
    return (
        str(values.get("inclusion", UNKNOWN)),
        shown_hashes(values.get("l1_transactions", ())),
        channel,
        *_contents(values),
    )


def _decoded(values: Values) -> tuple[str, ...]:
    channel = values.get("channel", UNKNOWN)[: 2 * SHORT]
    return (shown_hashes(values.get("l1_transactions", ())), channel, *_contents(values))


def _record(values: Values) -> Mapping[str, Any]:
    parent = values.get("parent_hash", values.get("parent_check"))
    return values | {"parent": parent, "last_block": values.get("last_block")}


_CONTENTS = (
    Column("BYTES", 7, right=True),
    Column("KIND", 8),
    Column("L2 BLOCKS", 19),
    Column("FIRST AT (UTC)", 19),
    Column("TXS", 5, right=True),
)
_FIELDS = (
    "channel",
    "channel_bytes",
    "kind",
    "first_block",
    "last_block",
    "first_timestamp",
    "blocks",
    "transactions",
    "parent",
    "tx_hashes_sha256",
)
LISTED = RowLayout(
    (Column("L1 BLOCK", 8, right=True), Column("L1 TX", 12), Column("CHANNEL", SHORT), *_CONTENTS),
    _listed,
    batch_text,
    ("inclusion", "inclusion_timestamp", "l1_transactions", *_FIELDS),
    _record,
)
"""The rows of `batches`."""
DECODED = RowLayout(
    (Column("L1 TX", 12), Column("CHANNEL", 2 * SHORT), *_CONTENTS),
    _decoded,
    batch_text,
    ("l1_transactions", *_FIELDS),
    _record,
)
"""The rows of `decode`; L1 transactions where the files are such."""
