"""Manifests: written, read, and refused."""

import json
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.tools.history.manifest import (
    MAX_BYTES,
    Block,
    ManifestError,
    OpenChannel,
    decode_manifest,
    encode_manifest,
)
from tests.support.chains.history_values import row, state


def test_a_manifest_comes_back() -> None:
    channel = OpenChannel("aa", 5, (0, 2), "bb")
    written = msgspec.structs.replace(row(5, 9), end=msgspec.structs.replace(state(9, 18), channels=(channel,)))
    data = encode_manifest(written)
    assert data.count(b"\n") == 1 and decode_manifest(data) == written


@settings(max_examples=50, deadline=None)
@given(st.integers(0), st.integers(1, 255))
def test_no_byte_of_a_manifest_can_be_changed(at: int, change: int) -> None:
    data = bytearray(encode_manifest(row(5, 9)))
    data[at % len(data)] ^= change
    with pytest.raises(ManifestError):
        decode_manifest(bytes(data))


def test_a_manifest_has_its_sha256() -> None:
    data = encode_manifest(row(5, 9))
    known = json.loads(data).pop("sha256")
    assert known == sha256(data[: data.rindex(b',"sha256"')] + b"}").hexdigest()
    for other in (data[:-1], data + b" ", data.replace(known.encode(), b"00" * 32), msgspec.json.encode(row(5, 9))):
        with pytest.raises(ManifestError, match="its SHA-256 is not that of what stands in it"):
            decode_manifest(other)


def test_states_differ_by_hash_in_each_field() -> None:
    known = state(9, 18)
    others = [
        msgspec.structs.replace(known, l1=Block(9, "0x")),
        msgspec.structs.replace(known, safe=Block(18, None)),
        msgspec.structs.replace(known, origin=Block(1, "0x")),
        msgspec.structs.replace(known, system_config="x"),
        msgspec.structs.replace(known, channels=(OpenChannel("aa", 5, (0,), "bb"),)),
    ]
    assert len({each.digest for each in (known, *others)}) == 6


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[1]", b"\xff", b'{"config": 5}', b'{"\xff": 1}', b'{"a":' + b"[" * 5000, b" " * (MAX_BYTES + 1)],
)
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ManifestError):
        decode_manifest(data)
