"""What derivation reads on L1: batcher data, channels, batches, blobs, deposits, L1 info, logs and commitments."""

from random import Random

from rollup_node.stages.blobs.tasks import BLOB_SIZE, MAX_DATA, BlobDataError, decode_blob
from rollup_node.stages.derivation.codec.batches import RejectedBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch, read_batches
from rollup_node.stages.derivation.codec.frames import parse_frames, prune_frames
from rollup_node.stages.derivation.codec.span_batch import SpanBatchError, SpanRules, decode_span
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.commitments import (
    ChallengeError,
    CommitmentError,
    decode_commitment,
    decode_event,
    keccak_commitment,
    resolve_data,
)
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.deposits import (
    DepositError,
    decode_deposit,
    deposit_from_log,
    encode_deposit,
)
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L1Rules
from rollup_node.stages.protocol.headers import HeaderError, encode_header, header_from_json, header_hash
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import L1InfoError, encode_l1_info, parse_l1_info
from rollup_node.stages.protocol.receipts import decode_receipt, logs_of_receipts, receipt_from_json
from rollup_node.stages.protocol.system_config import apply_updates
from rollup_node.stages.protocol.transactions import TransactionError, decode_transaction, encode_transaction
from rollup_node.stages.protocol.types import Log, MalformedLog
from rollup_node.tools.batcher.channels import Frame, batcher_data, encode_blob
from rollup_node.tools.fuzz.targets import seeds
from rollup_node.tools.fuzz.targets.chain_seeds import l1_seed, payload
from rollup_node.tools.fuzz.targets.target import FuzzTarget
from rollup_node.tools.inspect.batch_summary import hashes_digest
from rollup_node.tools.inspect.lazy_batches import lazy_batch
from rollup_node.tools.recorded.encoded_blocks import decode_header

RULES = SpanRules(seeds.CHAIN_ID, seeds.GENESIS_TIME, seeds.BLOCK_TIME)
LIMIT = 1_000_000
MAX_BLOCKS = 100_000
"""Spans of more blocks are not iterated over, which would be slow."""


def frames(data: bytes) -> object:
    """Batcher data: parsed frames encode to the same bytes, and each is either kept or pruned for a reason."""
    result = parse_frames(data)
    if isinstance(result, Reason):
        assert str(result)
        return result.name
    assert batcher_data([Frame(item.channel, item.number, item.data, item.is_last) for item in result]) == data
    kept, reasons = prune_frames(result)
    assert len(kept) + len(reasons) == len(result)
    return sorted({reason.name for reason in reasons})


def channel(data: bytes) -> object:
    """Return a channel body under the rules of late and early forks: batches, then one reason why reading ended."""
    ends = []
    for limit, brotli in ((LIMIT, True), (LIMIT // 10, False)):
        outcomes = list(read_batches(data, limit, brotli, RULES))
        assert isinstance(outcomes[-1], Reason) and str(outcomes[-1])
        assert not any(isinstance(outcome, Reason) for outcome in outcomes[:-1])
        ends.append(outcomes[-1].name)
    return ends


def batch(data: bytes) -> object:
    """Return a batch: the deriver's reading and that of `decode`."""
    decoded, lazy = decode_batch(data, RULES), lazy_batch(data, RULES)
    if isinstance(decoded, Reason | RejectedBatch):
        assert lazy == decoded
        return (decoded.reason if isinstance(decoded, RejectedBatch) else decoded).name
    assert not isinstance(lazy, Reason | RejectedBatch)
    listed = lazy.summary(None)
    assert (listed.transactions, listed.digest) == (len(decoded.transactions), hashes_digest(decoded.transactions))
    if listed.blocks <= MAX_BLOCKS:
        blocks = decoded.blocks() if isinstance(decoded, SpanBatch) else iter((decoded,))
        known = [(item.timestamp, item.epoch_number, tuple(item.transactions)) for item in blocks]
        assert [(item.timestamp, item.epoch_number, tuple(item.transactions)) for item in lazy.blocks()] == known
        assert (listed.first_timestamp, listed.blocks) == (known[0][0], len(known))
    return type(decoded).__name__


def span(data: bytes) -> object:
    """Return a span batch without its type byte: its blocks together have all its transactions, in order."""
    try:
        result = decode_span(data, 0, RULES)
    except SpanBatchError as error:
        assert 0 <= error.offset <= len(data) and str(error)
        return " ".join(word for word in str(error).split() if word.isalpha())
    if isinstance(result, SpanBatch) and result.block_count <= MAX_BLOCKS:
        walked = [block.transactions for block in result.blocks()]
        assert sum(map(len, walked)) == len(result.transactions)
        assert tuple(result.transactions) == tuple(raw for block in walked for raw in block)
    return type(result).__name__ if isinstance(result, SpanBatch) else result.name


def rlp_item(data: bytes) -> None:
    """RLP: what decodes is canonical."""
    assert rlp.encode(rlp.decode(data)) == data


def transaction(data: bytes) -> object:
    """Return a transaction: what is decoded encodes to the same bytes."""
    result = decode_transaction(data)
    assert encode_transaction(result) == data
    return result.kind


def receipt(data: bytes) -> object:
    """Return a receipt in RLP, and the search for its logs, which raises nothing."""
    logs_of_receipts([data, data], {(data[-20:], data[:32])})
    return decode_receipt(data).kind


def header(data: bytes) -> None:
    """Parse a block header in RLP: its hash is that of the bytes."""
    assert header_hash(decode_header(data)) == keccak256(data)


def commitment(data: bytes) -> object:
    """Return a commitment of Alt-DA."""
    result = decode_commitment(data)
    assert result.encode() == data
    return result.kind


def deposit(data: bytes) -> None:
    """Parse a deposit transaction of an L2 block."""
    assert encode_deposit(decode_deposit(data)) == data


def challenge_log(data: bytes) -> object:
    """Return a log of the challenge contract of Alt-DA, and the calldata that resolves a challenge."""
    try:
        return len(resolve_data(data)) > 32
    except ChallengeError:
        return decode_event(_log(data, 2)).status


def blob(data: bytes) -> None:
    """Parse a blob that begins with these bytes and is otherwise zero."""
    whole = data[:BLOB_SIZE].ljust(BLOB_SIZE, b"\0")
    try:
        result = decode_blob(whole)
    except BlobDataError as error:
        assert error.rule in str(error)
        return
    assert len(result) <= MAX_DATA
    assert encode_blob(result)[1:] == whole[1:]


def l1_info(data: bytes) -> None:
    """Parse the calldata of L1 attributes: what is parsed survives encoding; ignored padding may differ."""
    for layout in L1InfoFormat:
        try:
            result = parse_l1_info(data, layout)
        except L1InfoError:
            continue
        again = encode_l1_info(result, layout)
        assert parse_l1_info(again, layout) == result


def deposit_log(data: bytes) -> object:
    """Return a deposit log: what is parsed survives encoding as a deposit."""
    result = deposit_from_log(_log(data, 4), bytes(32))
    if isinstance(result, MalformedLog):
        assert result.text
        return "refused"
    assert decode_deposit(encode_deposit(result)) == result
    return "deposit"


def config_log(data: bytes) -> object:
    """Return a system config log: a skipped update changes nothing."""
    before = SystemConfig(bytes(20), bytes(32), bytes(32), 1)
    for rules in (L1Rules(), L1Rules(packed_fee_scalars=True)):
        after, skipped = apply_updates(before, [_log(data, 3)], rules)
        assert not skipped or after == before
    return len(skipped), after == before


def _log(data: bytes, topics: int) -> Log:
    """Return a log whose topics are the first `topics` words of the bytes, or as many as there are."""
    head, rest = data[: 32 * topics], data[32 * topics :]
    return Log(bytes(20), tuple(head[at : at + 32] for at in range(0, len(head) - 31, 32)), rest, 3)


def _raw_span(chance: Random) -> bytes:
    return seeds.span(chance)[1:]


def _receipt(chance: Random) -> bytes:
    return receipt_from_json(chance.choice(l1_seed().receipts))


def _header(chance: Random) -> bytes:
    return encode_header(header_from_json(l1_seed().block))


def _deposit(chance: Random) -> bytes:
    return payload().transactions[0]


def _commitment(chance: Random) -> bytes:
    return keccak_commitment(chance.randbytes(9)).encode() if chance.random() < 0.5 else b"\1" + chance.randbytes(40)


def _challenge(chance: Random) -> bytes:
    """Return a log of a challenge: its two topics, then its data."""
    encoded = _commitment(chance)
    words = seeds.words(64, chance.randrange(4), len(encoded)) + encoded.ljust(64, b"\0")
    return keccak256(b"event") + seeds.words(chance.randrange(1 << 40)) + words


def _blob(chance: Random) -> bytes:
    return encode_blob(seeds.item(chance)[:1000])[:2000]


BATCHER = "batcher key"
L1_USER = "L1 user"
TARGETS: dict[str, FuzzTarget] = {
    "frames": FuzzTarget(BATCHER, frames, seeds.item),
    "channel": FuzzTarget(BATCHER, channel, seeds.body),
    "batch": FuzzTarget(BATCHER, batch, seeds.batch),
    "span": FuzzTarget(BATCHER, span, _raw_span),
    "blob": FuzzTarget(BATCHER, blob, _blob),
    "commitment": FuzzTarget(BATCHER, commitment, _commitment, (CommitmentError,)),
    "rlp": FuzzTarget(BATCHER, rlp_item, seeds.transaction, (rlp.RlpError,)),
    "transaction": FuzzTarget(L1_USER, transaction, seeds.transaction, (TransactionError,)),
    "receipt": FuzzTarget(L1_USER, receipt, _receipt, (rlp.RlpError,)),
    "header": FuzzTarget("L1 endpoint", header, _header, (HeaderError,)),
    "l1-info": FuzzTarget("L2 endpoint", l1_info, seeds.l1_info),
    "deposit": FuzzTarget("L2 endpoint", deposit, _deposit, (DepositError,)),
    "deposit-log": FuzzTarget(L1_USER, deposit_log, seeds.deposit_log),
    "config-log": FuzzTarget(L1_USER, config_log, seeds.config_log),
    "challenge-log": FuzzTarget(L1_USER, challenge_log, _challenge, (ChallengeError,)),
}
"""The targets by name."""
