"""Batches decoded from all kinds of files; failures with their position and rule."""

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.blobs.tasks import BLOB_SIZE
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import encode_bytes, wrap_list
from rollup_node.stages.protocol.transactions import BLOB, DYNAMIC_FEE, Transaction, encode_transaction
from rollup_node.tools.batcher.channels import Compression, Frame, batcher_data, channel_body
from rollup_node.tools.fuzz.targets.batch_data import batch
from rollup_node.tools.inspect import decoding
from rollup_node.tools.inspect.decoding import DecodeFailure, Decoder, DecoderOutput, DecodingRules, FoundBatch
from tests.conformance.kit.chain import L2_CHAIN_ID
from tests.conformance.kit.span_fields import Tx, post_exec, span_fields

WIDEST = DecodingRules(SpanRules(L2_CHAIN_ID, 1000, 2))
SPAN = span_fields([[Tx()]]).encode()
"""A span batch of one block at 1002."""
A, B = b"A" * 16, b"B" * 16


def _singular(time: int, *transactions: bytes) -> bytes:
    fields = encode_bytes(b"p" * 32) + b"\x05" + encode_bytes(b"e" * 32) + encode_bytes(time.to_bytes(2, "big"))
    return b"\0" + wrap_list(fields + wrap_list(b"".join(map(encode_bytes, transactions))))


def _body(*batches: bytes, brotli: bool = False) -> bytes:
    return channel_body(batches, Compression.BROTLI if brotli else Compression.ZLIB)


def _outcomes(kind: str, *files: bytes, rules: DecodingRules = WIDEST) -> list[DecoderOutput]:
    decoder = Decoder(rules, kind)
    result = [outcome for number, data in enumerate(files) for outcome in decoder.read(f"f{number}", data)]
    return [*result, *decoder.finish()]


def _lines(kind: str, *files: bytes, rules: DecodingRules = WIDEST) -> list[str]:
    """Batches as their first timestamps, failures as rule and place."""
    return [
        str(outcome.batch.first_timestamp)
        if isinstance(outcome, FoundBatch)
        else f"{outcome.rule} at {outcome.position}"
        for outcome in _outcomes(kind, *files, rules=rules)
    ]


def _times(**times: int) -> DecodingRules:
    return DecodingRules(WIDEST.span, ForkSchedule(times, 2, 300, 600))


def test_frames_are_joined_per_channel_in_any_order() -> None:
    first, second = _body(_singular(1000), _singular(1002)), _body(_singular(1004))
    half = len(first) // 2
    files = [
        batcher_data([Frame(A, 1, first[half:], True)]),
        batcher_data([Frame(B, 0, second, True), Frame(A, 0, first[:half], False)]),
    ]
    result = _outcomes("data", *files)
    places = [(outcome.position.files, outcome.position.channel) for outcome in result]
    assert places == [(("f1",), B), *[(("f0", "f1"), A)] * 2]
    assert _lines("frames", *files) == _lines("data", *files) == ["1004", "1000", "1002"]


def _sent(data: bytes, kind: int = DYNAMIC_FEE, **changes: Any) -> bytes:
    transaction = Transaction(kind, 1, 0, 1, 1, 21000, b"\1" * 20, 0, data, 0, 5, 6, **changes)
    return encode_transaction(transaction)


def test_batches_in_transactions_have_their_hashes() -> None:
    body = _body(_singular(1000))
    files = [
        _sent(batcher_data([Frame(A, 0, body[:9], False)])),
        _sent(batcher_data([Frame(A, 1, body[9:], True), Frame(B, 0, body, False)])),
    ]
    result, *_ = _outcomes("transaction", *files)
    assert isinstance(result, FoundBatch)
    assert result.position.transactions == tuple(map(keccak256, files))
    assert result.position.files == ("f0 (data of the transaction)", "f1 (data of the transaction)")
    (alone,) = _outcomes("data", batcher_data([Frame(A, 0, body, True)]))
    assert not alone.position.transactions


def test_what_is_no_transaction_with_data() -> None:
    blob_hash = b"\1" + bytes(31)
    no_transaction, in_blobs = _outcomes("transaction", b"\5\xc0", _sent(b"", BLOB, blob_hashes=(blob_hash,)))
    assert isinstance(no_transaction, DecodeFailure) and isinstance(in_blobs, DecodeFailure)
    assert (no_transaction.rule, no_transaction.text.split(":")[0]) == ("BF1", "no L1 transaction")
    assert in_blobs.rule == "O2" and f"to be read with --as blob: 0x{blob_hash.hex()} [O2]" in in_blobs.text


def test_the_beginning_of_an_incomplete_channel_is_read() -> None:
    body = _body(_singular(1000), _singular(1002, bytes(range(200)) * 9))
    lines = _lines("data", batcher_data([Frame(A, 0, body[:-40], False), Frame(A, 3, b"x", False)]))
    assert lines[0] == f"CB5 at f0: channel {A.hex()}, offset 0"
    assert lines[1] == "1000"
    assert lines[2].startswith(f"ST6 at f0: channel {A.hex()}, decompressed offset ")
    assert _lines("data", batcher_data([Frame(A, 1, body, True)])) == [f"CB5 at f0: channel {A.hex()}, offset 0"]


def test_frames_that_no_channel_takes() -> None:
    frame = Frame(A, 0, b"x" * 10, False)
    lines = _lines("data", batcher_data([frame, frame, Frame(A, 7, b"", False), Frame(A, 5, b"", True)]))
    place = f"at f0: channel {A.hex()}, offset"
    assert lines[:2] == [f"CB9.2 {place} 34", f"CB10 {place} 90"]


def test_too_many_frames_push_out_the_oldest_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_HELD", 500)
    body = _body(_singular(1000))
    lines = _lines("data", batcher_data([Frame(A, 0, b"x" * 400, False), Frame(B, 0, body, False)]))
    assert lines[0].startswith("CB12 at f0")
    assert lines[1].startswith(f"CB5 at f0: channel {B.hex()}")
    assert lines[2:] == ["1000"]


@pytest.mark.parametrize(
    ("kind", "data", "lines"),
    [
        ("blob", bytes(BLOB_SIZE), ["P1 at f0 (data of the blob): offset 0"]),
        ("blob", b"\0\1" + bytes(BLOB_SIZE - 2), ["BL1 at f0: offset 0"]),
        ("blob", b"", ["BL at f0: offset 0"]),
        ("data", b"", ["P1 at f0: offset 0"]),
        ("data", b"\1", ["P2 at f0: offset 0"]),
        ("data", batcher_data([Frame(A, 0, b"x", True)]) + b"y", ["P5 at f0: offset 25"]),
        ("channel", b"", ["RD1 at f0: offset 0"]),
        ("channel", b"\x02", ["RD4 at f0: offset 0"]),
        ("channel", zlib.compress(b""), ["ST5 at f0: decompressed offset 0"]),
        ("channel", _body(_singular(1000), b"\x05"), ["1000", "BE3 at f0: decompressed offset 76"]),
        ("channel", _body(_singular(1000))[:-1], ["1000", "ST6 at f0: decompressed offset 76"]),
        ("batch", b"\x02", ["BE3 at f0: offset 0"]),
        ("batch", _singular(1000) + b"more", ["1000"]),
        ("raw-span", b"\x01", ["BE4 at f0: offset 0"]),
    ],
    ids=range(14),
)
def test_places_and_rules(kind: str, data: bytes, lines: list[str]) -> None:
    assert _lines(kind, data) == lines


def test_a_span_with_an_invalid_transaction_does_not_end_its_channel() -> None:
    rejected = span_fields([[Tx(raw=b"\x03\xc3\x80\x80\x80", kind=3)]]).encode()
    lines = _lines("channel", _body(_singular(1000), rejected, _singular(1002)))
    assert lines == ["1000", "BE6 at f0: decompressed offset 76", "1002"]


TINY = (b"", b"\0", b"\x7f", b"\x80", b"ab", b"x" * 60)


@given(st.lists(st.sampled_from(TINY), max_size=40))
def test_runs_of_tiny_transactions_are_read_as_the_deriver_does(transactions: list[bytes]) -> None:
    batch(_singular(1000, *transactions))


def test_runs_longer_than_a_piece() -> None:
    batch(_singular(1000, *[b""] * 70_000, b"ab", *[b"\x05"] * 70_000))


# --- rules that depend on time -------------------------------------------------------------------------------------


BROTLI, LATER = _body(_singular(2000), brotli=True), _singular(2000, b"\x02ok", b"\x04set code")
LATE = ForkSchedule({"delta": 1010}, 2, 300, 600)


@pytest.mark.parametrize(
    ("kind", "data", "rules", "lines"),
    [
        # Without times every format is accepted.
        ("channel", _body(SPAN, brotli=True), WIDEST, ["1002"]),
        ("batch", LATER, WIDEST, ["2000"]),
        # The first batch gives the time of its channel.
        ("channel", _body(SPAN), _times(delta=1003), ["BE5 at f0: decompressed offset 0"]),
        ("channel", _body(SPAN), _times(delta=1002), ["1002"]),
        ("channel", BROTLI, _times(fjord=2001), ["RD3 at f0: offset 0"]),
        ("batch", SPAN, _times(delta=1003), ["BE5 at f0: offset 0"]),
        ("raw-span", SPAN[1:], _times(delta=1002), ["1002"]),
        # The time of the L1 block decides where it is known.
        ("channel", _body(SPAN), DecodingRules(WIDEST.span, LATE, 1010), ["1002"]),
        ("channel", _body(SPAN), DecodingRules(WIDEST.span, LATE, 1009), ["BE5 at f0: decompressed offset 0"]),
        # Transactions of a later fork.
        ("batch", LATER, _times(isthmus=2001), ["2000", "V14 at f0: offset 0"]),
        ("batch", LATER, _times(isthmus=2000), ["2000"]),
    ],
    ids=range(11),
)
def test_what_times_allow(kind: str, data: bytes, rules: DecodingRules, lines: list[str]) -> None:
    assert _lines(kind, data, rules=rules) == lines


def test_the_limit_of_a_channel_depends_on_time() -> None:
    batches = [_singular(2000), *[_singular(2002, b"\xfe" * 3_000_000)] * 4]
    assert _lines("channel", _body(*batches), rules=_times(fjord=2000)) == ["2000", *["2002"] * 4]
    lines = _lines("channel", _body(*batches), rules=_times(fjord=2001))
    assert lines[:4] == ["2000", *["2002"] * 3]
    assert lines[4].startswith("ST4 at f0: decompressed offset 9000")


def test_a_post_exec_transaction_in_a_block_before_lagoon() -> None:
    """The span is listed, and so is the first of its blocks that would be dropped; one with filled columns is not."""
    span = span_fields([[], [post_exec()], [Tx(), post_exec()]], relative_time=1000)
    assert _lines("batch", span.encode()) == ["2000"]
    for lagoon, lines in ((2002, ["2000"]), (2003, ["2000", "V14 at f0: offset 0"])):
        assert _lines("batch", span.encode(), rules=_times(delta=0, lagoon=lagoon)) == lines
    _, outcome = _outcomes("batch", span.encode(), rules=_times(delta=0, lagoon=2003))
    assert isinstance(outcome, DecodeFailure) and "its block of time 2002 would be dropped" in outcome.text
    filled = span.but(parity_bits=b"\x04").encode()
    assert _lines("channel", _body(filled, _singular(1002))) == ["BE6 at f0: decompressed offset 0", "1002"]
    (outcome,) = _outcomes("batch", filled)
    assert isinstance(outcome, DecodeFailure)
    assert "transaction 2 of the span batch: a post-exec transaction with y parity [BE6]" in outcome.text
