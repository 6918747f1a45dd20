"""Light client objects as the Beacon API returns them: the node reads what was written."""

from typing import Any

import orjson
import pytest

from rollup_node.stages.l1.light_client.beacon_json import parse_bootstrap, parse_update
from rollup_node.stages.l1.light_client.containers import (
    BeaconBlockHeader,
    LightClientBootstrap,
    LightClientHeader,
    LightClientUpdate,
)
from rollup_node.stages.l1.light_client.network import BeaconNetwork, parse_network
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.light_client_json import (
    aggregate_json,
    block_header_json,
    bootstrap_json,
    committee_json,
    genesis_json,
    header_json,
    spec_json,
    update_json,
)
from rollup_node.tools.devnet.l1.signed_headers import DEVELOPMENT, beacon_network, committee_keys

NETWORK = beacon_network(l1_genesis(1_700_000_000)["config"], 1_700_000_000, 2, DEVELOPMENT)
ROOTS = [bytes([number]) * 32 for number in range(1, 9)]
BEACON = BeaconBlockHeader(9, 1, *ROOTS[:3])
HEADER = LightClientHeader(BEACON, ROOTS[3], (ROOTS[4], ROOTS[5]))
KEYS = committee_keys(0, 32)


def parsed(value: Any, network: BeaconNetwork = NETWORK) -> LightClientUpdate:
    return parse_update(orjson.dumps(value), network)


def test_a_bootstrap() -> None:
    bootstrap = LightClientBootstrap(HEADER, KEYS.committee, (ROOTS[6], ROOTS[7]))
    answer = bootstrap_json(bootstrap, header_json(HEADER), "gloas")
    assert answer["version"] == "gloas" and parse_bootstrap(orjson.dumps(answer), NETWORK) == bootstrap


@pytest.mark.parametrize(("has_finality", "has_committee"), [(False, False), (True, False), (True, True)])
def test_updates(has_finality: bool, has_committee: bool) -> None:
    update = LightClientUpdate(
        HEADER,
        KEYS.sign(ROOTS[0], [place < 5 for place in range(32)]),
        10,
        HEADER if has_finality else None,
        (ROOTS[1],) if has_finality else (),
        KEYS.committee if has_committee else None,
        (ROOTS[2],) if has_committee else (),
    )
    answer = update_json(update, header_json(HEADER), header_json(HEADER) if has_finality else None, "gloas")
    assert ("finality_branch" in answer["data"]) is has_finality and parsed(answer) == update


def test_bits_are_in_little_endian_order() -> None:
    shown = aggregate_json(KEYS.sign(ROOTS[0], [place in (0, 9) for place in range(32)]))
    assert shown["sync_committee_bits"] == "0x01020000"
    assert committee_json(KEYS.committee)["pubkeys"][0] == to_hex(KEYS.committee.pubkeys[0])


def test_the_header_of_a_block_and_the_file_of_a_network() -> None:
    answer = block_header_json(BEACON, "0x")
    assert answer["root"] == to_hex(BEACON.root) and answer["header"]["message"]["slot"] == "9"
    assert parse_network(orjson.dumps(spec_json(NETWORK) | genesis_json(NETWORK))) == NETWORK
