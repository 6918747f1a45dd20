"""Beacon networks: slots, periods, forks and domains, and the file of a private one [LCP1, LCP3]."""

import json
from typing import Any

import pytest

from rollup_node.stages.l1.light_client.network import (
    BEACON_NETWORKS,
    MINIMAL,
    NetworkFileError,
    parse_network,
)
from rollup_node.stages.l1.light_client.ssz import compute_domain
from tests.support.chains.fake_beacon_chain import beacon_network


def test_public_networks() -> None:
    """Versions count in the first byte, on Sepolia in decimal digits of the last."""
    mainnet, sepolia, hoodi = (BEACON_NETWORKS[chain_id] for chain_id in (1, 11_155_111, 560_048))
    assert mainnet.fork_at(364_032 * 32).version.hex() == "05000000"
    assert mainnet.fork_at(411_392 * 32 - 1).name == "electra"
    assert sepolia.fork_at(353_024 * 32) == sepolia.forks[-1]
    assert (sepolia.forks[-1].name, sepolia.forks[-1].version.hex()) == ("gloas", "90000076")
    assert sepolia.time_of(353_024 * 32) == 1_791_294_816, "6 Oct 2026 13:53:36 UTC"
    assert (hoodi.forks[-1].name, hoodi.forks[-1].version.hex()) == ("fulu", "70000910")
    assert mainnet.slots_per_period == 8192 and mainnet.period_of(8191) == 0


def test_slots_and_times() -> None:
    network = beacon_network(1000)
    assert [network.slot_at(time) for time in (0, 1000, 1011.9, 1012, 1120)] == [0, 0, 0, 1, 10]
    assert network.time_of(10) == 1120


def test_the_domain_is_that_of_the_fork_of_the_slot_before() -> None:
    """[LCP7] A block of a fork's first slot has signatures of the fork before."""
    network = beacon_network(gloas=4)
    root = network.genesis_validators_root
    fulu, gloas = (compute_domain(bytes.fromhex("07000000"), bytes([index, 0, 0, 7]), root) for index in (6, 7))
    assert [network.signature_domain(slot) for slot in (32, 33)] == [fulu, gloas]
    assert network.signature_domain(0) == network.signature_domain(1)


SPEC: dict[str, Any] = {
    "CONFIG_NAME": "private",
    "SLOTS_PER_EPOCH": "8",
    "SYNC_COMMITTEE_SIZE": "32",
    "EPOCHS_PER_SYNC_COMMITTEE_PERIOD": "8",
    "SECONDS_PER_SLOT": "6",
    "GENESIS_FORK_VERSION": "0x00000001",
    "ALTAIR_FORK_VERSION": "0x01000001",
    "ALTAIR_FORK_EPOCH": "0",
    "GLOAS_FORK_VERSION": "0x07000001",
    "GLOAS_FORK_EPOCH": "18446744073709551615",
    "BLOB_SCHEDULE": [],
    "genesis_time": "1700000000",
    "genesis_validators_root": "0x" + "11" * 32,
}


def test_a_file_has_what_a_beacon_api_returns() -> None:
    network = parse_network(json.dumps(SPEC).encode())
    assert (network.name, network.preset, network.slot_ms) == ("private", MINIMAL, 6000)
    assert [fork.name for fork in network.forks] == ["genesis", "altair"]
    assert network.genesis_validators_root == b"\x11" * 32 and network.genesis_time == 1_700_000_000
    assert parse_network(json.dumps({**SPEC, "SLOT_DURATION_MS": "500"}).encode()).slot_ms == 500


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"SLOTS_PER_EPOCH": None}, "SLOTS_PER_EPOCH is not a number"),
        ({"SLOTS_PER_EPOCH": "0"}, "must be positive"),
        ({"SYNC_COMMITTEE_SIZE": "33"}, "a power of two"),
        ({"SECONDS_PER_SLOT": "0"}, "must be positive"),
        ({"genesis_validators_root": "0x12"}, "expected 32 bytes"),
        ({"GENESIS_FORK_VERSION": "0x0000000100"}, "expected 4 bytes"),
        ({"ALTAIR_FORK_EPOCH": "9", "GLOAS_FORK_EPOCH": "3"}, "earlier epoch"),
    ],
)
def test_a_wrong_file_is_refused(change: dict[str, Any], error: str) -> None:
    with pytest.raises(NetworkFileError, match=error):
        parse_network(json.dumps({**SPEC, **change}).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"{}", b"{" + b'"a":[' * 9000 + b"]" * 9000 + b"}"])
def test_a_file_that_is_no_network_is_refused(content: bytes) -> None:
    with pytest.raises(NetworkFileError):
        parse_network(content)
