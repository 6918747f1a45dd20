"""`rollup-node budget` with an L1 of its own [CMD14]."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.commands.budget import (
    BEACON,
    BLOB_BYTES,
    L1,
    POLLS_PER_BLOCK,
    Polling,
    SampledBlock,
    day_at_the_tip,
    hours_at,
    spread,
    sync,
)
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.processes.cli import Cli
from tests.support.servers.http_listener import json_rpc_app, listening
from tests.support.servers.threads import in_thread

SAMPLE = [
    SampledBlock(1, 1000, 0, 0),
    SampledBlock(2, 3000, 8000, 6),
    SampledBlock(3, 2000, 0, 0),
    SampledBlock(4, 2000, 0, 0),
]


def test_a_sync() -> None:
    budget = sync(SAMPLE, 1000)
    requests = {row.method: (row.requests, row.bytes) for row in budget.rows}
    assert requests == {
        "eth_getBlockByNumber": (1000, 2_000_000),
        "eth_getBlockReceipts": (250, 2_000_000),
        "blobs": (250, 1500 * BLOB_BYTES),
        "block": (250, 0),
    }
    assert budget.total(L1)[2:] == (1250, 4_000_000) and budget.total(BEACON).requests == 500
    assert hours_at(budget, 10.0) == pytest.approx(125 / 3600)


def test_a_day_at_the_tip() -> None:
    budget = day_at_the_tip(SAMPLE, 12.0, Polling(384.0, 600.0))
    requests = {row.method: row.requests for row in budget.rows}
    assert budget.blocks == 7200 and requests["eth_getBlockByNumber"] == 7200 * POLLS_PER_BLOCK
    assert requests["eth_getBlockByNumber (labels)"] == 675 and requests["eth_getProof"] == 144
    quiet = day_at_the_tip(SAMPLE, 12.0, Polling(0.0, 0.0))
    assert {row.method for row in budget.rows} - {row.method for row in quiet.rows} == {
        "eth_getBlockByNumber (labels)",
        "eth_chainId",
        "eth_getProof",
    }


@given(st.integers(0, 10**8), st.integers(0, 10**6), st.integers(1, 50))
def test_numbers_are_spread_over_a_range(first: int, more: int, count: int) -> None:
    numbers = spread(first, first + more, count)
    assert len(numbers) == min(count, more + 1) and numbers == sorted(set(numbers))
    assert first <= numbers[0] and numbers[-1] == first + more


SEPOLIA = 11155111


def words(url: str, *more: str) -> tuple[str, ...]:
    return ("budget", "--network=op-sepolia", f"--l1={url}", *more)


@pytest.fixture
def chain() -> FakeL1Chain:
    """Return an L1 of 40 blocks without transactions."""
    return FakeL1Chain(40)


def test_tables(chain: FakeL1Chain, cli: Cli) -> None:
    with in_thread(listening(json_rpc_app(chain.methods(SEPOLIA)))) as (url,):
        ended = cli(*words(url, "--from-l1=0", "--samples=4", "--l1.rpc-rate-limit=40"))
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("op-sepolia, L1 head 39, 12.0 s between L1 blocks; 4 blocks of the last day")
    rows = {(line[:8].strip(), line[9:41].strip()): line[41:].split() for line in lines if line[:2] in ("L1", "be")}
    assert rows["L1", "eth_getProof"] == ["144", "1.4"] and rows["beacon", "blobs"] == ["0", "0.0"]
    assert "sync from L1 block 0, 40 L1 blocks" in lines
    assert lines[-1] == "at --l1.rpc-rate-limit 40 the requests to L1 take 0.0 hours at least"


def test_json(chain: FakeL1Chain, cli: Cli) -> None:
    with in_thread(listening(json_rpc_app(chain.methods(SEPOLIA)))) as (url,):
        result = cli.json(*words(url, "--from-l1=10", "--json"))
    assert (result["from_l1"], result["l1_head"], result["samples"]) == (10, 39, 24)
    assert result["sync"]["totals"]["L1"]["requests"] == 30 == result["sync"]["l1_blocks"]
    assert result["day"]["l1_blocks"] == 7200 and "hours" not in result["sync"]


BROKEN: dict[str, Callable[..., object]] = {"eth_getBlockByNumber": lambda *_: {"number": "0x1"}}


@pytest.mark.parametrize(
    ("flag", "chain_id", "methods", "error"),
    [
        ("--samples=5", SEPOLIA, {}, "--from-l1 4071408: must be at most the head of L1, 39"),
        ("--from-l1=-1", SEPOLIA, {}, "--from-l1 -1: must be at most the head of L1, 39"),
        ("--samples=0", SEPOLIA, {}, "--samples: must be 1 to 500, not 0"),
        ("--from-l1=0", 5, {}, "is on L1 chain 5, but the rollup is on 11155111"),
        ("--from-l1=0", SEPOLIA, BROKEN, ": L1: 127.0.0.1:"),
    ],
)
def test_bad_input_and_an_endpoint_that_fails(
    flag: str, chain_id: int, methods: dict[str, Callable[..., object]], error: str, chain: FakeL1Chain, cli: Cli
) -> None:
    with in_thread(listening(json_rpc_app({**chain.methods(chain_id), **methods}))) as (url,):
        assert error in cli.refused(*words(url, flag))
