"""What answers may hold, by method."""

from rollup_node.stages.protocol.answer_limits import (
    HEADER,
    L1_BLOCK,
    L2_BLOCK,
    OTHER,
    RECEIPTS,
    SMALL,
    AnswerLimit,
    answer_limit,
    receipts_limit,
)

GAS_OF_A_LOG, JSON_OF_A_LOG, VALUES_OF_A_LOG = 379, 480, 14
"""The cheapest log there is: PUSH0 PUSH0 LOG0, as servers show it."""


def test_limits_by_method() -> None:
    assert answer_limit("eth_getBlockByNumber", ["latest", False]) == HEADER
    assert answer_limit("eth_getBlockByNumber", ["0x1", True]) == L2_BLOCK
    assert answer_limit("eth_getBlockByHash", ["0x"]) == HEADER
    assert answer_limit("engine_getPayloadV4", ["0x"]) == L2_BLOCK
    assert answer_limit("eth_getBlockReceipts", ["0x"]) == RECEIPTS
    assert answer_limit("engine_forkchoiceUpdatedV3", []) == answer_limit("eth_chainId", []) == SMALL
    assert answer_limit("optimism_syncStatus", []) == OTHER
    assert AnswerLimit(2, 3).times(4) == AnswerLimit(8, 12)


def test_blocks_of_full_gas_keep_within_their_limits() -> None:
    """10 gas pay for a zero byte of calldata (EIP-7623), which is two digits of JSON."""
    assert L1_BLOCK.bytes > 2 * 10 * 2**20
    assert L2_BLOCK.bytes > 2 * 400_000_000 // 10


def test_receipts_are_limited_by_what_their_gas_pays_for() -> None:
    """A block full of the cheapest logs keeps within the limit, at gas limits of today and far beyond."""
    for gas in (30_000_000, 60_000_000, 100_000_000):
        logs = gas // GAS_OF_A_LOG
        limit = receipts_limit(gas)
        assert logs * JSON_OF_A_LOG < limit.bytes < 2.5 * gas
        assert logs * VALUES_OF_A_LOG < limit.values
    assert receipts_limit(1 << 60) == RECEIPTS
    assert receipts_limit(0) == AnswerLimit(1 << 20, 20_000)
