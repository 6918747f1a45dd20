"""The blob encoding by its conformance ids [BL1 to BL8], and recorded blobs."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol.blob_codec import BLOB_SIZE, MAX_DATA, BlobDataError, decode_blob
from rollup_node.tools.batcher.channels import encode_blob

DATA = bytes(range(1, 251)) + b"\xff" * 50


def _with(blob: bytes, place: int, value: int) -> bytes:
    changed = bytearray(blob)
    changed[place] = value
    return bytes(changed)


def _with_length(blob: bytes, length: int) -> bytes:
    return blob[:2] + length.to_bytes(3, "big") + blob[5:]


def _rule(blob: bytes) -> str:
    with pytest.raises(BlobDataError) as caught:
        decode_blob(blob)
    return caught.value.rule


def test_blob_roundtrip_300() -> None:
    assert decode_blob(encode_blob(DATA)) == DATA


def test_blob_max_130044() -> None:
    data = DATA * 433 + DATA[:144]
    assert len(data) == MAX_DATA
    assert decode_blob(encode_blob(data)) == data


@pytest.mark.parametrize("length", [0, 26, 27, 28, 122, 123, 124, 249, 250, 251])
def test_blob_len_27_boundary(length: int) -> None:
    data = bytes(1 + place % 255 for place in range(length))
    assert decode_blob(encode_blob(data)) == data


def test_blob_len_130045() -> None:
    assert _rule(_with_length(bytes(BLOB_SIZE), 130_045)) == "BL2"


def test_blob_version_1() -> None:
    assert _rule(_with(encode_blob(DATA), 1, 1)) == "BL1"


def test_blob_version_before_length() -> None:
    assert _rule(_with_length(_with(bytes(BLOB_SIZE), 1, 1), 130_045)) == "BL1"


@pytest.mark.parametrize("bit", [0x40, 0x80])
def test_blob_fe0_bit6(bit: int) -> None:
    blob = encode_blob(DATA)
    assert decode_blob(_with(blob, 0, blob[0] | bit)) == DATA


@pytest.mark.parametrize("bit", [0x40, 0x80])
@pytest.mark.parametrize("element", [1, 2, 3, 4, 11])
def test_blob_fe1_bit6(element: int, bit: int) -> None:
    blob = encode_blob(DATA)
    assert _rule(_with(blob, 32 * element, blob[32 * element] | bit)) == "BL4"


def test_blob_fe100_bit6_after_data() -> None:
    assert _rule(_with(encode_blob(DATA), 3200, 0x40)) == "BL7"


def test_blob_len_minus1() -> None:
    assert _rule(_with_length(encode_blob(DATA), len(DATA) - 1)) == "BL6"


def test_blob_len_plus1() -> None:
    assert decode_blob(_with_length(encode_blob(DATA), len(DATA) + 1)) == DATA + b"\0"


def test_blob_last_byte_nonzero() -> None:
    assert _rule(_with(encode_blob(DATA), BLOB_SIZE - 1, 1)) == "BL7"


def test_blob_all_zero() -> None:
    assert decode_blob(bytes(BLOB_SIZE)) == b""


def test_blob_len0_fe0_low6() -> None:
    assert _rule(_with(bytes(BLOB_SIZE), 0, 0x3F)) == "BL6"


def test_blob_len0_rest() -> None:
    assert _rule(_with_length(encode_blob(DATA), 0)) == "BL6"


def test_a_blob_of_another_size_is_refused() -> None:
    assert _rule(bytes(BLOB_SIZE - 1)) == "BL"


@settings(max_examples=40)
@given(st.binary(max_size=600), st.integers(0, 300))
def test_any_data_comes_back(data: bytes, times: int) -> None:
    data = (data * times)[:MAX_DATA] or data
    assert decode_blob(encode_blob(data)) == data


def test_recorded_blobs(shared_data: Path) -> None:
    blobs = sorted((shared_data / "op_sepolia_replay").glob("blob_*.bin"))
    assert len(blobs) == 6
    for path in blobs:
        blob = path.read_bytes()
        assert encode_blob(decode_blob(blob)) == blob


def test_a_foreign_blob_is_refused(shared_data: Path) -> None:
    text = (shared_data / "blobs" / "goerli_sidecars_7422094.json").read_text()
    start = text.index('"blob":"0x') + len('"blob":"0x')
    assert _rule(bytes.fromhex(text[start : start + 2 * BLOB_SIZE])) == "BL1"
