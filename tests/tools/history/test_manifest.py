"""Manifests: written, read, and refused."""

import json
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node.setup.networks import find_network
from rollup_node.tools.history.manifest import (
    MAX_BYTES,
    L1Range,
    ManifestError,
    OpenChannel,
    RunConfig,
    decode_manifest,
    default_warmup,
    plan_ranges,
    rollup_digest,
    with_checksum,
)
from tests.support.chains.small_history import manifest_row, state_after


def test_a_manifest_comes_back() -> None:
    channel = OpenChannel("aa", 5, (0, 2), "bb")
    end = msgspec.structs.replace(state_after(9), channels=(channel,))
    written = msgspec.structs.replace(manifest_row(5, 9), end=end)
    data = with_checksum(written)
    assert data.count(b"\n") == 1 and decode_manifest(data) == written


def test_a_manifest_has_its_sha256() -> None:
    data = with_checksum(manifest_row(5, 9))
    known = json.loads(data).pop("sha256")
    assert known == sha256(data[: data.rindex(b',"sha256"')] + b"}").hexdigest()
    edited = data.replace(known.encode(), b"00" * 32)
    for other in (data[:-1], data + b" ", edited, msgspec.json.encode(manifest_row(5, 9))):
        with pytest.raises(ManifestError, match="its SHA-256 is not that of what stands in it"):
            decode_manifest(other)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[1]", b"\xff", b'{"config": 5}', b'{"\xff": 1}', b'{"a":' + b"[" * 5000, b" " * (MAX_BYTES + 1)],
)
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ManifestError):
        decode_manifest(data)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 40), st.integers(0, 500), st.integers(1, 60))
def test_a_plan_covers_each_block_once(first: int, more: int, size: int) -> None:
    plan = plan_ranges(first, first + more, size)
    numbers = [number for item in plan for number in range(item.first, item.last + 1)]
    assert numbers == list(range(first, first + more + 1))
    assert {item.blocks for item in plan[:-1]} <= {size}
    assert len({item.name for item in plan}) == len(plan)
    assert sorted(plan, key=lambda item: item.name) == list(plan)


@pytest.mark.parametrize(("first", "last", "size"), [(5, 4, 1), (1, 2, 0), (0, 1 << 40, 10), (-1, 5, 1)])
def test_what_is_no_plan(first: int, last: int, size: int) -> None:
    with pytest.raises(ValueError):
        plan_ranges(first, last, size)


def test_runs_differ_by_their_digest_in_each_field() -> None:
    run = RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False)
    others = [msgspec.structs.replace(run, **{name: "another"}) for name in RunConfig.__struct_fields__]
    assert len({item.digest for item in (run, *others)}) == 1 + len(others)


def test_chains_differ_and_a_warmup_is_a_channel_timeout() -> None:
    mainnet, sepolia = find_network("op-mainnet").config, find_network("op-sepolia").config
    assert rollup_digest(mainnet) != rollup_digest(sepolia) == rollup_digest(sepolia)
    assert (default_warmup(mainnet, 0), default_warmup(mainnet, 1 << 40)) == (300, 50)
    assert str(L1Range(5, 9)) == "5 to 9"
