"""Headers and receipts of an engine, checked by hash and root [VR8, MS1]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.interop.block_content import ContentError, block_content, verified_header
from rollup_node.stages.interop.rounds import ChainBlock
from rollup_node.stages.protocol.headers import Header, HeaderJson, header_hash
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.tools.devnet.chain.blocks import header_json
from tests.support.interop.served_world import header_of, receipts_of
from tests.support.interop.values import Claim, block, logs_of
from tests.support.interop.world import Logs

LOGS: Logs = (b"one", b"two", Claim(2, 5, 0, 1005, b"said"), b"three")
RECEIPTS = receipts_of(LOGS)
HEADER = header_of(7, 1007, b"\x01" * 32, RECEIPTS, False)


def shown(header: Header = HEADER, **changes: object) -> Any:
    """Return what an engine answers for a header."""
    return msgspec.convert({**header_json(header), "hash": to_hex(header_hash(header)), **changes}, HeaderJson)


def texts(receipts: list[dict[str, Any]] = RECEIPTS) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode(receipt)) for receipt in receipts]


def content(header: Header = HEADER, receipts: list[dict[str, Any]] = RECEIPTS) -> ChainBlock:
    return block_content(verified_header(shown(header), header.number), texts(receipts))


def test_a_block_has_the_logs_of_all_receipts_in_a_row() -> None:
    result = content()
    ref = msgspec.structs.replace(block(7, 1007, b"\x01" * 32), hash=header_hash(HEADER))
    assert result.logs == logs_of(ref, LOGS) and [index for index, _ in result.logs.executing] == [2]
    assert (result.state_root, result.storage_root) == (HEADER.state_root, HEADER.withdrawals_root)


def test_a_block_without_logs_needs_no_receipts() -> None:
    """Its bloom, which its hash covers, proves that there are none."""
    header = msgspec.structs.replace(HEADER, logs_bloom=bytes(256))
    verified = verified_header(shown(header), 7)
    assert not verified.has_logs and block_content(verified, ()).logs.log_hashes == b""


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (shown(number="0x8"), "returns block 8 for block 7"),
        (shown(stateRoot="0x" + "11" * 32), "does not have the hash"),
        (shown(hash="0x" + "11" * 32), "does not have the hash"),
        (shown(hash=None), "block 7 is malformed"),
        (shown(timestamp="soon"), "block 7 is malformed: timestamp"),
    ],
)
def test_a_header_that_is_not_the_blocks_is_refused(answer: Any, text: str) -> None:
    with pytest.raises(ContentError, match=text):
        verified_header(answer, 7)


def changed(index: int, **members: object) -> list[dict[str, Any]]:
    """Return the receipts with one changed."""
    return [{**receipt, **members} if at == index else receipt for at, receipt in enumerate(RECEIPTS)]


@pytest.mark.parametrize(
    ("receipts", "text"),
    [
        ([], "do not match its receipts root"),
        (RECEIPTS[:-1], "do not match its receipts root"),
        (changed(1, logs=RECEIPTS[1]["logs"][:1]), "log 1 in the order of the receipts has the index 0x2"),
        (changed(2, logs=[{**RECEIPTS[2]["logs"][0], "data": "0x00"}]), "do not match its receipts root"),
        (changed(1, status=None), "malformed receipt: receipt without status"),
        (changed(1, logs="none"), "are malformed"),
        (changed(1, cumulativeGasUsed="0x1"), "do not match its receipts root"),
    ],
)
def test_receipts_that_are_not_the_blocks_are_refused(receipts: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(ContentError, match=text):
        content(receipts=receipts)


def test_a_block_of_before_isthmus_is_refused() -> None:
    """Its header does not have the storage root that an output is made of [LB8]."""
    header = msgspec.structs.replace(HEADER, withdrawals_root=None)
    with pytest.raises(ContentError, match="from before Isthmus"):
        content(header)


def test_an_empty_list_is_the_root_of_no_receipts() -> None:
    header = msgspec.structs.replace(HEADER, receipts_root=EMPTY_ROOT)
    assert content(header, []).logs.log_hashes == b""
