"""Roots of light client objects, and headers in the form of Gloas [LCP2, LCP4]."""

import msgspec
import pytest

from rollup_node.stages.l1.light_client.containers import (
    BeaconBlockHeader,
    ExecutionPayloadHeader,
    LightClientHeader,
    upgraded,
)
from rollup_node.stages.l1.light_client.network import EXECUTION_PAYLOAD
from rollup_node.stages.l1.light_client.ssz import ZERO_ROOT
from rollup_node.tools.devnet.l1.signed_headers import prove
from tests.support.chains.fake_beacon_chain import beacon_network

CAPELLA = {"capella": 0, "deneb": 9, "electra": 9, "fulu": 9}


def execution(**values: object) -> ExecutionPayloadHeader:
    head = (b"\1" * 32, b"\2" * 20, b"\3" * 32, b"\4" * 32, bytes(256), b"\5" * 32)
    header = ExecutionPayloadHeader(*head, 1, 2, 3, 4, b"extra", 7, b"\x77" * 32, b"\6" * 32, b"\7" * 32)
    return msgspec.structs.replace(header, **values)


@pytest.mark.parametrize(
    ("network", "blobs"),
    [(beacon_network(**CAPELLA), {}), (beacon_network(), {"blob_gas_used": 1, "excess_blob_gas": 2})],
)
def test_an_upgraded_header_is_valid_for_the_hash_of_its_payload_alone(network: object, blobs: dict[str, int]) -> None:
    payload = execution(**blobs)
    body_root, branches = prove({EXECUTION_PAYLOAD: payload.root})
    beacon = BeaconBlockHeader(8, 1, bytes(32), bytes(32), body_root)
    header = upgraded(beacon, payload, branches[EXECUTION_PAYLOAD])
    assert header.execution_block_hash == b"\x77" * 32
    assert header.is_valid(network)  # type: ignore[arg-type]
    for other in (
        msgspec.structs.replace(header, execution_block_hash=b"\x78" * 32),
        msgspec.structs.replace(header, execution_branch=header.execution_branch[1:]),
        msgspec.structs.replace(header, execution_branch=()),
        upgraded(msgspec.structs.replace(beacon, body_root=bytes(32)), payload, branches[EXECUTION_PAYLOAD]),
    ):
        assert not other.is_valid(network)  # type: ignore[arg-type]


def test_before_capella_a_header_has_no_execution_block() -> None:
    network = beacon_network(capella=9, deneb=9, electra=9, fulu=9)
    beacon = BeaconBlockHeader(8, 1, bytes(32), bytes(32), bytes(32))
    assert LightClientHeader(beacon).is_valid(network)
    assert LightClientHeader(beacon, ZERO_ROOT, (ZERO_ROOT,) * 11).is_valid(network)
    assert not LightClientHeader(beacon, b"\1" * 32).is_valid(network)
