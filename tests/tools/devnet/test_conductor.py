"""The conductor: its RPC, called by the node's own client, when a committed block counts as replaced, and how
it replaces the leader."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rollup_node.stages.engine.calls.calls import CommitPayload, GetLeader
from rollup_node.stages.engine.process.neighbour_clients import ConductorClient
from rollup_node.stages.io.http.endpoint_errors import RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, application
from rollup_node.tools.devnet.conductor import ConductorMethods, OverviewMethods, ReplacedBlocks
from rollup_node.tools.devnet.conductor_control import (
    Cluster,
    Control,
    SequencerReport,
    best,
    stuck_head,
)
from tests.support.p2p.blocks import block, chain, chain_config, l1_info_transaction
from tests.support.servers.http_listener import json_rpc_app, listening

ORIGIN = BlockId(7, b"\x07" * 32)
FIRST, SECOND, THIRD = chain(3)
NOWHERE = "http://127.0.0.1:1"


def with_origin(number: int, parent: bytes = bytes(32)) -> ExecutionPayload:
    config = chain_config()
    timestamp = config.genesis.l2_time + 2 * number
    return block(4, number, parent, transactions=(l1_info_transaction(config, timestamp, ORIGIN),))


def safe_at(payload: ExecutionPayload, number: int, safe_hash: bytes) -> SequencerReport:
    return SequencerReport(payload.block_number, payload.block_hash, 0, number, safe_hash, True)


@asynccontextmanager
async def conductor(l1_hash: bytes = ORIGIN.hash) -> AsyncIterator[tuple[Control, str]]:
    """Yield a conductor of two sequencers that nobody polls, beside an L1 whose block 7 has that hash."""
    async with listening(json_rpc_app({"eth_getBlockByNumber": lambda n, full: {"hash": to_hex(l1_hash)}})) as (l1,):
        l1_client = JsonRpcClient(l1)
        replaced = ReplacedBlocks(chain_config(), l1_client)
        urls = {"sequencer": NOWHERE, "sequencer-2": NOWHERE}
        control = Control(Cluster(tuple(urls)), urls, 6, replaced.check, 0.5)
        paths = {f"/{name}": JsonRpc(ConductorMethods(name, control, replaced).methods()) for name in urls}
        overview = JsonRpc(OverviewMethods(control.cluster, control).methods())
        try:
            async with listening(application(overview, others=paths)) as (url,):
                yield control, url
        finally:
            await l1_client.close()


@asynccontextmanager
async def node_client(url: str) -> AsyncIterator[ConductorClient]:
    client = ConductorClient(url, 1.0)
    try:
        yield client
    finally:
        await client.close()


async def test_a_node_commits_as_the_leader_alone() -> None:
    async with conductor() as (control, url), node_client(f"{url}/sequencer") as first:
        async with node_client(f"{url}/sequencer-2") as second:
            assert await first.ask(GetLeader()) is True
            assert await second.ask(GetLeader()) is False
            for payload in (FIRST, FIRST, SECOND):
                assert await first.ask(CommitPayload(payload)) is True
            with pytest.raises(TemporaryError, match="node is not the leader"):
                await second.ask(CommitPayload(THIRD))
            control.transfer("sequencer-2", "a test")
            with pytest.raises(TemporaryError, match="node is not the leader"):
                await first.ask(CommitPayload(THIRD))
            with pytest.raises(TemporaryError, match="does not extend"):
                await second.ask(CommitPayload(FIRST))
            assert await second.ask(CommitPayload(THIRD)) is True
        assert [block.server for block in control.cluster.blocks] == ["sequencer", "sequencer", "sequencer-2"]


@pytest.mark.parametrize(
    ("l1_hash", "safe", "expected"),
    [
        (ORIGIN.hash, (0, bytes(32)), False),
        (b"\x08" * 32, (0, bytes(32)), True),
        (ORIGIN.hash, (2, b"\x09" * 32), True),
        (ORIGIN.hash, (3, b"\x09" * 32), True),
    ],
    ids=["neither", "L1 was reorganised", "derivation found another block", "the safe head is past it"],
)
async def test_another_block_is_committed_once_the_last_one_was_replaced(
    l1_hash: bytes, safe: tuple[int, bytes], expected: bool
) -> None:
    parent = with_origin(1)
    last, twin = with_origin(2, parent.block_hash), block(4, 2, parent.block_hash)
    async with conductor(l1_hash) as (control, url), node_client(f"{url}/sequencer") as client:
        for payload in (parent, last):
            await client.ask(CommitPayload(payload))
        control.sequencers["sequencer"].report = safe_at(last, *safe)
        if expected:
            assert await client.ask(CommitPayload(twin)) is True
        else:
            with pytest.raises(TemporaryError, match="does not extend"):
                await client.ask(CommitPayload(twin))
        assert (control.cluster.last == twin) is expected


async def test_an_operator_transfers_the_lead() -> None:
    async with conductor() as (control, url):
        first, second, all_ = (JsonRpcClient(f"{url}{path}") for path in ("/sequencer", "/sequencer-2", "/"))
        await first.call("conductor_transferLeader")
        assert (await second.call("conductor_leaderWithID"))["id"] == "sequencer-2"
        for client, params, error in (
            (first, ("sequencer", ""), "node is not the leader"),
            (second, ("sequencer-3", ""), "there is no server 'sequencer-3'"),
            (second, ("sequencer-2", ""), "this server leads already"),
        ):
            with pytest.raises(RpcFailure, match=error):
                await client.call("conductor_transferLeaderToServer", *params)
        await second.call("conductor_transferLeaderToServer", "sequencer", "")
        assert control.cluster.leader == "sequencer" and control.failovers == 2
        members: Any = await second.call("conductor_clusterMembership")
        assert [member["id"] for member in members["servers"]] == ["sequencer", "sequencer-2"]
        await first.call("conductor_pause")
        assert await second.call("conductor_paused") is True and await second.call("conductor_active") is False
        await first.call("conductor_resume")
        assert control.paused is False and await first.call("conductor_sequencerHealthy") is True
        result = await all_.call("dev_conductor", 0)
        assert [result[key] for key in ("leader", "term", "failovers", "next_event")] == ["sequencer", 3, 2, 2]
        assert (await all_.call("dev_conductor", 1))["events"] == result["events"][1:]
        for method in ("dev_conductor", "dev_commits"):
            with pytest.raises(RpcFailure, match="must be 0 or more"):
                await all_.call(method, -1)
        control.cluster.commit("sequencer", FIRST)
        assert await all_.call("dev_commits", 0) == [[1, to_hex(FIRST.block_hash), "sequencer"]]
        assert await all_.call("dev_commits", 1) == []
        for client in (first, second, all_):
            await client.close()


SERVERS = ("sequencer", "sequencer-2")
BLOCKS = chain(6)


def report(number: int = 10) -> SequencerReport:
    return SequencerReport(number, b"\x01" * 32, 100, 5, b"\x02" * 32, True)


@pytest.mark.parametrize(
    ("now", "since", "expected"),
    [
        (106.0, 0.0, None),
        (106.5, 0.0, "its unsafe head 10 has not advanced for 6.5 s"),
        (106.5, 103.0, None),
        (110.0, 103.0, "its unsafe head 10 has not advanced for 7.0 s"),
    ],
)
def test_health(now: float, since: float, expected: str | None) -> None:
    assert stuck_head(report(), 6, now, since) == expected


def test_the_next_leader() -> None:
    reports = {"a": report(9), "b": report(12), "c": None}
    assert best(reports, {}) == "b"
    assert best(reports, {"b": "bad"}) == "a", "a healthy one, though its head is lower"
    assert best(reports, {"a": "bad", "b": "bad", "c": "bad"}) == "b"
    assert best({"c": None}, {"c": "it does not answer"}) is None


def committed(count: int) -> Cluster:
    cluster = Cluster(SERVERS)
    for payload in BLOCKS[:count]:
        assert cluster.commit("sequencer", payload)
    return cluster


def test_the_blocks_that_a_server_lacks() -> None:
    cluster = committed(4)
    assert cluster.after(BLOCKS[3].block_hash) == []
    assert cluster.after(BLOCKS[1].block_hash) == BLOCKS[2:4]
    assert cluster.after(BLOCKS[0].parent_hash) == BLOCKS[:4], "the parent of the first one needs all"
    assert cluster.after(b"\x77" * 32) is None
    assert Cluster(SERVERS).after(bytes(32)) is None
