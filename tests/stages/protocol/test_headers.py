"""Headers: RLP, JSON and hash, of made-up and of recorded ones."""

from typing import Any

import pytest

from rollup_node.stages.protocol import headers, rlp
from rollup_node.stages.protocol.headers import Header, withdrawals_root
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.tools.devnet.chain.blocks import header_json
from rollup_node.tools.recorded.encoded_blocks import decode_header

REQUIRED: dict[str, Any] = {
    "parent_hash": b"\x01" * 32,
    "uncles_hash": headers.EMPTY_UNCLES_HASH,
    "miner": b"\x02" * 20,
    "state_root": b"\x00" * 31 + b"\x03",
    "transactions_root": b"\x04" * 32,
    "receipts_root": b"\x05" * 32,
    "logs_bloom": bytes(256),
    "difficulty": 0,
    "number": 6582944,
    "gas_limit": 30_000_000,
    "gas_used": 0,
    "timestamp": 1724784948,
    "extra_data": b"",
    "mix_hash": b"\x06" * 32,
    "nonce": bytes(8),
}
OPTIONAL: tuple[tuple[str, Any], ...] = (
    ("base_fee", 7),
    ("withdrawals_root", b"\x07" * 32),
    ("blob_gas_used", 0),
    ("excess_blob_gas", 0),
    ("parent_beacon_root", b"\x08" * 32),
    ("requests_hash", b"\x09" * 32),
    ("block_access_list_hash", b"\x0a" * 32),
    ("slot_number", 0xAC6000),
)


def header(optional: int = 5, **changes: Any) -> Header:
    return Header(**(REQUIRED | dict(OPTIONAL[:optional]) | changes))


@pytest.mark.parametrize("optional", range(9))
def test_a_header_ends_at_its_last_field(optional: int) -> None:
    encoded = headers.encode_header(header(optional))
    assert len(rlp.decode_list(encoded)) == 15 + optional
    assert decode_header(encoded) == header(optional)
    assert headers.header_hash(header(optional)) == keccak256(encoded)
    assert headers.header_from_json(header_json(header(optional)) | {"hash": "0x", "size": "0x5"}) == header(optional)


def test_an_absent_field_before_the_last_is_an_empty_string() -> None:
    holed = header(1, parent_beacon_root=b"\x08" * 32)
    items = rlp.decode_list(headers.encode_header(holed))
    assert items[15:] == [b"\x07", b"", b"", b"", b"\x08" * 32]


def test_the_fields_in_their_order() -> None:
    """[HSH1]"""
    table = {
        **{"parent_hash": "parentHash", "uncles_hash": "sha3Uncles", "miner": "miner", "state_root": "stateRoot"},
        **{"transactions_root": "transactionsRoot", "receipts_root": "receiptsRoot", "logs_bloom": "logsBloom"},
        **{"difficulty": "difficulty", "number": "number", "gas_limit": "gasLimit", "gas_used": "gasUsed"},
        **{"timestamp": "timestamp", "extra_data": "extraData", "mix_hash": "mixHash", "nonce": "nonce"},
        **{"base_fee": "baseFeePerGas", "withdrawals_root": "withdrawalsRoot", "blob_gas_used": "blobGasUsed"},
        **{"excess_blob_gas": "excessBlobGas", "parent_beacon_root": "parentBeaconBlockRoot"},
        **{"requests_hash": "requestsHash", "block_access_list_hash": "blockAccessListHash"},
        "slot_number": "slotNumber",
    }
    names = [field.json_name for field in headers.HEADER_FIELDS]
    assert list(zip(Header.__struct_fields__, names, strict=True)) == list(table.items())


def test_the_fields_that_derivation_reads() -> None:
    result = headers.l1_header(header(), b"\x0f" * 32)
    assert (result.hash, result.number, result.mix_hash, result.base_fee) == (b"\x0f" * 32, 6582944, b"\x06" * 32, 7)
    assert (result.excess_blob_gas, result.parent_beacon_root) == (0, b"\x08" * 32)
    early = headers.l1_header(header(0), b"\x0f" * 32)
    assert (early.base_fee, early.excess_blob_gas, early.parent_beacon_root) == (0, None, None)


def test_no_withdrawals_have_the_empty_root() -> None:
    assert withdrawals_root([]) == EMPTY_ROOT
