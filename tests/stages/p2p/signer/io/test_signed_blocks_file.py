"""The file of signed blocks: what it refuses holds over restarts, and also while it cannot be written."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.signer import signed_blocks
from rollup_node.stages.p2p.signer.io.signed_blocks_file import EncodedPayload, SignedBlocksFile
from rollup_node.stages.p2p.signer.signed_blocks import MAX_HEIGHTS, BlockFate, BlockRecord, SigningRequest
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId
from tests.support.p2p.blocks import block, chain

GENESIS = b"\x99" * 32
ORIGIN = BlockId(100, b"\xee" * 32)


def record(number: int, branch: int = 0, parent: int = 0, origin: BlockId | None = ORIGIN) -> BlockRecord:
    return BlockRecord(number, bytes([branch, number % 256]) * 16, bytes([parent, (number - 1) % 256]) * 16, origin)


def sign(file: SignedBlocksFile, block: BlockRecord) -> str | None:
    """Decides about a block and writes that, as before a signature."""
    parent = BlockRecord(block.number - 1, block.parent_hash, bytes(32), ORIGIN, BlockFate.ANCESTOR)
    refusal = file.decide(SigningRequest(block, parent, 0), lambda _: None)
    asyncio.run(file.write())
    return refusal


def is_second(refusal: str | None) -> bool:
    return refusal is not None and "came first on the same parent" in refusal


Opened = Callable[..., SignedBlocksFile]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Yield a function that opens the file, and closes the one that it opened before, as at a restart."""
    files: list[SignedBlocksFile] = []

    def close() -> None:
        while files:
            files.pop().close()

    def open_file(genesis: bytes = GENESIS) -> SignedBlocksFile:
        close()
        files.append(SignedBlocksFile(genesis, str(tmp_path / "signed")))
        return files[0]

    yield open_file
    close()


def test_what_was_signed_and_refused_survives_a_restart(opened: Opened) -> None:
    file = opened()
    assert [sign(file, record(number)) for number in (1, 2, 3)] == [None] * 3
    assert sign(file, record(4, origin=None)) is None
    assert is_second(sign(file, record(2, branch=1)))
    file = opened()
    assert sign(file, record(3)) is None, "the same block"
    assert is_second(sign(file, record(4, branch=1)))
    assert sign(file, record(3, branch=1, parent=1)) == "its parent was refused, and is not derived from L1"
    assert sign(file, record(3, branch=2, origin=BlockId(100, b"\xdd" * 32))) is None
    assert sign(file, record(5, branch=1, parent=1)) is None
    assert sign(file, record(4, branch=3, parent=3)) == "its parent was never seen, and is not derived from L1"
    assert file.problem is None


def test_the_parent_of_a_signed_block_survives_a_restart(opened: Opened) -> None:
    file = opened()
    assert sign(file, record(9)) is None
    file = opened()
    assert sign(file, record(9, branch=1, origin=BlockId(100, b"\xdd" * 32))) is None


def test_a_decision_that_was_not_written_is_when_the_file_is_closed(opened: Opened) -> None:
    file = opened()
    parent = record(0)._replace(fate=BlockFate.ANCESTOR)
    assert file.decide(SigningRequest(record(1), parent, 0), lambda _: None) is None
    file = opened()
    assert is_second(sign(file, record(1, branch=1)))


def test_chains_are_apart(opened: Opened) -> None:
    file = opened()
    assert sign(file, record(2 * MAX_HEIGHTS)) is None
    file = opened(b"\x98" * 32)
    assert sign(file, record(1)) is None and is_second(sign(file, record(1, branch=1)))
    file = opened()
    assert is_second(sign(file, record(2 * MAX_HEIGHTS, branch=1, parent=0)._replace(number=2 * MAX_HEIGHTS)))


def test_the_file_is_bounded(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "signed"
    file = opened()
    for number in (1, 2, MAX_HEIGHTS + 1):
        assert sign(file, record(number)) is None
    file.close()
    with sqlite3.connect(path) as connection:
        rows = connection.execute("select number, fate from blocks order by number").fetchall()
    connection.close()
    assert rows == [(2, 0), (MAX_HEIGHTS, 2), (MAX_HEIGHTS + 1, 0)]


def test_a_write_error_is_reported_and_what_is_known_still_counts(opened: Opened) -> None:
    file = opened()
    assert sign(file, record(1)) is None
    file._database.write("alter table blocks rename to others")
    assert sign(file, record(2)) is None
    assert file.problem is not None and file.problem.startswith("the file of signed blocks cannot be used: ")
    assert is_second(sign(file, record(2, branch=1)))
    file._database.write("alter table others rename to blocks")
    assert sign(file, record(3)) is None and file.problem is None
    file = opened()
    assert is_second(sign(file, record(2, branch=1))), "it was written once that was possible"


def test_a_file_that_cannot_be_read_is_refused(opened: Opened) -> None:
    file = opened()
    file._database.write("alter table blocks rename column fate to other")
    file.close()
    with pytest.raises(StoreError, match="the file of signed blocks cannot be used: no such column: fate"):
        opened()


def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, opened: Opened) -> None:
    """[SGN11] A new one in its place would let lost blocks be signed again."""
    path = tmp_path / "signed"
    file = opened()
    for number in range(400):
        file.decide(SigningRequest(record(number + 1), record(number), 0), lambda _: None)
    file.close()
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"\xa5" * len(raw[4096:])
    path.write_bytes(raw)
    with pytest.raises(StoreError, match="is damaged"):
        opened()
    assert path.read_bytes() == raw and [item.name for item in tmp_path.iterdir()] == ["signed"]


# --- payloads [SGN12] ------------------------------------------------------------------------------------------------


def take_over(
    file: SignedBlocksFile, payload: ExecutionPayload, version: int = 4, grandparent: bytes = bytes(32)
) -> str | None:
    """Take a block over without writing it; why it is refused."""
    taken = BlockRecord(payload.block_number, payload.block_hash, payload.parent_hash, ORIGIN)
    parent = BlockRecord(payload.block_number - 1, payload.parent_hash, grandparent, ORIGIN, BlockFate.ANCESTOR)
    refusal = file.decide(SigningRequest(taken, parent, 0), lambda _: None)
    encoded = EncodedPayload(version, block_message.encode_signed_part(payload, version))
    file.keep(payload.block_number, payload.block_hash, encoded)
    return refusal


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_payloads_survive_a_restart(opened: Opened, version: int) -> None:
    blocks = chain(3, version)
    file = opened()
    assert file.last is None
    assert [take_over(file, block, version) for block in blocks] == [None] * 3
    assert [file.payload(block.block_hash) for block in blocks] == blocks, "before they are written"
    asyncio.run(file.write())
    file._database.close()  # as with a kill
    file = opened()
    assert [file.payload(block.block_hash) for block in blocks] == blocks
    assert file.last is not None and file.last.hash == blocks[-1].block_hash
    assert file.find(2, blocks[1].block_hash) is not None and file.find(1, blocks[1].block_hash) is None
    assert file.payload(bytes(32)) is None


def test_the_last_block_is_the_last_that_may_be_signed(opened: Opened) -> None:
    """A refused block is kept, since a later one may be signed on it."""
    file = opened()
    first, second = chain(2)
    other = block(number=2, parent=first.block_hash, gas_used=1)
    assert take_over(file, first) is None and take_over(file, second) is None
    assert is_second(take_over(file, other))
    assert file.last is not None and file.last.hash == second.block_hash
    assert file.payload(other.block_hash) == other
    above = block(number=3, parent=other.block_hash)
    assert take_over(file, above, grandparent=first.block_hash) is None
    assert file.last.hash == above.block_hash
    result = file.find(2, other.block_hash)
    assert result is not None and result.parent_hash == first.block_hash


def test_a_block_that_is_sequenced_again_is_the_last_after_a_restart(opened: Opened) -> None:
    """As after a reorg by derivation that gives the chain the same blocks."""
    file = opened()
    first, second = chain(2)
    for item in (first, second, first, second, first):
        assert take_over(file, item) is None
        asyncio.run(file.write())
    file._database.close()  # as with a kill
    file = opened()
    assert file.last is not None and file.last.hash == first.block_hash
    assert [file.payload(item.block_hash) for item in (first, second)] == [first, second]


def test_the_payloads_are_bounded_in_the_file_too(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_blocks, "MAX_PAYLOADS", 3)
    blocks = chain(9)
    file = opened()
    for number, item in enumerate(blocks):
        take_over(file, item)
        if number % 4 == 0:
            asyncio.run(file.write())
    assert len(file._unwritten_payloads) == 0 and file.payload(blocks[5].block_hash) is None
    assert file._database.read("select number from payloads order by position") == [(7,), (8,), (9,)]


def test_payloads_of_chains_are_apart(opened: Opened) -> None:
    first, second = chain(2)
    for genesis, payload in ((GENESIS, first), (b"\x98" * 32, second)):
        file = opened(genesis)
        assert file.last is None
        take_over(file, payload)
        file = opened()
    assert file.payload(first.block_hash) == first and file.payload(second.block_hash) is None


def test_payloads_that_cannot_be_written_stay_in_memory_and_are_written_later(opened: Opened) -> None:
    blocks = chain(2)
    file = opened()
    file._database.write("alter table payloads rename to others")
    take_over(file, blocks[0])
    asyncio.run(file.write())
    assert file.problem is not None and file.payload(blocks[0].block_hash) == blocks[0]
    file._database.write("alter table others rename to payloads")
    take_over(file, blocks[1])
    asyncio.run(file.write())
    assert file.problem is None
    file = opened()
    assert [file.payload(block.block_hash) for block in blocks] == blocks


def test_a_file_from_before_payloads_were_kept_gets_their_table(opened: Opened) -> None:
    first, second = chain(2)
    file = opened()
    take_over(file, first)
    asyncio.run(file.write())
    file._database.write("drop table payloads")
    file = opened()
    assert file.last is None and file.payload(first.block_hash) is None
    assert take_over(file, second) is None


def test_a_payload_that_cannot_be_decoded_is_none(opened: Opened) -> None:
    (first,) = chain(1)
    file = opened()
    take_over(file, first)
    asyncio.run(file.write())
    file._database.write("update payloads set signed_part = x'00'")
    assert file.payload(first.block_hash) is None
    file._database.write("drop table payloads")
    assert file.payload(first.block_hash) is None and file.problem is not None
