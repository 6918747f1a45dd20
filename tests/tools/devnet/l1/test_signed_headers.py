"""The signed beacon chain of the local network: the node's light client follows it over periods and forks.

Its routes say what is new."""

import aiohttp
import orjson
import pytest
from aiohttp import web

from rollup_node.stages.l1.light_client.beacon_json import parse_bootstrap, parse_update, parse_updates
from rollup_node.stages.l1.light_client.containers import LightClientHeader, LightClientUpdate
from rollup_node.stages.l1.light_client.network import BeaconNetwork, Preset
from rollup_node.stages.l1.light_client.store import (
    LightClientStore,
    Refusal,
    check_bootstrap,
)
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.fork_offsets import l1_fork_offsets
from rollup_node.tools.devnet.l1.backend import FINALIZED_DISTANCE, L1Backend
from rollup_node.tools.devnet.l1.light_client_routes import add_routes
from rollup_node.tools.devnet.l1.signed_headers import committee_keys
from tests.support.servers.http_listener import listening
from tests.support.timing.conditions import until

GENESIS_TIME, SLOT = 1_700_000_000, 2
PRESET = Preset(sync_committee_size=32, slots_per_epoch=4, epochs_per_period=4)
PERIOD = 16
"""Slots."""
GLOAS_SLOT = 24
"""In the second period."""


def l1(signers: int | None = None, branch: int = 0) -> L1Backend:
    genesis = l1_genesis(GENESIS_TIME, l1_fork_offsets(f"gloas={GLOAS_SLOT * SLOT}"))
    return L1Backend(genesis, SLOT, preset=PRESET, signers=signers, branch=branch)


def mine(chain: L1Backend, count: int = 1) -> None:
    for _ in range(count):
        chain.mine(chain.chain.head.header.timestamp + SLOT)


def started(chain: L1Backend, network: BeaconNetwork | None = None, block: Block | None = None) -> LightClientStore:
    """Return a client that starts from a block, or from genesis."""
    network, root = network or chain.network, chain.headers.root(block or chain.chain.genesis)
    answer = chain.headers.bootstrap(root)
    assert answer is not None
    bootstrap = parse_bootstrap(orjson.dumps(answer), network)
    assert check_bootstrap(bootstrap, root, network) is None
    return LightClientStore(network, bootstrap)


def newest(chain: L1Backend, with_finality: bool = True) -> LightClientUpdate:
    answer = chain.headers.newest_update(with_finality)
    assert answer is not None
    return parse_update(orjson.dumps(answer), chain.network)


def updates(chain: L1Backend, start: int = 0, count: int = 8) -> list[LightClientUpdate]:
    return parse_updates(orjson.dumps(chain.headers.updates(start, count)), chain.network)


def slot(chain: L1Backend) -> int:
    return chain.network.slot_at(chain.chain.head.header.timestamp)


def proves(chain: L1Backend, header: LightClientHeader, number: int) -> None:
    """Assert that a header proves a block of the chain, or its parent from Gloas on."""
    block = chain.chain.at(number - (header.beacon.slot >= GLOAS_SLOT))
    assert block is not None and header.execution_block_hash == block.hash


def test_a_light_client_follows_over_periods_and_into_gloas() -> None:
    chain = l1()
    client = started(chain)
    for number in range(1, 4 * PERIOD):
        mine(chain)
        if client.next_sync_committee is None:
            for update in updates(chain, client.period, 1):
                assert client.process(update, slot(chain)) is None
        for with_finality in (True, False):
            if number > FINALIZED_DISTANCE + 1 or not with_finality:
                # The second of the two has nothing new, which is no fault.
                assert client.process(newest(chain, with_finality), slot(chain)) in (None, Refusal.NOT_RELEVANT)
        assert client.optimistic.beacon.slot == number - 1
        proves(chain, client.optimistic, number - 1)
        if number > FINALIZED_DISTANCE + 1:
            proves(chain, client.finalized, number - 1 - FINALIZED_DISTANCE)
    assert client.period == 3 and client.current_sync_committee == committee_keys(3, 32).committee


@pytest.mark.parametrize(
    ("signers", "is_head", "is_final"), [(10, False, False), (16, False, False), (21, True, False), (22, True, True)]
)
def test_a_part_of_the_committee_signs(signers: int, is_head: bool, is_final: bool) -> None:
    """[LCP8] A fork by a third makes no final block and no head, and one by more than half no final block."""
    honest, other = l1(), l1(signers, branch=1)
    for chain in (honest, other):
        mine(chain, 8)
    assert honest.chain.genesis == other.chain.genesis
    client = started(other)
    assert client.process(newest(other), slot(other)) is None
    assert (client.optimistic.beacon.slot > 0, client.finalized.beacon.slot > 0) == (is_head, is_final)
    client = started(honest)
    assert client.process(newest(honest), slot(honest)) is None
    mine(other, 2)
    assert client.process(newest(other), slot(other)) is None
    assert (client.optimistic.beacon.slot == 9) is is_head
    assert (client.finalized.beacon.slot == 5) is is_final


async def test_a_stream_says_that_there_is_a_new_update() -> None:
    """With the update, once for each block that comes; other topics are refused."""
    chain = L1Backend(l1_genesis(GENESIS_TIME), SLOT)
    app = web.Application()
    add_routes(app, chain)
    async with listening(app) as (url,), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/eth/v1/events?topics=head") as response:
            assert response.status == 400
        async with session.get(f"{url}/eth/v1/events?topics=light_client_optimistic_update") as response:
            for slot in (2, 3):
                mine(chain, 2 if slot == 2 else 1)
                assert await response.content.readline() == b"event: light_client_optimistic_update\n"
                name, _, data = (await response.content.readline()).partition(b": ")
                assert name == b"data" and parse_update(data, chain.network).attested_header.beacon.slot == slot - 1
                assert await response.content.readline() == b"\n"

        def is_gone() -> bool:
            mine(chain, 1)
            return not chain.on_head

        await until(is_gone)
