"""The signed beacon chain of the local network, whose routes say what is new.

tests/chaos/test_checkpoint.py follows it over periods and forks."""

import aiohttp
import orjson
import pytest
from aiohttp import web

from rollup_node.stages.l1.light_client.beacon_json import parse_bootstrap, parse_update
from rollup_node.stages.l1.light_client.network import Preset
from rollup_node.stages.l1.light_client.store import (
    LightClientStore,
    check_bootstrap,
)
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.light_client_routes import add_routes
from tests.support.servers.http_listener import listening
from tests.support.timing.conditions import until

GENESIS_TIME, SLOT = 1_700_000_000, 2
PRESET = Preset(sync_committee_size=32, slots_per_epoch=4, epochs_per_period=4)


def l1(signers: int | None = None, branch: int = 0) -> L1Backend:
    return L1Backend(l1_genesis(GENESIS_TIME), SLOT, preset=PRESET, signers=signers, branch=branch)


def mine(chain: L1Backend, count: int = 1) -> None:
    for _ in range(count):
        chain.mine(chain.chain.head.header.timestamp + SLOT)


def started(chain: L1Backend) -> LightClientStore:
    """Return a client that starts from genesis."""
    root = chain.headers.root(chain.chain.genesis)
    bootstrap = parse_bootstrap(orjson.dumps(chain.headers.bootstrap(root)), chain.network)
    assert check_bootstrap(bootstrap, root, chain.network) is None
    return LightClientStore(chain.network, bootstrap)


def follow(client: LightClientStore, chain: L1Backend) -> None:
    """Have a client take the newest update of a chain."""
    update = parse_update(orjson.dumps(chain.headers.newest_update(with_finality=True)), chain.network)
    assert client.process(update, chain.network.slot_at(chain.chain.head.header.timestamp)) is None


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
    follow(client, other)
    assert (client.optimistic.beacon.slot > 0, client.finalized.beacon.slot > 0) == (is_head, is_final)
    client = started(honest)
    follow(client, honest)
    mine(other, 2)
    follow(client, other)
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
