"""A small recording of L1 with our own keys: three blocks, of which the last was recorded without transactions."""

import gzip
import json
from functools import cache
from pathlib import Path

from rollup_node.stages.blobs.kzg import blob_to_commitment, versioned_hash
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.headers import Header, encode_header, header_hash
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import ZERO_HASH, Hash
from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.batcher.driver import Fees, Key, blob_transaction, dynamic_fee_transaction
from rollup_node.tools.devnet.evm.state import EventLog
from rollup_node.tools.devnet.evm.transition import encode_receipt
from rollup_node.tools.recorded.server import BEACON_GENESIS_TIME, SEPOLIA_CHAIN_ID, SLOT_SECONDS
from tests.support.chains.fake_l1_chain import plain_header

KEY = Key(b"\x07" * 32)
TO = b"\xaa" * 20
FIRST = 100
BLOB = encode_blob(b"recorded")
MISSING_BLOB = encode_blob(b"not recorded")
FEES = Fees(tip=2, cap=1000, blob_cap=3)
BASE_FEE = 50


@cache
def blob_hash() -> Hash:
    """Return the versioned hash of BLOB."""
    return versioned_hash(blob_to_commitment(BLOB))


def slot_of(number: int) -> int:
    """Return the Beacon slot of a block."""
    return 10 + number - FIRST


def header_of(number: int, parent: Hash) -> Header:
    """Return the header of a block of the recording."""
    return plain_header(
        number,
        parent,
        BEACON_GENESIS_TIME + SLOT_SECONDS * slot_of(number),
        gas_used=42_000,
        base_fee=BASE_FEE,
        withdrawals_root=EMPTY_ROOT,
        blob_gas_used=0,
        excess_blob_gas=0,
        parent_beacon_root=ZERO_HASH,
    )


def write_recording(folder: Path) -> list[Header]:
    """Write the files of a recording; the headers of its blocks."""
    headers = [header_of(FIRST, ZERO_HASH)]
    for number in (FIRST + 1, FIRST + 2):
        headers.append(header_of(number, header_hash(headers[-1])))
    plain = dynamic_fee_transaction(KEY, SEPOLIA_CHAIN_ID, 0, TO, 5, b"\x01\x02", 30_000, FEES)
    blobs = blob_transaction(KEY, SEPOLIA_CHAIN_ID, 1, TO, [BLOB, MISSING_BLOB], 21_000, FEES)
    canonical = b"\x03" + rlp.encode(rlp.decode(blobs.pooled[1:])[0])
    logs = (EventLog(TO, (b"\x01" * 32,), b"data"), EventLog(TO, (), b""))
    receipts = [encode_receipt(2, True, 21_000, 0, logs), encode_receipt(3, True, 42_000, 0, logs[:1])]
    bodies: list[tuple[list[bytes], list[bytes]] | None] = [([], []), ([plain, canonical], receipts), None]
    with gzip.open(folder / "l1_blocks.jsonl.gz", "wt") as lines:
        for header, body in zip(headers, bodies, strict=True):
            entry: dict[str, object] = {
                "number": header.number,
                "hash": header_hash(header).hex(),
                "header_rlp": encode_header(header).hex(),
            }
            if body is not None:
                entry |= {"txs": [raw.hex() for raw in body[0]], "receipts": [raw.hex() for raw in body[1]]}
            lines.write(json.dumps(entry) + "\n")
    (folder / f"blob_{blob_hash().hex()}.bin").write_bytes(BLOB)
    (folder / "expected.json").write_text(
        json.dumps({"blobs": {blob_hash().hex(): {"commitment": blob_to_commitment(BLOB).hex()}}})
    )
    return headers
