"""The status of a network: heads, peers, L1, batches and memory."""

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet import status as module
from rollup_node.tools.devnet.status import (
    Comparison,
    NetworkStatus,
    NodeHeads,
    RecentMemory,
    StatusPoller,
    compare_output_roots,
    memory_of,
    read_processes,
)
from tests.support.servers.http_listener import json_rpc_app, listening

HASH = "0x" + "11" * 32


def heads(unsafe_hash: str = HASH) -> dict[str, Any]:
    numbers = {"unsafe_l2": 9, "safe_l2": 7, "finalized_l2": 5}
    return {name: {"number": number, "hash": unsafe_hash} for name, number in numbers.items()}


def poll(root: Path, *, l1: bool = True, unsafe_hash: str = HASH, peers: bool = True) -> NetworkStatus:
    """Return the status of an L1 and a node that is called `verifier`."""

    def peer_stats() -> dict[str, int]:
        if not peers:
            raise JsonRpcError(SERVER_ERROR, "p2p is disabled")
        return {"connected": 3}

    async def run() -> NetworkStatus:
        methods = {"optimism_syncStatus": lambda: heads(unsafe_hash), "opp2p_peerStats": peer_stats}
        l1_methods = {"eth_blockNumber": lambda: "0x10"} if l1 else {}
        async with listening(json_rpc_app(l1_methods), json_rpc_app(methods)) as (l1_url, node):
            poller = StatusPoller(l1_url, {"verifier": node}, root)
            try:
                return await poller.poll()
            finally:
                await poller.close()

    return asyncio.run(run())


def test_heads_peers_and_l1(tmp_path: Path) -> None:
    status = poll(tmp_path)
    assert status.l1_head == 16
    assert status.nodes == {"verifier": NodeHeads(9, 7, 5, 3)}
    assert (status.processes, status.batches) == ({"verifier": []}, {})


def test_what_does_not_answer_is_unknown(tmp_path: Path) -> None:
    status = poll(tmp_path, l1=False, peers=False)
    assert status.l1_head is None
    assert status.nodes == {"verifier": NodeHeads(9, 7, 5, None)}


def test_a_node_without_heads_is_starting(tmp_path: Path) -> None:
    assert poll(tmp_path, unsafe_hash="0x" + "00" * 32).nodes == {"verifier": None}


def test_files_of_batcher_and_supervisor(tmp_path: Path) -> None:
    (tmp_path / "verifier").mkdir()
    entries = [
        {"role": "l1", "copy": 0, "pid": os.getpid(), "incarnation": 2},
        {"role": "compute", "copy": 0, "pid": os.getpid(), "incarnation": 1},
        {"role": "compute", "copy": 1, "pid": 1 << 30, "incarnation": 1},
    ]
    (tmp_path / "verifier" / "processes.json").write_text(json.dumps(entries))
    (tmp_path / "batcher.json").write_text('{"channels": 4}')
    status = poll(tmp_path)
    assert status.batches == {"channels": 4}
    assert [process.role for process in status.processes["verifier"]] == ["l1", "compute-0", "compute-1"]
    assert [process.memory > 0 for process in status.processes["verifier"]] == [True, True, False]


async def test_the_processes_are_read_where_they_are_shown(tmp_path: Path) -> None:
    (tmp_path / "verifier").mkdir()
    entry = {"role": "l1", "copy": 0, "pid": os.getpid(), "incarnation": 1}
    (tmp_path / "verifier" / "processes.json").write_text(json.dumps([entry]))
    async with listening(json_rpc_app({}), json_rpc_app({})) as (l1, node):
        poller = StatusPoller(l1, {"verifier": node}, tmp_path, has_processes=False)
        try:
            assert (await poller.poll()).processes == {}
            assert [process.role for process in poller.processes()["verifier"]] == ["l1"]
        finally:
            await poller.close()


def test_an_incomplete_file_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    path.write_text("[{")
    assert read_processes(path) == []


def test_memory_is_read_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = list[int]()

    def memory_of(pid: int) -> float:
        reads.append(pid)
        return float(pid)

    monkeypatch.setattr("rollup_node.tools.devnet.status.memory_of", memory_of)
    recent = RecentMemory()
    assert [recent.of_all(pids) for pids in ((1, 2), (2, 1), (3, 1), (2,))] == [[1, 2], [2, 1], [3, 1], [2]]
    assert reads == [1, 2, 3, 2]


def test_memory_of_a_process() -> None:
    assert 5 < memory_of(os.getpid()) < 5000
    assert memory_of(1 << 30) == 0.0


def test_what_the_conductor_said_since_the_last_poll(tmp_path: Path) -> None:
    asked: list[int] = []

    def overview(first: int) -> dict[str, Any]:
        asked.append(first)
        return {"leader": "sequencer-2", "events": ["failover"] if first == 0 else [], "next_event": 1}

    async def run() -> list[NetworkStatus]:
        async with listening(json_rpc_app({}), json_rpc_app({"dev_conductor": overview})) as (l1, conductor):
            poller = StatusPoller(l1, {}, tmp_path, conductor)
            try:
                return [await poller.poll() for _ in range(2)]
            finally:
                await poller.close()

    first, second = asyncio.run(run())
    assert (first.leader, first.events) == ("sequencer-2", ["failover"])
    assert (second.leader, second.events) == ("sequencer-2", []) and asked == [0, 1]


Output = Callable[[str], dict[str, str]]


def root(number: str) -> dict[str, str]:
    return {"outputRoot": f"0x{int(number, 16):064x}"}


def compared(last: int, **nodes: Output) -> Comparison:
    """Return the comparison of nodes that answer optimism_outputAtBlock by these functions."""

    async def run() -> Comparison:
        apps = (json_rpc_app({"optimism_outputAtBlock": output}) for output in nodes.values())
        async with listening(*apps) as urls, AsyncExitStack() as stack:
            clients = {name: JsonRpcClient(url) for name, url in zip(nodes, urls, strict=True)}
            for client in clients.values():
                stack.push_async_callback(client.close)
            return await compare_output_roots(clients, last)

    return asyncio.run(run())


def test_equal_roots() -> None:
    assert compared(20, one=root, other=root) == Comparison(21, None)
    assert compared(0, one=root).equal


def test_the_first_difference_is_reported() -> None:
    def differs(number: str) -> dict[str, str]:
        return root(hex(int(number, 16) + (int(number, 16) >= 11)))

    comparison = compared(20, one=root, other=root, third=differs)
    assert (comparison, comparison.equal) == (Comparison(12, 11), False)


def test_failed_requests_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    failures = iter([True, True])

    def flaky(number: str) -> dict[str, str]:
        if next(failures, False):
            raise JsonRpcError(SERVER_ERROR, "not ready")
        return root(number)

    assert compared(3, one=root, other=flaky).equal


def test_a_node_that_keeps_failing_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(module, "ATTEMPTS", 3)

    def fails(number: str) -> dict[str, str]:
        raise JsonRpcError(SERVER_ERROR, "not ready")

    with pytest.raises(RpcFailure, match="not ready"):
        compared(1, one=root, other=fails)
