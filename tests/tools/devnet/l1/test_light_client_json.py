"""Light client objects of the local network are those that a light client reads."""

import json

import pytest

from rollup_node.stages.l1.light_client.beacon_json import parse_bootstrap, parse_update
from rollup_node.tools.devnet.l1.light_client_json import aggregate_json, committee_json
from rollup_node.tools.devnet.l1.sync_committee import CommitteeKeys
from tests.support.chains.fake_beacon_chain import FakeBeaconChain, beacon_network


@pytest.mark.parametrize("gloas", [0, 1 << 30])
def test_what_is_written_is_read(gloas: int) -> None:
    chain = FakeBeaconChain(beacon_network(gloas=gloas), lambda number: number.to_bytes(32, "big"))
    bootstrap = parse_bootstrap(json.dumps(chain.bootstrap_json(40)).encode(), chain.network)
    update = parse_update(json.dumps(chain.update_json(41)).encode(), chain.network)
    assert (bootstrap.header, update.attested_header) == (chain.header(40), chain.header(41))
    assert update.has_finality and update.has_committee and update.signature_slot == 42


def test_bits_are_in_little_endian_order() -> None:
    keys = CommitteeKeys(b"a", 16)
    shown = aggregate_json(keys.sign(bytes(32), [index in (0, 9) for index in range(16)]))
    assert shown["sync_committee_bits"] == "0x0102"
    assert committee_json(keys.committee)["pubkeys"][0] == "0x" + keys.committee.pubkeys[0].hex()
