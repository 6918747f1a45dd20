"""The encoding of data in blobs: a blob with any other content is ignored [BL1 to BL9]."""

import pytest

from rollup_node.stages.blobs.tasks import BlobDataError, decode_blob
from rollup_node.tools.batcher.channels import encode_blob
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.streams import noise

pytestmark = pytest.mark.fault("F17")

SIZE = 131_072
LARGEST = 130_044
DATA = noise(300)
GOOD = encode_blob(DATA)


def changed(places: dict[int, int], blob: bytes = GOOD) -> bytes:
    """Return the blob with some bytes replaced."""
    result = bytearray(blob)
    for place, byte in places.items():
        result[place] = byte
    return bytes(result)


def with_length(length: int, blob: bytes = GOOD) -> bytes:
    """Return the blob claiming another length."""
    return blob[:2] + length.to_bytes(3, "big") + blob[5:]


def top_bit(place: int, bit: int) -> bytes:
    """Return the valid blob with one more bit set."""
    return changed({place: GOOD[place] | bit})


@table(
    blob_roundtrip_300=(GOOD, DATA),
    blob_max_130044=(encode_blob(noise(LARGEST)), noise(LARGEST)),
    blob_fe0_bit6=(top_bit(0, 0x40), DATA),
    blob_len_plus1=(with_length(301), DATA + b"\0"),
    blob_all_zero=(bytes(SIZE), b""),
)
def decoded(blob: bytes, data: bytes) -> None:
    assert decode_blob(blob) == data


@table(
    blob_len_130045=(with_length(LARGEST + 1, encode_blob(noise(LARGEST))), "BL2"),
    blob_version_1=(changed({1: 1}), "BL1"),
    blob_fe1_bit6=(top_bit(32, 0x40), "BL4"),
    blob_fe1_bit7=(top_bit(32, 0x80), "BL4"),
    blob_fe100_bit6_after_data=(changed({3200: 0x40}), "BL7"),
    blob_len_minus1=(with_length(299), "BL6"),
    blob_last_byte_nonzero=(changed({SIZE - 1: 1}), "BL7"),
    blob_len0_fe0_low6=(changed({0: 0x3F}, bytes(SIZE)), "BL6"),
    blob_len0_rest=(with_length(0, encode_blob(noise(100))), "BL6"),
    blob_version_before_length=(changed({1: 1, 2: 0xFF}), "BL1"),
)
def refused(blob: bytes, rule: str) -> None:
    with pytest.raises(BlobDataError) as error:
        decode_blob(blob)
    assert error.value.rule == rule


@case("blob_len_27_boundary")
def at_the_ends_of_rounds() -> None:
    """27 bytes fill element 0, 123 the first round; what is not data is zero in the blob."""
    for size in (26, 27, 28, 122, 123, 124, 250, 251):
        data = noise(size, size)
        assert decode_blob(encode_blob(data)) == data
        with pytest.raises(BlobDataError):
            decode_blob(with_length(size - 1, encode_blob(b"\1" * size)))
