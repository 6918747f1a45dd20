"""Light client objects of the Beacon API, and what is none [LCP5]."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.light_client.beacon_json import (
    LightClientDataError,
    parse_bootstrap,
    parse_update,
    parse_updates,
)
from tests.support.chains.fake_beacon_chain import FakeBeaconChain, beacon_network, keys_of

CHAIN = FakeBeaconChain(beacon_network(gloas=4), lambda number: number.to_bytes(32, "big"))
Change = Callable[[dict[str, Any]], object]


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_objects_of_both_forms_are_read() -> None:
    """A header before Gloas has the payload's header, one of Gloas a hash; in an update of Gloas both have."""
    old, new = CHAIN.update(28), CHAIN.update(40)
    assert (old.attested_header, new.attested_header) == (CHAIN.header(28), CHAIN.header(40))
    assert new.finalized_header == CHAIN.header(24) and len(CHAIN.header(24).execution_branch) == 9
    assert old.attested_header.execution_block_hash == (28).to_bytes(32, "big")
    assert new.attested_header.execution_block_hash == (39).to_bytes(32, "big")
    assert new.next_sync_committee == keys_of(b"honest", 2).committee
    assert CHAIN.bootstrap(40).current_sync_committee == keys_of(b"honest", 1).committee
    assert parse_updates(encoded([CHAIN.update_json(28)]), CHAIN.network) == [old]


def test_absent_members_and_members_of_zeros_are_none() -> None:
    """`light_client/updates` has zeros where nothing is proven, with a branch as long as the fork's."""
    body = CHAIN.update_json(40, finality=False, committee=False)
    expected = parse_update(encoded(body), CHAIN.network)
    assert expected.finalized_header is None and expected.next_sync_committee is None
    zero = "0x" + "00" * 32
    body["data"]["finalized_header"] = {
        "beacon": {"slot": "0", "proposer_index": "0", "parent_root": zero, "state_root": zero, "body_root": zero},
        "execution_block_hash": zero,
        "execution_branch": [zero] * 11,
    }
    body["data"]["finality_branch"] = [zero] * 9
    key = "0x" + "00" * 48
    body["data"]["next_sync_committee"] = {"pubkeys": [key] * 16, "aggregate_pubkey": key}
    body["data"]["next_sync_committee_branch"] = [zero] * 11
    result = parse_update(encoded(body), CHAIN.network)
    assert result.finalized_header is None and result.next_sync_committee is None
    assert not result.has_finality and not result.has_committee


def set_in(*path: str | int) -> Callable[[Any], Change]:
    def with_value(value: Any) -> Change:
        def change(body: dict[str, Any]) -> None:
            target: Any = body["data"]
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = value

        return change

    return with_value


BEACON, EXECUTION = ("attested_header", "beacon"), ("attested_header", "execution")
WRONG: dict[str, tuple[Change, str]] = {
    "a slot beyond 64 bits": (set_in(*BEACON, "slot")(str(1 << 64)), "more than 64 bits"),
    "a number that is none": (set_in(*BEACON, "proposer_index")("-1"), "not a decimal number"),
    "a long number": (set_in("signature_slot")("1" * 5000), "not a decimal number"),
    "a short root": (set_in(*BEACON, "state_root")("0x12"), "expected 32 bytes"),
    "another type": (set_in(*BEACON, "slot")(5), "malformed"),
    "a longer branch": (set_in("finality_branch")(["0x" + "00" * 32] * 17), "a branch of 17 nodes"),
    "a larger committee": (set_in("next_sync_committee", "pubkeys")(["0x" + "00" * 48] * 17), "of 17 keys, not of 16"),
    "a short key": (set_in("next_sync_committee", "aggregate_pubkey")("0x" + "00" * 47), "expected 48 bytes"),
    "more bits": (set_in("sync_aggregate", "sync_committee_bits")("0x" + "ff" * 3), "expected 2 bytes"),
    "a short signature": (set_in("sync_aggregate", "sync_committee_signature")("0x00"), "expected 96 bytes"),
    "long extra data": (set_in(*EXECUTION, "extra_data")("0x" + "00" * 33), "more than 32 bytes"),
    "a base fee beyond 256 bits": (set_in(*EXECUTION, "base_fee_per_gas")(str(1 << 256)), "more than 256 bits"),
    "a payload without its hash": (lambda body: body["data"]["attested_header"]["execution"].pop("block_hash"), "hex"),
    "no header": (lambda body: body["data"].pop("attested_header"), "missing required field"),
    "no data": (lambda body: body.pop("data"), "missing required field"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_malformed_is_refused_with_its_reason(name: str) -> None:
    body = json.loads(encoded(CHAIN.update_json(28)))
    change, error = WRONG[name]
    change(body)
    with pytest.raises(LightClientDataError, match=error):
        parse_update(encoded(body), CHAIN.network)


def test_blob_gas_before_deneb_is_refused() -> None:
    network = beacon_network(deneb=9, electra=9, fulu=9)
    chain = FakeBeaconChain(network, lambda number: bytes(32))
    body = chain.bootstrap_json(8)
    body["data"]["header"]["execution"]["blob_gas_used"] = "1"
    with pytest.raises(LightClientDataError, match="blob_gas_used before Deneb"):
        parse_bootstrap(encoded(body), network)


@given(st.binary(max_size=200).filter(lambda body: body.strip() != b"[]"))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    for parse in (parse_bootstrap, parse_update, parse_updates):
        with pytest.raises(LightClientDataError):
            parse(body or b"x", CHAIN.network)
