"""Random valid inputs to mutate: transactions of all types, batches, channels, frames, L1 info and event logs."""

import zlib
from collections.abc import Sequence
from random import Random

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.l1_info import L1Info, encode_l1_info
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.transactions import AccessTuple, Authorization, Transaction, encode_transaction
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch, span_batch
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body, frames

CHAIN_ID, GENESIS_TIME, BLOCK_TIME = 901, 1_700_000_000, 2
KINDS = (0, 1, 2, 4)


def transaction(chance: Random) -> bytes:
    """Return a transaction of a type that a span batch can carry."""
    kind = chance.choice(KINDS)
    access = (AccessTuple(chance.randbytes(20), (chance.randbytes(32),)),) if kind and chance.random() < 0.3 else ()
    signed = Authorization(CHAIN_ID, chance.randbytes(20), 1, 0, _word(chance), _word(chance))
    return encode_transaction(
        Transaction(
            kind=kind,
            chain_id=CHAIN_ID if kind or chance.random() < 0.7 else None,
            nonce=chance.randrange(1 << chance.randrange(1, 60)),
            max_priority_fee=(fee := chance.randrange(1 << 40)),
            max_fee=fee if kind < 2 else chance.randrange(1 << 40),
            gas=chance.randrange(1 << 30),
            to=chance.randbytes(20) if kind == 4 or chance.random() < 0.8 else None,
            value=chance.randrange(1 << chance.randrange(1, 200)),
            data=chance.randbytes(chance.choice((0, 1, 4, 60, 300))),
            y_parity=chance.randrange(2),
            r=_word(chance),
            s=_word(chance),
            access_list=access,
            authorizations=(signed,) if kind == 4 else (),
        )
    )


def _post_exec(chance: Random, number: int) -> bytes:
    """Return a post-exec transaction of this block, with the refund of one of its transactions."""
    refund = rlp.encode_int(chance.randrange(1, 9)) + rlp.encode_int(chance.randrange(1, 1 << 20))
    refunds = rlp.wrap_list(rlp.wrap_list(refund))
    return b"\x7d" + rlp.wrap_list(rlp.encode_int(1) + rlp.encode_int(number) + refunds)


def _word(chance: Random) -> int:
    return chance.randrange(1, 1 << chance.choice((240, 256)))


def blocks(chance: Random, count: int) -> list[BatchBlock]:
    """Consecutive L2 blocks, of which some end with a post-exec transaction."""
    first, epoch = chance.randrange(1, 1 << 20), chance.randrange(100, 1 << 24)
    result = []
    for number in range(first, first + count):
        epoch += chance.random() < 0.2
        users = tuple(transaction(chance) for _ in range(chance.choice((0, 0, 1, 3))))
        if chance.random() < 0.1:
            users += (_post_exec(chance, number),)
        time = GENESIS_TIME + BLOCK_TIME * number
        result.append(BatchBlock(chance.randbytes(32), time, BlockId(epoch, chance.randbytes(32)), users))
    return result


def batch(chance: Random) -> bytes:
    """Return a singular or a span batch with its type byte."""
    return span(chance) if chance.random() < 0.6 else singular_batch(blocks(chance, 1)[0])


def span(chance: Random) -> bytes:
    """Return a span batch with its type byte."""
    covered = blocks(chance, chance.randint(1, 12))
    return span_batch(covered, GENESIS_TIME, covered[0].epoch.number - chance.randrange(2))


def body(chance: Random) -> bytes:
    """Return a channel body: brotli, or zlib at one of several levels, with or without its end mark."""
    batches = [batch(chance) for _ in range(chance.randint(1, 4))]
    variant = chance.randrange(4)
    if variant < 2:
        return channel_body(batches, list(Compression)[variant])
    compressor = zlib.compressobj(chance.choice((0, 1, 9)))
    stream = zlib.decompress(channel_body(batches, Compression.ZLIB))
    return compressor.compress(stream) + compressor.flush(zlib.Z_SYNC_FLUSH if variant == 2 else zlib.Z_FINISH)


def items(chance: Random) -> list[bytes]:
    """Return the batcher data of one or two channels with their frames in random order."""
    result = []
    for _ in range(chance.randint(1, 2)):
        channel = body(chance)
        result += frames(chance.randbytes(16), channel, 23 + chance.randint(40, len(channel) + 50))
    chance.shuffle(result)
    split = chance.randrange(len(result) + 1)
    return [batcher_data(part) for part in (result[:split], result[split:]) if part]


def item(chance: Random) -> bytes:
    """One item of batcher data."""
    return items(chance)[0]


def l1_info(chance: Random) -> bytes:
    """Return the calldata of an L1 attributes transaction."""
    info = L1Info(
        number=chance.randrange(1 << 40),
        timestamp=chance.randrange(1 << 40),
        base_fee=chance.randrange(1 << 100),
        block_hash=chance.randbytes(32),
        sequence_number=chance.randrange(100),
        batcher=chance.randbytes(20),
        base_fee_scalar=chance.randrange(1 << 32),
        blob_base_fee=chance.randrange(1 << 60),
    )
    return encode_l1_info(info, chance.choice(list(L1InfoFormat)))


def words(*parts: bytes | int) -> bytes:
    """ABI-encoded words."""
    return b"".join(part.to_bytes(32, "big") if isinstance(part, int) else part.rjust(32, b"\0") for part in parts)


def deposit_log(chance: Random) -> bytes:
    """Return the four topics and the data of a deposit log, concatenated."""
    opaque = words(chance.randrange(1 << 90), 5) + bytes(8) + bytes((chance.randrange(2),)) + chance.randbytes(40)
    padded = opaque.ljust(-(-len(opaque) // 32) * 32, b"\0")
    topics = DEPOSIT_TOPIC + words(chance.randbytes(20), chance.randbytes(20), 0)
    return topics + words(32, len(opaque)) + padded


def config_log(chance: Random) -> bytes:
    """Return the three topics and the data of a system config log, concatenated."""
    kind = chance.randrange(7)
    values: Sequence[bytes | int] = (
        (chance.randbytes(20),) if kind == 0 else (chance.randrange(1 << 60),) * (1 + (kind == 1))
    )
    return CONFIG_UPDATE_TOPIC + words(0, kind) + words(32, 32 * len(values), *values)
