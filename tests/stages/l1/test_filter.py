"""What is kept of L1 blocks: the bloom test has no false negatives, logs are told apart by their event."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.filter import Filter, bloom_excludes_logs, filter_of, split_logs, wanted_events
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.receipts import decode_receipt
from rollup_node.stages.protocol.types import BlockId, Log
from rollup_node.tools.recorded.chain import Recording
from tests.support.logs_bloom import logs_bloom

RULES = Filter(1, b"\xff" * 20, b"\x11" * 20, b"\x22" * 20)


@given(others=st.lists(st.binary(min_size=20, max_size=32), max_size=20), event=st.integers(0, 1))
def test_a_bloom_that_holds_an_event_never_excludes_it(others: list[bytes], event: int) -> None:
    address, topic = wanted_events(RULES)[event]
    assert not bloom_excludes_logs(logs_bloom([*others, address, topic]), RULES)


def test_a_bloom_with_only_half_of_an_event_excludes_it() -> None:
    (portal, deposit), (system_config, update) = wanted_events(RULES)
    assert bloom_excludes_logs(logs_bloom([]), RULES)
    assert bloom_excludes_logs(logs_bloom([portal]), RULES)
    assert bloom_excludes_logs(logs_bloom([portal, update]), RULES)
    assert bloom_excludes_logs(logs_bloom([system_config, deposit]), RULES)


def test_blooms_of_real_blocks_hold_what_their_receipts_hold(recording: Recording) -> None:
    for block in recording.by_number.values():
        bloom = bytes.fromhex(block.header["logsBloom"][2:])
        for raw in (block.receipts or ())[:40]:
            for address, topics, _ in decode_receipt(raw).logs:
                if topics:
                    assert logs_bloom([address, topics[0]]) == bytes(
                        a & b for a, b in zip(logs_bloom([address, topics[0]]), bloom, strict=True)
                    )


def test_logs_are_split_by_their_event() -> None:
    (portal, deposit), (system_config, update) = wanted_events(RULES)
    logs = tuple(
        Log(address, (topic, b"\0" * 32), b"", index)
        for index, (address, topic) in enumerate([(system_config, update), (portal, deposit), (portal, deposit)])
    )
    assert split_logs(logs) == (logs[1:], logs[:1])


def test_the_filter_of_a_rollup() -> None:
    nowhere = BlockId(0, bytes(32))
    config = RollupConfig(
        genesis=Genesis(nowhere, nowhere, 0, SystemConfig(bytes(20), bytes(32), bytes(32), 1)),
        block_time=2,
        max_sequencer_drift=600,
        seq_window_size=3600,
        channel_timeout=300,
        l1_chain_id=1,
        l2_chain_id=10,
        fork_times={},
        batch_inbox=RULES.inbox,
        deposit_contract=RULES.deposit_contract,
        l1_system_config=RULES.system_config,
    )
    assert filter_of(config) == RULES
