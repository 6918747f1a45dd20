"""Our own side: a node's outputs, a supernode's super roots, and what their errors mean [WAT5, WAT6]."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.watch.games import Game, Opinion
from rollup_node.tools.watch.node_reader import OwnSide, View, own_side
from tests.support.servers.http_listener import json_rpc_app, listening

ROOT = "0x" + "11" * 32
GAME = Game("0x" + "aa" * 20, 0, 0, ROOT, "0x" + "bb" * 32, 100, 50)
SUPER = msgspec.structs.replace(GAME, game_type=4)
VIEW = View(101, 90, 60)

Methods = dict[str, Callable[..., Any]]


def _error(message: str) -> Callable[..., Any]:
    def method(*params: Any) -> Any:
        raise JsonRpcError(-32000, message)

    return method


def node_methods(**changes: Callable[..., Any]) -> Methods:
    return {
        "optimism_rollupConfig": lambda: {"l1_chain_id": 900, "l2_chain_id": 901},
        "optimism_syncStatus": lambda: {
            "current_l1": {"number": 101},
            "finalized_l1": {"number": 90},
            "safe_l2": {"number": 60},
        },
        "optimism_outputAtBlock": lambda number: {"outputRoot": ROOT},
        "optimism_safeHeadAtL1Block": lambda number: {"safeHead": {"number": 50}},
        "superroot_atTimestamp": lambda time: _super(100),
        **changes,
    }


def _super(required: int) -> dict[str, Any]:
    return {
        "current_l1": {"number": 101},
        "data": {"verified_required_l1": {"number": required}, "super_root": ROOT},
    }


async def _opinion(methods: Methods, game: Game, view: View = VIEW) -> Opinion:
    async with listening(json_rpc_app(methods)) as (url,):
        side = OwnSide(url)
        try:
            return await side.opinion(game, view)
        finally:
            await side.close()


@pytest.mark.parametrize(
    ("changes", "game", "expected"),
    [
        ({}, GAME, Opinion(101, bytes.fromhex(ROOT[2:]), True)),
        (
            {"optimism_safeHeadAtL1Block": lambda number: {"safeHead": {"number": 49}}},
            GAME,
            Opinion(101, bytes.fromhex(ROOT[2:]), False),
        ),
        ({"optimism_safeHeadAtL1Block": _error("disabled")}, GAME, Opinion(101, bytes.fromhex(ROOT[2:]), None)),
        (
            {"optimism_outputAtBlock": lambda number: {"outputRoot": "0x" + "22" * 32}},
            GAME,
            Opinion(101, b"\x22" * 32, None),
        ),
        ({"optimism_outputAtBlock": _error("block Not Found")}, GAME, Opinion(101, None)),
        ({}, msgspec.structs.replace(GAME, l2_sequence_number=61), Opinion(101, None)),
        ({}, SUPER, Opinion(101, bytes.fromhex(ROOT[2:]), True)),
        ({"superroot_atTimestamp": lambda time: _super(102)}, SUPER, Opinion(101, bytes.fromhex(ROOT[2:]), False)),
        ({"superroot_atTimestamp": lambda time: {"current_l1": {"number": 99}}}, SUPER, Opinion(99, None)),
        ({"superroot_atTimestamp": _error("x: did not reach genesis time (5) yet")}, SUPER, Opinion(101, None)),
    ],
)
async def test_opinions(changes: Methods, game: Game, expected: Opinion) -> None:
    assert await _opinion(node_methods(**changes), game) == expected


@pytest.mark.parametrize(
    ("changes", "game"),
    [({"optimism_outputAtBlock": _error("busy")}, GAME), ({"superroot_atTimestamp": _error("busy")}, SUPER)],
)
async def test_other_errors_are_no_opinion(changes: Methods, game: Game) -> None:
    with pytest.raises(RpcFailure):
        await _opinion(node_methods(**changes), game)


async def test_a_node_tells_how_far_it_is() -> None:
    async with listening(json_rpc_app(node_methods())) as (url,):
        side = await own_side(url)
        assert not side.is_supernode and await side.l1_chain_id() == 900
        assert await side.view() == VIEW, "without a page of its status nothing is proven"
        assert side.compares(GAME) and side.compares(SUPER)
        await side.close()


async def test_a_supernode_compares_super_roots_only() -> None:
    methods: Methods = {
        "supernode_syncStatus": lambda: {"current_l1": {"number": 200}},
        "superroot_atTimestamp": lambda time: _super(100),
    }
    async with listening(json_rpc_app(methods)) as (url,):
        side = await own_side(url)
        assert side.is_supernode and await side.l1_chain_id() is None
        view = await side.view()
        assert view.current_l1 == 200 and 0 < view.finalized_l1 < 200
        assert not side.compares(GAME) and side.compares(SUPER)
        assert await side.opinion(SUPER, view) == Opinion(101, bytes.fromhex(ROOT[2:]), True)
        assert await side.root(5, view) == bytes.fromhex(ROOT[2:])
        await side.close()


@pytest.mark.parametrize(
    ("methods", "error"),
    [
        ({}, RpcFailure),
        ({"optimism_rollupConfig": _error("busy")}, RpcFailure),
        ({"optimism_rollupConfig": lambda: "no object"}, EndpointError),
    ],
)
async def test_what_is_neither_is_refused(methods: Methods, error: type[Exception]) -> None:
    async with listening(json_rpc_app(methods)) as (url,):
        with pytest.raises(error):
            await own_side(url)
    with pytest.raises(EndpointError):
        await own_side("http://127.0.0.1:1")
