"""The checks of executing messages in their order, and what has to be read for them [EM1 to EM11, CY4, CY5]."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.interop.message_checks import (
    BlockVerdict,
    Invalidity,
    LogPlace,
    check_claim,
    check_heads,
    cyclic_chains,
)
from rollup_node.stages.protocol.interop_messages import BlockLogs, ExecutingMessage
from tests.support.interop.values import Claim, block, dependency_set, logs_of, member

WINDOW = 100
CONFIG = dependency_set(member(1), member(2, block_time=2), activation=1010, window=WINDOW)
T = 1200
STORED = Claim(1, 150, 0, 1150, b"old")
PLACE = LogPlace(1, 150, 0)


def executed(claim: Claim, time: int = T, chain_id: int = 1) -> BlockLogs:
    """Return a block of that time which executes one message; its own log 0 is `plain`."""
    number = CONFIG.chains[chain_id].block_number_at(time) if chain_id in CONFIG.chains else 9
    return logs_of(block(number, time), [b"plain", claim])


@pytest.mark.parametrize(
    ("claim", "time", "wanted"),
    [
        (STORED._replace(chain_id=3), T, Invalidity.UNKNOWN_SOURCE),
        (STORED._replace(chain_id=2**255), T, Invalidity.UNKNOWN_SOURCE),
        (STORED._replace(chain_id=3), 1010, Invalidity.UNKNOWN_SOURCE),
        (STORED, 1009, Invalidity.EXECUTED_TOO_EARLY),
        (STORED, 1010, Invalidity.EXECUTED_TOO_EARLY),
        (Claim(1, 11, 0, 1011, b""), 1011, LogPlace(1, 11, 0)),
        (Claim(1, 10, 0, 1010, b""), 1011, Invalidity.INITIATED_TOO_EARLY),
        (Claim(2, 5, 0, 1010, b""), 1012, Invalidity.INITIATED_TOO_EARLY),
        (Claim(2, 6, 0, 1012, b""), 1012, LogPlace(2, 6, 0)),
        (Claim(1, 10, 0, 1010, b""), T, Invalidity.INITIATED_TOO_EARLY),
        (Claim(1, 201, 0, 1201, b""), T, Invalidity.IN_THE_FUTURE),
        (Claim(1, 2**64 - 1, 0, 2**64 - 1, b""), T, Invalidity.IN_THE_FUTURE),
        (Claim(1, 99, 0, 1099, b""), T, Invalidity.EXPIRED),
        (Claim(1, 100, 0, 1100, b""), T, LogPlace(1, 100, 0)),
        (Claim(1, 149, 0, 1150, b""), T, Invalidity.NOT_THERE),
        (Claim(2, 75, 0, 1151, b""), T, Invalidity.NOT_THERE),
        (Claim(2, 2**64 - 1, 0, 1150, b""), T, Invalidity.NOT_THERE),
        (Claim(1, 200, 0, 1200, b""), T, LogPlace(1, 200, 0)),
    ],
)
def test_what_a_message_says_of_itself(claim: Claim, time: int, wanted: Invalidity | LogPlace) -> None:
    """[EM1, EM5 to EM8, EM10]: the first check that fails names the reason."""
    (_, message), *_ = executed(claim, time).executing
    assert check_claim(CONFIG, 1, time, message) == wanted


def test_each_chain_has_its_own_block_time() -> None:
    """[EM5, EM6]: the first block after that of the activation."""
    (_, message), *_ = executed(Claim(1, 11, 0, 1011, b""), 1012, chain_id=2).executing
    assert check_claim(CONFIG, 2, 1011, message) == Invalidity.EXECUTED_TOO_EARLY
    assert check_claim(CONFIG, 2, 1012, message) == LogPlace(1, 11, 0)


def test_a_chain_that_is_not_in_the_set_executes_nothing() -> None:
    """[EM2]: asked after the source."""
    (_, message), *_ = executed(STORED).executing
    assert check_claim(CONFIG, 3, T, message) == Invalidity.UNKNOWN_CHAIN
    (_, message), *_ = executed(STORED._replace(chain_id=4)).executing
    assert check_claim(CONFIG, 3, T, message) == Invalidity.UNKNOWN_SOURCE


def test_a_number_before_genesis_is_nowhere() -> None:
    """[EM10]: of a chain whose numbers do not begin at 0."""
    config = dependency_set(member(1, genesis_time=1100, number=90), activation=1000)
    (_, message), *_ = executed(Claim(1, 50, 0, 1060, b"")).executing
    assert check_claim(config, 1, T, message) == Invalidity.NOT_THERE


@pytest.mark.parametrize(
    "claim",
    [
        Claim(1, 200, 0, T, b"new"),  # the payload of another log
        Claim(1, 200, 2, T, b"new"),  # the block has no such log
        Claim(1, 200, 2**32 - 1, T, b"new"),
        Claim(1, 200, 1, T, b"other"),
        Claim(1, 200, 1, T, b"new", origin=b"\x0b" * 20),
    ],
)
def test_other_messages_of_the_round_are_not(claim: Claim) -> None:
    """[EM9, EM10, MS2]"""
    heads = {1: logs_of(block(200, T), [b"x", b"new"]), 2: executed(claim, chain_id=2)}
    invalid = check_heads(CONFIG, T, heads, {}, heads).invalid
    assert list(invalid) == [2] and invalid[2].invalidity == Invalidity.NOT_THERE
    assert str(invalid[2]).startswith("log 1 executes a message of chain 1, block 200, ")
    assert str(invalid[2]).endswith(": its chain does not have it [EM10]")


@pytest.mark.parametrize(
    ("stored", "invalid", "unread", "missing"),
    [
        ({}, False, True, False),
        ({PLACE: STORED.log_hash}, False, False, False),
        ({PLACE: STORED._replace(payload=b"other").log_hash}, True, False, False),
        ({PLACE: b""}, True, False, False),  # the block has no such log
        ({PLACE: None}, False, False, True),  # the block is not stored: neither valid nor invalid
    ],
)
def test_older_messages_are_read(
    stored: dict[LogPlace, bytes | None], invalid: bool, unread: bool, missing: bool
) -> None:
    """[EM10]"""
    heads = {1: executed(STORED)}
    verdicts = check_heads(CONFIG, T, heads, stored, heads)
    assert (bool(verdicts.invalid), bool(verdicts.unread), bool(verdicts.missing)) == (invalid, unread, missing)
    assert verdicts.unread | verdicts.missing <= {PLACE}


def test_a_message_that_fails_decides_whatever_is_not_known() -> None:
    """[EM11]: about its own block, before or after the unknown one."""
    expired = Claim(1, 20, 0, 1020, b"")
    for claims in ([STORED, expired], [expired, STORED]):
        heads = {1: logs_of(block(200, T), claims)}
        verdicts = check_heads(CONFIG, T, heads, {PLACE: None}, heads)
        assert verdicts.invalid[1].invalidity == Invalidity.EXPIRED


def test_a_cycle_makes_its_chains_invalid() -> None:
    """[CY4]: where a message fails as well, it names the reason."""
    heads = {
        1: logs_of(block(200, T), [Claim(2, 100, 1, T, b"b"), b"a"]),
        2: logs_of(block(100, T), [Claim(1, 200, 1, T, b"a"), b"b"]),
    }
    assert check_heads(CONFIG, T, heads, {}, heads).invalid == {
        chain: BlockVerdict(Invalidity.CYCLE) for chain in (1, 2)
    }
    assert str(BlockVerdict(Invalidity.CYCLE)).endswith("in a circle [CY3]")
    heads[2] = logs_of(block(100, T), [Claim(1, 200, 1, T, b"other"), b"b"])
    invalid = check_heads(CONFIG, T, heads, {}, heads).invalid
    assert [invalid[chain].invalidity for chain in (1, 2)] == [Invalidity.CYCLE, Invalidity.NOT_THERE]


A, B, C = 10, 8453, 420
SECOND = 1000

Shape = Mapping[int, Mapping[int, tuple[int, int]]]


def heads(shape: Shape, timestamp: int = SECOND) -> dict[int, BlockLogs]:
    """Return the blocks of a shape; the messages that they execute are from `timestamp`."""
    return {
        chain_id: BlockLogs(
            block(5, SECOND),
            b"",
            tuple(
                (index, ExecutingMessage(source.to_bytes(32, "big"), 5, log, timestamp, b""))
                for index, (source, log) in sorted(messages.items())
            ),
        )
        for chain_id, messages in shape.items()
    }


def test_messages_of_another_second_are_not_in_a_circle() -> None:
    """[CY1]: of the past, or executed by a block that a chain has had for a second."""
    shape: Shape = {A: {0: (B, 0)}, B: {0: (A, 0)}}
    assert cyclic_chains(SECOND, heads(shape)) == {A, B}
    assert cyclic_chains(SECOND, heads(shape, SECOND - 100)) == set()
    assert cyclic_chains(SECOND + 1, heads(shape)) == set()
    assert cyclic_chains(SECOND + 1, heads(shape, SECOND + 1)) == set()


PLACES = st.tuples(st.sampled_from([A, B, C]), st.integers(0, 4))


@given(st.dictionaries(st.sampled_from([A, B, C]), st.dictionaries(st.integers(0, 4), PLACES, max_size=5)))
@settings(max_examples=200, deadline=None)
def test_the_result_is_that_of_all_paths(shape: dict[int, dict[int, tuple[int, int]]]) -> None:
    """[CY1, CY2, CY3, CY5]: a node stays if it can be reached from a node that can be reached from itself."""
    nodes = [(chain, index) for chain, messages in shape.items() for index in messages]
    reached = {
        (node, other)
        for node in nodes
        for other in nodes
        if other == max(((node[0], i) for i in shape[node[0]] if i < node[1]), default=None)
        or other == _before(shape, shape[node[0]][node[1]])
    }
    for middle in nodes:
        for node in nodes:
            for other in nodes:
                if (node, middle) in reached and (middle, other) in reached:
                    reached.add((node, other))
    on_cycle = {node for node in nodes if (node, node) in reached}
    left = on_cycle | {other for node, other in reached if node in on_cycle}
    assert cyclic_chains(SECOND, heads(shape)) == {chain for chain, _ in left}


def _before(shape: Shape, place: tuple[int, int]) -> tuple[int, int] | None:
    indices = [index for index in shape.get(place[0], {}) if index <= place[1]]
    return (place[0], max(indices)) if indices else None
