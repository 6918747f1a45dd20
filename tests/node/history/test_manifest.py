"""Manifests: written, read, and refused."""

import msgspec
import pytest

from rollup_node.node.history.manifest import (
    MAX_BYTES,
    Block,
    ManifestError,
    OpenChannel,
    decode_manifest,
    encode_manifest,
)
from tests.support.history_values import row, state


def test_a_manifest_comes_back() -> None:
    channel = OpenChannel("aa", 5, (0, 2), "bb")
    written = msgspec.structs.replace(row(5, 9), end=msgspec.structs.replace(state(9, 18), channels=(channel,)))
    data = encode_manifest(written)
    assert data.count(b"\n") == 1 and decode_manifest(data) == written


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
