"""One-line summaries of batches, with the same fields in `rollup-node batches` and `rollup-node decode`."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Hash


class BatchSummary(msgspec.Struct, frozen=True):
    """A batch. `inclusion` is the number of the L1 block in which its channel ended; it and the channel id are None
    where they are not known. `parent` is the parent hash, or the 20 bytes of a span's parent check; `digest` is the
    sha256 over the keccak hashes of its transactions."""

    inclusion: int | None
    channel: bytes | None
    kind: str
    first_timestamp: int
    blocks: int
    transactions: int
    parent: bytes
    digest: Hash


def hashes_digest(transactions: Iterable[bytes]) -> Hash:
    """The sha256 over the keccak hashes of transactions."""
    digest = sha256()
    for transaction in transactions:
        digest.update(keccak256(transaction))
    return digest.digest()


def batch_values(batch: BatchSummary) -> dict[str, Any]:
    """The batch as a JSON object; unknown fields are left out."""
    values: dict[str, Any] = {}
    if batch.inclusion is not None:
        values["inclusion"] = batch.inclusion
    if batch.channel is not None:
        values["channel"] = batch.channel.hex()
    parent = "parent_hash" if batch.kind == "singular" else "parent_check"
    return values | {
        "kind": batch.kind,
        "first_timestamp": batch.first_timestamp,
        "blocks": batch.blocks,
        "transactions": batch.transactions,
        parent: batch.parent.hex(),
        "tx_hashes_sha256": batch.digest.hex(),
    }


def batch_text(batch: BatchSummary) -> str:
    """The batch as a line of text."""
    inclusion = "" if batch.inclusion is None else f"L1 {batch.inclusion}  "
    channel = "" if batch.channel is None else f"channel {batch.channel.hex()}  "
    return (
        f"{inclusion}{channel}{batch.kind}  time {batch.first_timestamp}  blocks {batch.blocks}  "
        f"transactions {batch.transactions}  {batch.digest.hex()}"
    )
