"""The L2 chain of a course."""

import orjson

from rollup_node.stages.protocol.block_refs import l2_ref_from_json, payload_from_block_json
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.types import BlockId, Log
from rollup_node.tools.bench.race.course import course_config
from rollup_node.tools.bench.race.course_size import CourseSize
from rollup_node.tools.bench.race.l1_blocks import make_l1_block
from rollup_node.tools.bench.race.l2_blocks import L2Chain, block_json, signed_transactions, wanted_logs
from rollup_node.tools.bench.sealed_blocks import genesis_payload
from rollup_node.tools.bench.synthetic_chain import GENESIS_TIME, L1_GENESIS

ORIGIN = make_l1_block(None, L1_GENESIS, GENESIS_TIME, bytes(32), 2, [])


def test_blocks_follow_one_another() -> None:
    genesis = genesis_payload(GENESIS_TIME)
    config = course_config(BlockId(L1_GENESIS, ORIGIN.header.hash), BlockId(0, genesis.block_hash), CourseSize())
    chain = L2Chain(config, genesis)
    assert chain.next_time == GENESIS_TIME + 2
    first, second = chain.extend(ORIGIN, 3), chain.extend(ORIGIN, 0)
    assert second.ref.parent_hash == first.ref.hash == first.payload.block_hash
    assert [first.ref.sequence_number, second.ref.sequence_number] == [1, 2]
    assert first.batch.transactions == first.attributes.transactions[1:] == signed_transactions(1, 901, 3)
    assert l2_ref_from_json(config, orjson.loads(block_json(first.payload))) == first.ref


def test_the_json_of_a_block_is_the_block() -> None:
    genesis = genesis_payload(GENESIS_TIME)
    assert payload_from_block_json(orjson.loads(block_json(genesis))).block_hash == genesis.block_hash


def test_only_logs_of_the_event_are_wanted() -> None:
    logs = [Log(b"\x01" * 20, (topic,), b"", index) for index, topic in enumerate((DEPOSIT_TOPIC, bytes(32)))]
    assert wanted_logs(logs, DEPOSIT_TOPIC) == logs[:1]
