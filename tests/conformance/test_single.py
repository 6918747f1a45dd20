"""The encoding of singular batches: a malformed one ends its channel [SB1 to SB7]."""

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.reasons.batches import TransactionEmpty
from rollup_node.stages.derivation.reasons.channels import SingularBatchMalformed
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, GENESIS, forks_until
from tests.conformance.kit.channel_reading import read_batches
from tests.conformance.kit.planning import USER, channel, child
from tests.conformance.kit.rollup_chain import RollupChain

PARENT, EPOCH_HASH = b"\x11" * 32, b"\x22" * 32
FIELDS = (b"\xa0" + PARENT, b"\x64", b"\xa0" + EPOCH_HASH, b"\x82\x30\x39", b"\xc3\x82\xaa\xbb")
"""Encoded: parent hash, epoch number 100, epoch hash, timestamp 12345, one transaction."""
GOOD = SingularBatch(PARENT, 100, EPOCH_HASH, 12345, (b"\xaa\xbb",))
PLACES = {"parent": 0, "epoch": 1, "hash": 2, "time": 3, "transactions": 4}


def batch(*fields: bytes, claimed: int | None = None) -> bytes:
    """Type byte and list of encoded fields; `claimed` is the length that the list claims."""
    body = b"".join(fields)
    length = len(body) if claimed is None else claimed
    return b"\0\xf8" + bytes((length,)) + body


def changed(**fields: bytes) -> bytes:
    """Return the good batch with other encoded fields."""
    result = list(FIELDS)
    for name, field in fields.items():
        result[PLACES[name]] = field
    return batch(*result)


ENCODED = batch(*FIELDS)


@table(
    single_ok=(ENCODED, GOOD),
    single_trailing=(ENCODED + b"\1\2\3", GOOD),
    single_int_80=(changed(epoch=b"\x80"), SingularBatch(PARENT, 0, EPOCH_HASH, 12345, GOOD.transactions)),
    single_int_max=(
        changed(epoch=b"\x88" + b"\xff" * 8, time=b"\x88" + b"\xff" * 8),
        SingularBatch(PARENT, 2**64 - 1, EPOCH_HASH, 2**64 - 1, GOOD.transactions),
    ),
)
def decoded(encoded: bytes, expected: SingularBatch) -> None:
    batches = read_batches(encoded, ENCODED, fork="bedrock")
    assert batches.batches == [expected, GOOD]
    assert batches.dropped == []


@table(
    single_four_fields=(batch(*FIELDS[:4]), batch(*FIELDS[:3], FIELDS[4])),
    single_six_fields=(batch(*FIELDS, b"\x80"), batch(*FIELDS, b"\xc0")),
    single_hash_31=(changed(parent=b"\x9f" + PARENT[1:]), changed(hash=b"\x9f" + EPOCH_HASH[1:])),
    single_hash_33=(changed(parent=b"\xa1\x11" + PARENT), changed(hash=b"\xa1\x22" + EPOCH_HASH)),
    single_int_00=(changed(epoch=b"\0"), changed(time=b"\0")),
    single_int_8105=(changed(epoch=b"\x81\x05"), changed(time=b"\x81\x05")),
    single_int_820005=(changed(epoch=b"\x82\x00\x05"), changed(time=b"\x82\x00\x05")),
    single_int_9bytes=(changed(epoch=b"\x89\x01" + bytes(8)), changed(time=b"\x89\x01" + bytes(8))),
    single_tx_list=(changed(transactions=b"\xc4\xc3\x82\xaa\xbb"), changed(transactions=b"\xc1\xc0")),
    single_tx_8105=(changed(transactions=b"\xc2\x81\x05"), changed(transactions=b"\xc4\x80\x80\x81\x05")),
    single_txs_string=(changed(transactions=b"\x83\x82\xaa\xbb"), changed(transactions=b"\x80")),
    single_elem_too_long=(
        changed(transactions=b"\xc3\x83\xaa\xbb"),
        batch(*FIELDS, claimed=len(b"".join(FIELDS)) - 1),
    ),
)
def ends_the_channel(*malformed: bytes) -> None:
    """The batch before it is read, the one after it is not; the same before and after Delta."""
    for encoded in malformed:
        for fork in ("bedrock", "holocene"):
            batches = read_batches(ENCODED, encoded, ENCODED, fork=fork)
            assert batches.batches == [GOOD]
            (dropped,) = batches.dropped
            assert (dropped.effect, dropped.reason.kind) == (DropEffect.ENDED, SingularBatchMalformed)


@case("single_tx_empty")
def an_empty_transaction() -> None:
    """It is decoded and checked: the batch is dropped, not the channel."""
    encoded = changed(transactions=b"\xc1\x80")
    assert read_batches(encoded, ENCODED, fork="bedrock").batches[0].transactions == (b"",)
    chain = RollupChain(forks_until("granite"))
    bad, good = child(GENESIS, (b"",)), child(GENESIS, (USER,))
    chain.mine()
    chain.mine(*channel("A", bad.singular, good.singular))
    (derived,) = chain.run()
    assert (derived.ref, derived.ref.l1_origin.number) == (good.ref, FIRST_L1)
    assert chain.take_drops() == [(DropEffect.DROPPED, TransactionEmpty)]
