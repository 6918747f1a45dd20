"""What a beacon node says of itself and of finalized blocks, and whether it serves light clients."""

from typing import Any

import pytest
from aiohttp import web

from rollup_node.node.checks.beacon import LIGHT_CLIENT_FLAGS, BeaconReader
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.l1.light_client.network import BEACON_NETWORKS
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.preflight.light_client import (
    LightClientGap,
    finalized_header,
    known_network,
    light_client_gap,
    root_at,
)
from tests.support.servers.http_listener import app_for_every_path, listening

ROOT = "0x" + "11" * 32
MESSAGE = {"slot": "7", "proposer_index": "1"} | dict.fromkeys(("parent_root", "state_root", "body_root"), ROOT)


async def asked(function: Any, answers: dict[str, Any], *words: Any) -> Any:
    """Return what a function returns of a server with answers by the last part of the path: data, or a status."""

    async def handle(request: web.Request) -> web.Response:
        answer = answers.get(request.path.rpartition("/")[2], 404)
        return web.Response(status=answer) if isinstance(answer, int) else web.json_response({"data": answer})

    async with listening(app_for_every_path(handle)) as (url,):
        return await function(BeaconReader(url, None, 20.0), *words)


async def test_the_finalized_header() -> None:
    header = await asked(finalized_header, {"finalized": {"root": "0x", "header": {"message": MESSAGE}}})
    assert (header.slot, header.proposer_index, header.body_root) == (7, 1, b"\x11" * 32)


@pytest.mark.parametrize("change", [{"slot": "x"}, {"slot": "-1"}, {"slot": "9" * 30}, {"body_root": "0x11"}])
async def test_a_header_that_is_none(change: dict[str, str]) -> None:
    answer = {"root": ROOT, "header": {"message": MESSAGE | change}}
    with pytest.raises(EndpointError, match="no header in the response to /eth/v1/beacon/headers/finalized"):
        await asked(finalized_header, {"finalized": answer})


async def test_the_root_in_a_slot() -> None:
    assert await asked(root_at, {"root": {"root": ROOT}}, 7) == b"\x11" * 32
    assert await asked(root_at, {}, 7) is None
    for answer, error in (({"root": "0x"}, "no block root"), ({}, "no block root"), (500, "HTTP status 500")):
        with pytest.raises(EndpointError, match=error):
            await asked(root_at, {"root": answer}, 7)


async def test_the_network_by_its_genesis() -> None:
    for network in BEACON_NETWORKS.values():
        genesis = {"genesis_validators_root": to_hex(network.genesis_validators_root)}
        assert await asked(known_network, {"genesis": genesis}) is network
    assert await asked(known_network, {"genesis": {"genesis_validators_root": ROOT}}) is None
    assert await asked(known_network, {}) is None


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        *((f"{client.title()}/v1.2.3", advice) for client, advice in LIGHT_CLIENT_FLAGS.items()),
        ("erigon/3", "turn them on there, or ask another beacon node (--l1.checkpoint.beacon)"),
    ],
)
async def test_each_client_has_a_flag_of_its_own(version: str, advice: str) -> None:
    gap = await asked(light_client_gap, {"version": {"version": version}, "finality_update": 501})
    assert isinstance(gap, LightClientGap) and gap.advice == advice and "HTTP status 501" in gap.text
    assert await asked(light_client_gap, {"finality_update": {}}) is None
