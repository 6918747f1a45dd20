"""Singular batches: an RLP list of five, strictly read (derivation-rules 10)."""

from rollup_node.stages.derivation.batches import SingularBatch
from rollup_node.stages.protocol.rlp import RlpError, header


class SingularBatchError(ValueError):
    """The bytes are no singular batch; what follows in the channel is lost with them."""


def decode_singular(data: bytes, at: int) -> SingularBatch:
    """The batch at `at`; bytes after it do not matter."""
    try:
        is_list, at, end = header(data, at, len(data))
        if not is_list:
            raise SingularBatchError("not a list")
        parent_hash, at = _sized(data, at, end, 32)
        epoch_number, at = _number(data, at, end)
        epoch_hash, at = _sized(data, at, end, 32)
        timestamp, at = _number(data, at, end)
        is_list, at, stop = header(data, at, end)
        if not is_list or stop != end:
            raise SingularBatchError("the fifth field is not a list that ends the batch")
        return SingularBatch(parent_hash, epoch_number, epoch_hash, timestamp, _strings(data, at, stop))
    except RlpError as error:
        raise SingularBatchError(str(error)) from None


def _string(data: bytes, at: int, end: int) -> tuple[int, int]:
    is_list, start, stop = header(data, at, end)
    if is_list:
        raise SingularBatchError(f"a list where a string must be, at byte {at}")
    return start, stop


def _sized(data: bytes, at: int, end: int, size: int) -> tuple[bytes, int]:
    start, stop = _string(data, at, end)
    if stop - start != size:
        raise SingularBatchError(f"{stop - start} bytes at byte {at}, expected {size}")
    return data[start:stop], stop


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    start, stop = _string(data, at, end)
    if stop - start > 8 or (stop > start and data[start] == 0):
        raise SingularBatchError(f"not a 64-bit number in its shortest form at byte {at}")
    return int.from_bytes(data[start:stop], "big"), stop


def _strings(data: bytes, at: int, end: int) -> tuple[bytes, ...]:
    found: list[bytes] = []
    while at < end:
        start, at = _string(data, at, end)
        found.append(data[start:at])
    return tuple(found)
