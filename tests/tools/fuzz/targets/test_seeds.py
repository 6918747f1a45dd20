"""The seeds are valid: the parsers under test accept all of them."""

from random import Random

import pytest

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch, read_batches
from rollup_node.stages.derivation.codec.frames import parse_frames
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.deposits import DepositTransaction, deposit_from_log
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.l1_info import L1InfoError, parse_l1_info
from rollup_node.stages.protocol.transactions import decode_transaction, encode_transaction
from rollup_node.stages.protocol.types import Log
from rollup_node.tools.fuzz.targets import seeds
from rollup_node.tools.fuzz.targets.batch_data import LIMIT, RULES


@pytest.fixture
def chance() -> Random:
    return Random(11)


def test_transactions_of_all_span_batch_types(chance: Random) -> None:
    raws = [seeds.transaction(chance) for _ in range(60)]
    decoded = [decode_transaction(raw) for raw in raws]
    assert {body.kind for body in decoded} == set(seeds.KINDS)
    assert [encode_transaction(body) for body in decoded] == raws


def test_batches_decode(chance: Random) -> None:
    kinds = {type(decode_batch(seeds.batch(chance), RULES)) for _ in range(40)}
    assert kinds == {SingularBatch, SpanBatch}


def test_some_blocks_end_with_a_post_exec_transaction(chance: Random) -> None:
    for _ in range(20):
        covered = seeds.blocks(chance, 9)
        raws = [each.transactions[-1] for each in covered if each.transactions]
        if any(raw[0] == 0x7D for raw in raws):
            assert all(raw[0] != 0x7D for each in covered for raw in each.transactions[:-1])
            return
    pytest.fail("none has one")


def test_channel_bodies_decode(chance: Random) -> None:
    for _ in range(20):
        *batches, end = read_batches(seeds.body(chance), LIMIT, True, RULES)
        assert batches
        assert isinstance(end, Reason)


def test_items_parse(chance: Random) -> None:
    for _ in range(20):
        assert all(isinstance(parse_frames(item), list) for item in seeds.items(chance))


def test_l1_info_parses_in_one_layout(chance: Random) -> None:
    for _ in range(20):
        data, parsed = seeds.l1_info(chance), 0
        for layout in L1InfoFormat:
            try:
                parse_l1_info(data, layout)
            except L1InfoError:
                continue
            parsed += 1
        assert parsed == 1


def test_deposit_logs_parse(chance: Random) -> None:
    data = seeds.deposit_log(chance)
    log = Log(bytes(20), tuple(data[at : at + 32] for at in range(0, 128, 32)), data[128:], 0)
    assert isinstance(deposit_from_log(log, bytes(32)), DepositTransaction)
