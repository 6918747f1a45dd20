"""Batches in bytes, decoded by the deriver's own parsers as `rollup-node decode` does."""

from collections.abc import Iterable, Iterator

import msgspec

from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.api.chains import Chain, chain_of, config_of
from rollup_node.tools.api.errors import DataError, InputError
from rollup_node.tools.inspect.batch_summary import BatchSummary, BlockNumbers, block_numbers
from rollup_node.tools.inspect.decoding import READERS, Decoder, DecoderOutput, DecodingRules, FoundBatch
from rollup_node.tools.inspect.lazy_batches import LazyBatch

BLOCK_TIME = 2
"""Seconds between L2 blocks where no chain is named."""


class DecodedBlock(msgspec.Struct, frozen=True):
    """A block of a decoded batch.

    `number` is None without a chain, the hashes are in singular batches only."""

    number: int | None
    timestamp: int
    epoch_number: int
    epoch_hash: Hash | None
    parent_hash: Hash | None
    transactions: tuple[bytes, ...]


class DecodedBatch:
    """A decoded batch, which is not checked against a chain.

    `kind` is "span" or "singular", `parent` the parent hash of a singular batch or the 20 bytes of a span's parent
    check, and `tx_hashes_sha256` the SHA-256 over the hashes of its transactions. `channel`, `channel_bytes` and
    `l1_transactions` are known where the bytes say them."""

    def __init__(self, batch: LazyBatch, summary: BatchSummary, numbers: BlockNumbers | None) -> None:
        self._batch, self._numbers = batch, numbers
        self.kind, self.first_timestamp, self.blocks = summary.kind, summary.first_timestamp, summary.blocks
        self.transactions, self.parent, self.tx_hashes_sha256 = summary.transactions, summary.parent, summary.digest
        self.channel, self.channel_bytes = summary.channel, summary.channel_bytes
        self.l1_transactions = summary.l1_transactions

    def l2_blocks(self) -> Iterator[DecodedBlock]:
        """Yield the blocks in order; to be read before the next batch is taken, as the largest batch fills memory."""
        for block in self._batch.blocks():
            number = None if self._numbers is None else self._numbers.at(block.timestamp)
            yield DecodedBlock(
                number,
                block.timestamp,
                block.epoch_number,
                block.epoch_hash,
                block.parent_hash,
                tuple(block.transactions),
            )

    def __repr__(self) -> str:
        return f"DecodedBatch({self.kind!r}, first_timestamp={self.first_timestamp}, blocks={self.blocks})"


def decode_batches(
    inputs: Iterable[bytes], kind: str = "data", *, chain: str | Chain | None = None, l1_time: int | None = None
) -> Iterator[DecodedBatch | DataError]:
    """Decode the batches in `inputs`, whose frames are joined by channel in any order.

    Each input is of this kind: "transaction" (signed, of L1), "blob", "data" or "frames" (of a transaction to the
    batch inbox), "channel" (a compressed body), "batch", or "raw-span". With a `chain` the rules are those at `l1_time`
    in Unix seconds, or else at the time of the channel's first batch. Without one they have their widest form, times
    count from 0, and hashes of transactions in spans are those of chain id 0.

    Yields each batch, and for what does not decode a DataError with the rule and the place. Raises InputError for
    another kind."""
    if kind not in READERS:
        raise InputError(f"kind={kind!r} is none of {', '.join(READERS)}")
    return _decoded(Decoder(_rules(chain, l1_time), kind), inputs, _numbers(chain))


def decode_channel(
    body: bytes, *, chain: str | Chain | None = None, l1_time: int | None = None
) -> Iterator[DecodedBatch | DataError]:
    """Decode the batches in the compressed body of a channel: `decode_batches` of this one input."""
    return decode_batches((body,), "channel", chain=chain, l1_time=l1_time)


def _decoded(
    decoder: Decoder, inputs: Iterable[bytes], numbers: BlockNumbers | None
) -> Iterator[DecodedBatch | DataError]:
    for index, data in enumerate(inputs):
        for output in decoder.read(f"input {index}", data):
            yield _output(output, numbers)
    for output in decoder.finish():
        yield _output(output, numbers)


def _output(output: DecoderOutput, numbers: BlockNumbers | None) -> DecodedBatch | DataError:
    if not isinstance(output, FoundBatch):
        return DataError(f"{output.position}: {output.text}", rule=output.rule)
    summary = output.batch.summary(output.position.channel, output.channel_bytes)
    summary = msgspec.structs.replace(summary, l1_transactions=output.position.transactions)
    return DecodedBatch(output.batch, summary, numbers)


def _rules(chain: str | Chain | None, l1_time: int | None) -> DecodingRules:
    if chain is None:
        return DecodingRules(SpanRules(0, 0, BLOCK_TIME), None, l1_time)
    config = config_of(chain_of(chain))
    span = SpanRules(config.l2_chain_id, config.genesis.l2_time, config.block_time)
    return DecodingRules(span, config.schedule(), l1_time)


def _numbers(chain: str | Chain | None) -> BlockNumbers | None:
    return None if chain is None else block_numbers(config_of(chain_of(chain)))
