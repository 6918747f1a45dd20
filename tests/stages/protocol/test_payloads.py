"""The header and block hash of payloads."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol import headers
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ordered_root
from rollup_node.stages.protocol.payloads import (
    payload_block_hash,
    payload_header,
)
from tests.support.chains.sample_payload import SAMPLE_PAYLOAD

CANYON = {"withdrawals": True}
ECOTONE = CANYON | {"blob_gas_used": 0, "excess_blob_gas": 0, "parent_beacon_root": b"\x07" * 32}
ISTHMUS = ECOTONE | {"withdrawals_root": b"\x08" * 32}


@pytest.mark.parametrize(
    ("changes", "fields", "root", "requests"),
    [
        ({}, 16, None, None),
        (CANYON, 17, EMPTY_ROOT, None),
        (ECOTONE, 20, EMPTY_ROOT, None),
        (ISTHMUS, 21, b"\x08" * 32, headers.EMPTY_REQUESTS_HASH),
        (ISTHMUS | {"withdrawals_root": EMPTY_ROOT}, 21, EMPTY_ROOT, headers.EMPTY_REQUESTS_HASH),
    ],
)
def test_header_fields_go_by_presence(
    changes: dict[str, Any], fields: int, root: bytes | None, requests: bytes | None
) -> None:
    payload = msgspec.structs.replace(SAMPLE_PAYLOAD, **changes)
    header = payload_header(payload)
    assert (header.withdrawals_root, header.requests_hash) == (root, requests)
    assert sum(value is not None for value in msgspec.structs.astuple(header)) == fields
    assert header.transactions_root == ordered_root(payload.transactions)
    assert payload_block_hash(payload) == headers.header_hash(header)
    assert header.gas_used == 21_000 and header.mix_hash == payload.prev_randao
