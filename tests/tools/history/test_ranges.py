"""The plan of a history."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node.setup.networks import find_network
from rollup_node.tools.history.ranges import (
    L1Range,
    RunConfig,
    default_warmup,
    plan_ranges,
    rollup_digest,
)

RUN = RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 40), st.integers(0, 500), st.integers(1, 60))
def test_a_plan_covers_each_block_once(first: int, more: int, size: int) -> None:
    plan = plan_ranges(first, first + more, size)
    assert [number for each in plan for number in range(each.first, each.last + 1)] == list(
        range(first, first + more + 1)
    )
    assert {each.blocks for each in plan[:-1]} <= {size}
    assert len({each.name for each in plan}) == len(plan)
    assert sorted(plan, key=lambda each: each.name) == list(plan)


@pytest.mark.parametrize(("first", "last", "size"), [(5, 4, 1), (1, 2, 0), (0, 1 << 40, 10), (-1, 5, 1)])
def test_what_is_no_plan(first: int, last: int, size: int) -> None:
    with pytest.raises(ValueError):
        plan_ranges(first, last, size)


def test_the_digest_depends_on_each_field() -> None:
    changed = {
        "version": "v2",
        "tables": 2,
        "rollup": "ab",
        "first": 101,
        "size": 11,
        "warmup": 51,
        "form": "parquet",
        "source": "file",
        "in_order": True,
        "safe_head": 7,
        "batcher": "0x07",
    }
    assert set(changed) == set(RunConfig.__struct_fields__)
    digests = {msgspec.structs.replace(RUN, **{name: value}).digest for name, value in changed.items()}
    assert len(digests | {RUN.digest}) == len(changed) + 1
    assert msgspec.structs.replace(RUN).digest == RUN.digest


def test_chains_differ_and_a_warmup_is_a_channel_timeout() -> None:
    mainnet, sepolia = find_network("op-mainnet").config, find_network("op-sepolia").config
    assert rollup_digest(mainnet) != rollup_digest(sepolia) == rollup_digest(sepolia)
    assert (default_warmup(mainnet, 0), default_warmup(mainnet, 1 << 40)) == (300, 50)
    assert str(L1Range(5, 9)) == "5 to 9"
