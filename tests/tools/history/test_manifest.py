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
    Block,
    L1Range,
    ManifestError,
    OpenChannel,
    RunConfig,
    decode_manifest,
    default_warmup,
    encode_manifest,
    plan_ranges,
    rollup_digest,
)
from tests.support.chains.history_values import row, state


def test_a_manifest_comes_back() -> None:
    channel = OpenChannel("aa", 5, (0, 2), "bb")
    written = msgspec.structs.replace(row(5, 9), end=msgspec.structs.replace(state(9, 18), channels=(channel,)))
    data = encode_manifest(written)
    assert data.count(b"\n") == 1 and decode_manifest(data) == written


def test_a_manifest_has_its_sha256() -> None:
    data = encode_manifest(row(5, 9))
    known = json.loads(data).pop("sha256")
    assert known == sha256(data[: data.rindex(b',"sha256"')] + b"}").hexdigest()
    for other in (data[:-1], data + b" ", data.replace(known.encode(), b"00" * 32), msgspec.json.encode(row(5, 9))):
        with pytest.raises(ManifestError, match="its SHA-256 is not that of what stands in it"):
            decode_manifest(other)


def test_states_differ_by_hash_in_each_field() -> None:
    known = state(9, 18)
    changes = {"l1": Block(9, "0x"), "safe": Block(18, None), "origin": Block(1, "0x"), "system_config": "x"}
    changes |= {"channels": (OpenChannel("aa", 5, (0,), "bb"),)}
    others = [msgspec.structs.replace(known, **{name: value}) for name, value in changes.items()]
    assert len({other.digest for other in (known, *others)}) == 6


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[1]", b"\xff", b'{"config": 5}', b'{"\xff": 1}', b'{"a":' + b"[" * 5000, b" " * (MAX_BYTES + 1)],
)
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ManifestError):
        decode_manifest(data)


RUN = RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False)


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


def _another(value: str | bool | int | None) -> str | bool | int:
    if isinstance(value, bool):
        return not value
    return f"{value}x" if isinstance(value, str) else 1 + (value or 0)


def test_the_digest_depends_on_each_field() -> None:
    fields = RunConfig.__struct_fields__
    others = [msgspec.structs.replace(RUN, **{name: _another(getattr(RUN, name))}) for name in fields]
    assert len({run.digest for run in (RUN, *others)}) == len(fields) + 1
    assert msgspec.structs.replace(RUN).digest == RUN.digest


def test_chains_differ_and_a_warmup_is_a_channel_timeout() -> None:
    mainnet, sepolia = find_network("op-mainnet").config, find_network("op-sepolia").config
    assert rollup_digest(mainnet) != rollup_digest(sepolia) == rollup_digest(sepolia)
    assert (default_warmup(mainnet, 0), default_warmup(mainnet, 1 << 40)) == (300, 50)
    assert str(L1Range(5, 9)) == "5 to 9"
