"""What a round needs of a block, verified: the header by its hash, the receipts by the header's root [VR8]."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rollup_node.stages.interop.rounds import ChainBlock
from rollup_node.stages.protocol.headers import Header, HeaderError, header_from_json, header_hash
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex
from rollup_node.stages.protocol.interop_messages import block_logs
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import LogJson, ReceiptError, parse_receipt, receipt_from_json
from rollup_node.stages.protocol.types import BlockRef

_NO_LOGS = bytes(256)


class ContentError(ValueError):
    """The engine's answer is not the block, or not its receipts."""


class VerifiedHeader(msgspec.Struct, frozen=True):
    """A header whose hash was computed."""

    header: Header
    ref: BlockRef

    @property
    def has_logs(self) -> bool:
        """Whether the block may have logs: an empty bloom proves that it has none."""
        return self.header.logs_bloom != _NO_LOGS


def verified_header(answer: Any, number: int) -> VerifiedHeader:
    """Return the header in a HeaderJson of the block `number`. Raises ContentError."""
    try:
        header = header_from_json(msgspec.structs.asdict(answer))
        block_hash = hash_from_hex(answer.hash)
    except (HeaderError, HexError) as error:
        raise ContentError(f"block {number} is malformed: {error}") from None
    if header.number != number:
        raise ContentError(f"it returns block {header.number} for block {number}")
    if header_hash(header) != block_hash:
        raise ContentError(f"the header of block {number} does not have the hash {answer.hash}")
    return VerifiedHeader(header, BlockRef(block_hash, number, header.parent_hash, header.timestamp))


def block_content(verified: VerifiedHeader, receipts: Sequence[msgspec.Raw]) -> ChainBlock:
    """Return a block with these receipts, each a JSON text; none for a block without logs [VR8].

    One receipt after the other is decoded, so that memory holds the objects of one. Raises ContentError."""
    header, encoded = verified.header, list[bytes]()

    def logs() -> Iterator[LogJson]:
        for text in receipts:
            receipt = parse_receipt(text)
            encoded.append(receipt_from_json(receipt))
            yield from receipt.logs

    try:
        result = block_logs(verified.ref, logs())
    except ReceiptError as error:
        raise ContentError(f"the receipts of block {header.number} are malformed: {error}") from None
    if verified.has_logs and ordered_root(encoded) != header.receipts_root:
        raise ContentError(f"the receipts of block {header.number} do not match its receipts root")
    if header.withdrawals_root is None:
        raise ContentError(f"block {header.number} is from before Isthmus: interop cannot begin there")
    return ChainBlock(result, header.state_root, header.withdrawals_root)
