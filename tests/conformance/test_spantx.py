"""The conversion of span batches to blocks: transactions as the engine takes them, times and epochs [CV1 to CV10].

What is expected is encoded by another RLP library."""

from collections.abc import Iterator

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch, SpanBlock
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.batch_checks import BatchValidity
from rollup_node.stages.derivation.reasons.batches import SpanEpochTooNew
from rollup_node.stages.derivation.reasons.channels import SpanBatchMalformed, SpanTransactionInvalid
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.batch_checks import BatchCheckHarness
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, GENESIS, GENESIS_TIME, forks_until, l1_hash
from tests.conformance.kit.channel_reading import read_batches
from tests.conformance.kit.planning import plan
from tests.conformance.kit.span_fields import TO, R, S, SpanFields, Tx, post_exec, span_fields

pytestmark = pytest.mark.fault("F22")

MARK = plan(GENESIS, 1)[0].singular
VALUE, PRICE, TIP, DATA = b"\x05", b"\x09", b"\x01", b"\xda\x7a"
ACCOUNT, SLOT = b"\x77" * 20, b"\x88" * 32
LEGACY = (VALUE, PRICE, DATA)
ACCESS = (VALUE, PRICE, DATA, [[ACCOUNT, [SLOT, SLOT]]])
DYNAMIC: tuple[object, ...] = (VALUE, TIP, PRICE, DATA, [])
AUTHORIZATION = [b"\x0a", ACCOUNT, b"", b"\x01", b"\x11" * 32, b"\x22" * 32]
SET_CODE: tuple[object, ...] = (VALUE, TIP, PRICE, DATA, [], [AUTHORIZATION])
VALUE_33 = b"\x01" + bytes(32)
ERAS = ("delta", "holocene", "lagoon")
HIGH = b"\0\0" + b"\x33" * 30


def restored(*txs: Tx) -> tuple[bytes, ...]:
    """Return the whole transactions of a span with these."""
    result = read_batches(span_fields([txs]).encode(), MARK, fork="delta")
    span, _ = result.batches
    assert isinstance(span, SpanBatch)
    assert result.dropped == []
    return tuple(span.transactions)


def refusal_of(encoded: bytes, fork: str) -> Reason:
    """Why the span is dropped, and nothing but the span."""
    span = read_batches(encoded, MARK, fork=fork)
    assert len(span.batches) == 1
    (dropped,) = span.dropped
    assert dropped.effect is DropEffect.DROPPED
    return dropped.reason


@table(
    spantx_legacy_unprotected=(Tx(0, LEGACY, parity=1, protected=0), 28),
    spantx_legacy_protected=(Tx(0, LEGACY, parity=0, protected=1), 55, Tx(0, LEGACY, parity=1, protected=1), 56),
    spantx_type1_chainid=Tx(1, ACCESS, parity=1),
    spantx_value_33_bytes=(
        Tx(0, (b"\x80", b"\1" + bytes(59), DATA)),
        27,
        Tx(2, (VALUE_33, VALUE_33, VALUE_33, DATA, [])),
    ),
    spantx_setcode_empty_auth=(
        Tx(4, (*SET_CODE[:5], [])),
        None,
        Tx(4, (*SET_CODE[:5], [[b"\x80", ACCOUNT, b"\xc8", b"\xff", b"\xff" * 32, b""], AUTHORIZATION])),
    ),
    spantx_create_tx=Tx(2, DYNAMIC, to=None),
    spantx_r_zero=Tx(2, DYNAMIC, r=bytes(32)),
    spantx_r_leading_zero=Tx(2, DYNAMIC, r=HIGH, s=HIGH),
    spantx_nonce_max=Tx(2, DYNAMIC, nonce=2**64 - 1, gas=2**64 - 1),
)
def comes_back(tx: Tx, v: int | None = None, second: Tx | None = None, second_v: int | None = None) -> None:
    assert restored(tx) == (tx.full(v),)
    if second is not None:
        assert restored(tx, second) == (tx.full(v), second.full(second_v))
    other = Tx(4, SET_CODE)
    assert restored(other, tx, other) == (other.full(), tx.full(v), other.full())


@case("spantx_protected_index")
def protected_bits_go_by_legacy_transactions() -> None:
    typed = Tx(2, DYNAMIC)
    plain, protected = Tx(0, LEGACY, protected=0), Tx(0, LEGACY, protected=1)
    for first, second, v in ((plain, protected, (27, 55)), (protected, plain, (55, 27))):
        expected = (typed.full(), first.full(v[0]), typed.full(), second.full(v[1]))
        assert restored(typed, first, typed, second) == expected


def authorized(place: int, item: object) -> Tx:
    """Return a transaction of type 4 with another item in its authorization."""
    return Tx(4, (*SET_CODE[:5], [[*AUTHORIZATION[:place], item, *AUTHORIZATION[place + 1 :]]]))


@table(
    spantx_value_leading_zero=(
        Tx(raw=b"\xc6\x82\x00\x01\x09\x81\xda"),
        Tx(raw=b"\xc4\x00\x09\x81\xda"),
        Tx(raw=b"\xc5\x81\x05\x09\x81\xda"),
        Tx(2, (VALUE, TIP, b"\0\1", DATA, [])),
        Tx(2, (VALUE, TIP, [], DATA, [])),
    ),
    spantx_setcode_value_33=(
        Tx(4, (VALUE_33, *SET_CODE[1:])),
        Tx(4, (VALUE, VALUE_33, *SET_CODE[2:])),
        Tx(4, (VALUE, TIP, VALUE_33, *SET_CODE[3:])),
        *(authorized(place, b"\1" * (size + 1)) for place, size in enumerate((32, 20, 8, 1, 32, 32))),
        authorized(1, ACCOUNT[1:]),
        Tx(4, (*SET_CODE[:5], [AUTHORIZATION[:5]])),
        Tx(4, (*SET_CODE[:5], [[*AUTHORIZATION, b""]])),
        Tx(4, (*SET_CODE[:5], [[*AUTHORIZATION, AUTHORIZATION]])),
        Tx(4, (*SET_CODE[:5], [[AUTHORIZATION]])),
        Tx(4, SET_CODE[:5]),
    ),
    spantx_setcode_create=Tx(4, SET_CODE, to=None),
    spantx_four_fields_legacy=(
        Tx(0, (*LEGACY, b"\x01")),
        Tx(0, LEGACY[:2]),
        *(Tx(raw=raw) for raw in (b"\xc0", b"\xc1\xb7", b"\xc2\x05\xb7", b"\xc1\xa0", b"\xc3\x05\x09\x82")),
        Tx(2, raw=b"\x02\xc1\xb7"),
        Tx(0, (*LEGACY[:2], [])),
        Tx(raw=b"\xc4\x05\x09\x81\x05"),
        Tx(2, (*DYNAMIC, [])),
    ),
    spantx_access_key_31=(
        Tx(1, (VALUE, PRICE, DATA, [[ACCOUNT, [SLOT[1:]]]])),
        Tx(1, (VALUE, PRICE, DATA, [[ACCOUNT, [SLOT, SLOT + b"\1"]]])),
        Tx(1, (VALUE, PRICE, DATA, [[ACCOUNT[1:], [SLOT]]])),
        Tx(1, (VALUE, PRICE, DATA, [[ACCOUNT, [SLOT], b""]])),
        Tx(1, (VALUE, PRICE, DATA, [[ACCOUNT, [SLOT], [ACCOUNT, [SLOT]]]])),
        Tx(1, (VALUE, PRICE, DATA, [[ACCOUNT]])),
        Tx(1, (VALUE, PRICE, DATA, b"")),
        Tx(1, LEGACY),
    ),
)
def is_not_restored(*txs: Tx) -> None:
    """The batch is dropped and its channel continues, also in Holocene."""
    for place, tx in enumerate(txs):
        reason = refusal_of(span_fields([[Tx(2, DYNAMIC), tx]]).encode(), ERAS[place % 3])
        assert (reason.kind, reason.values["index"]) == (SpanTransactionInvalid, 1)


def spans_with(tx: Tx) -> Iterator[tuple[int, SpanFields]]:
    """Spans of three blocks, in one of which this transaction is, with its index."""
    typed, legacy = Tx(2, DYNAMIC), Tx(0, LEGACY, protected=1)
    for place in range(3):
        blocks = [[typed], [legacy, typed], [legacy]]
        blocks[place].append(tx)
        yield sum(map(len, blocks[: place + 1])) - 1, span_fields(blocks)


@case("spantx_postexec_empty")
def post_exec_comes_back() -> None:
    for at, fields in spans_with(post_exec()):
        for era in ERAS:
            span, _ = read_batches(fields.encode(), MARK, fork=era).batches
            assert isinstance(span, SpanBatch)
            assert tuple(span.transactions)[at] == b"\x7d\xc3\x01\x05\xc0"


@case("spantx_postexec_two_blocks")
def post_exec_of_a_block_before_lagoon() -> None:
    """Chain 901, two seconds a block: op-node 1.19.6 converts these bytes to two blocks."""
    raw = bytes.fromhex(f"0a05{'00' * 40}020000010100{'00' * 64}7dc30105c00000")
    span = decode_batch(b"\1" + raw, SpanRules(901, GENESIS_TIME, 2))
    assert isinstance(span, SpanBatch)
    expected = SpanBlock(GENESIS_TIME + 10, 5, ()), SpanBlock(GENESIS_TIME + 12, 5, (bytes.fromhex("7dc30105c0"),))
    assert tuple(span.blocks()) == expected


@table(
    spantx_postexec_creation=("recipient", post_exec(to=TO)),
    spantx_postexec_parity=("y parity", post_exec(parity=1)),
    spantx_postexec_r=("r", post_exec(r=R)),
    spantx_postexec_s=("s", post_exec(s=S)),
    spantx_postexec_nonce=("nonce", post_exec(nonce=1)),
    spantx_postexec_gas=("gas limit", post_exec(gas=1)),
)
def post_exec_with_a_filled_column(column: str, tx: Tx) -> None:
    """The batch goes alone, in every block and era; what is in the column does not matter."""
    for at, fields in spans_with(tx):
        for era in ERAS:
            error = f"a post-exec transaction with {column}"
            assert refusal_of(fields.encode(), era) == SpanTransactionInvalid(at, error)


@case("spantx_postexec_recipient")
def recipients_of_post_exec() -> None:
    """A recipient that the creation bit does not announce is read as data, and data as one that it announces."""
    for _, fields in spans_with(post_exec()):
        malformed(fields.but(tos=fields.tos + TO))
    malformed(span_fields([[post_exec(to=TO)]]).but(tos=b""))


def malformed(fields: SpanFields) -> None:
    """The channel ends with the span."""
    span = read_batches(fields.encode(), MARK, fork="lagoon")
    assert (span.batches, span.reason_type) == ([], SpanBatchMalformed)


@case("spantx_postexec_long_zeros")
def zeros_in_a_longer_form() -> None:
    fields = span_fields([[], [post_exec()]])
    span, _ = read_batches(fields.but(nonces=b"\x80\0", gas_limits=b"\x80\x80\0").encode(), MARK, fork="lagoon").batches
    assert span.transactions == (post_exec().data,)


@case("spantx_postexec_protected")
def post_exec_has_no_protected_bit() -> None:
    first, second = Tx(0, LEGACY, protected=0), Tx(0, LEGACY, protected=1)
    assert restored(first, post_exec(), second) == (first.full(27), post_exec().data, second.full(55))
    malformed(span_fields([[first, post_exec(), second]]).but(protected_bits=b"\x06"))
    assert span_fields([[post_exec()]]).protected_bits == b"" and restored(post_exec()) == (post_exec().data,)


@case("spantx_postexec_content")
def content_of_post_exec_is_not_read() -> None:
    """An unknown version, a block of another number, no fields, an item that is cut off, a long list."""
    for raw in (b"\xc2\x09\xc0", b"\xc4\x01\x82\xff\xff", b"\xc0", b"\xc1\xb7", b"\xf8\x38" + bytes(56)):
        assert restored(post_exec(raw=b"\x7d" + raw)) == (b"\x7d" + raw,)
    for raw in (b"\x80", b"\x83abc", b"\x05", b"\xf8\x37" + bytes(55)):
        malformed(span_fields([[post_exec(raw=b"\x7d" + raw)]]))


def epochs_of(bits: list[int], origin: int) -> list[int]:
    """Return the epochs of the blocks of an otherwise empty span."""
    span = read_batches(span_fields([[]] * len(bits), bits, origin=origin).encode(), MARK, fork="delta").batches[0]
    assert isinstance(span, SpanBatch)
    result = [block.epoch_number for block in span.blocks()]
    assert (span.first_epoch, span.last_epoch) == (result[0], result[-1])
    return result


@table(spantx_epoch_bits=[1, 0, 1], spantx_epoch_bit0_ignored=[0, 0, 1])
def epochs_are_counted_from_the_last(bits: list[int]) -> None:
    assert epochs_of(bits, 100) == [99, 99, 100]


@case("spantx_epoch_wrap")
def epochs_below_zero() -> None:
    """They wrap, and then lie ahead of any that may be; the window's sum wraps as well."""
    assert epochs_of([0, 1], 0) == [2**64 - 1, 0]
    checks = BatchCheckHarness(forks_until("delta"), seq_window_size=FIRST_L1 + 100)
    encoded = span_fields(
        [[], []], [0, 1], origin=0, parent_check=GENESIS.hash[:20], origin_check=l1_hash(0)[:20]
    ).encode()
    assert checks.span(checks.decoded(encoded)) == (BatchValidity.DROP, SpanEpochTooNew)


@case("spantx_time_wrap")
def time_before_genesis() -> None:
    span = read_batches(span_fields([[], []], relative_time=2**64 - 10).encode(), MARK, fork="delta").batches[0]
    assert isinstance(span, SpanBatch)
    assert [block.timestamp for block in span.blocks()] == [GENESIS_TIME - 10, GENESIS_TIME - 8]
