"""The status of a network: heads, peers, L1, batches and memory."""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NoReturn

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
    read_processes,
)
from tests.support.servers.http_listener import json_rpc_app, listening

HASH = "0x" + "11" * 32
Methods = dict[str, Callable[..., Any]]


def heads(unsafe_hash: str = HASH) -> dict[str, Any]:
    numbers = {"unsafe_l2": 9, "safe_l2": 7, "finalized_l2": 5}
    return {name: {"number": number, "hash": unsafe_hash} for name, number in numbers.items()}


def refuses(*_: object) -> NoReturn:
    raise JsonRpcError(SERVER_ERROR, "not ready")


NODE: Methods = {"optimism_syncStatus": heads, "opp2p_peerStats": lambda: {"connected": 3}}
L1: Methods = {"eth_blockNumber": lambda: "0x10"}


@asynccontextmanager
async def polling(
    root: Path, l1: Methods = L1, has_processes: bool = True, **methods: Any
) -> AsyncIterator[StatusPoller]:
    """Yield a poller of an L1 and of a node that is called `verifier`."""
    async with listening(json_rpc_app(l1), json_rpc_app(NODE | methods)) as (l1_url, node):
        poller = StatusPoller(l1_url, {"verifier": node}, root, has_processes=has_processes)
        try:
            yield poller
        finally:
            await poller.close()


async def test_heads_peers_and_l1(tmp_path: Path) -> None:
    async with polling(tmp_path) as poller:
        assert await poller.poll() == NetworkStatus(16, {"verifier": NodeHeads(9, 7, 5, 3)}, processes={"verifier": []})
    async with polling(tmp_path, {}, opp2p_peerStats=refuses) as poller:
        status = await poller.poll()
        assert (status.l1_head, status.nodes) == (None, {"verifier": NodeHeads(9, 7, 5, None)})
    async with polling(tmp_path, optimism_syncStatus=lambda: heads("0x" + "00" * 32)) as poller:
        assert (await poller.poll()).nodes == {"verifier": None}, "it is starting"


async def test_files_of_batcher_and_supervisor(tmp_path: Path) -> None:
    (tmp_path / "verifier").mkdir()
    entries = [
        {"role": "l1", "copy": 0, "pid": os.getpid(), "incarnation": 2},
        {"role": "compute", "copy": 0, "pid": os.getpid(), "incarnation": 1},
        {"role": "compute", "copy": 1, "pid": 1 << 30, "incarnation": 1},
        *({"role": "p2p", "copy": 0, "pid": os.getpid(), "incarnation": 1, "chain": chain} for chain in ("10", "130")),
    ]
    (tmp_path / "verifier" / "processes.json").write_text(json.dumps(entries))
    (tmp_path / "batcher.json").write_text('{"channels": 4}')
    async with polling(tmp_path) as poller:
        status = await poller.poll()
    assert status.batches == {"channels": 4}
    assert [process.role for process in status.processes["verifier"]] == [
        "l1",
        "compute-0",
        "compute-1",
        "p2p.10",
        "p2p.130",
    ]
    assert [process.memory > 0 for process in status.processes["verifier"]][:3] == [True, True, False]
    async with polling(tmp_path, has_processes=False) as poller:
        assert (await poller.poll()).processes == {}
        assert poller.processes().keys() == {"verifier"}, "they are read where they are shown"


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


async def test_what_the_conductor_said_since_the_last_poll(tmp_path: Path) -> None:
    asked: list[int] = []

    def overview(first: int) -> dict[str, Any]:
        asked.append(first)
        return {"leader": "sequencer-2", "events": ["failover"] if first == 0 else [], "next_event": 1}

    async with listening(json_rpc_app({}), json_rpc_app({"dev_conductor": overview})) as (l1, conductor):
        poller = StatusPoller(l1, {}, tmp_path, conductor)
        try:
            first, second = [await poller.poll() for _ in range(2)]
        finally:
            await poller.close()
    assert (first.leader, first.events) == ("sequencer-2", ["failover"])
    assert (second.leader, second.events) == ("sequencer-2", []) and asked == [0, 1]


Output = Callable[[str], dict[str, str]]


def root(number: str) -> dict[str, str]:
    return {"outputRoot": f"0x{int(number, 16):064x}"}


async def compared(last: int, **nodes: Output) -> Comparison:
    """Return the comparison of nodes that answer optimism_outputAtBlock by these functions."""
    apps = (json_rpc_app({"optimism_outputAtBlock": output}) for output in nodes.values())
    async with listening(*apps) as urls, AsyncExitStack() as stack:
        clients = {name: JsonRpcClient(url) for name, url in zip(nodes, urls, strict=True)}
        for client in clients.values():
            stack.push_async_callback(client.close)
        return await compare_output_roots(clients, last)


async def test_the_first_difference_is_reported() -> None:
    def differs(number: str) -> dict[str, str]:
        return root(hex(int(number, 16) + (int(number, 16) >= 11)))

    assert await compared(20, one=root, other=root) == Comparison(21, None)
    assert (await compared(0, one=root)).equal
    comparison = await compared(20, one=root, other=root, third=differs)
    assert (comparison, comparison.equal) == (Comparison(12, 11), False)


async def test_failed_requests_are_repeated_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    answers: Iterator[Output] = chain([refuses, refuses], repeat(root))
    assert (await compared(3, one=root, other=lambda number: next(answers)(number))).equal
    monkeypatch.setattr(module, "ATTEMPTS", 3)
    with pytest.raises(RpcFailure, match="not ready"):
        await compared(1, one=root, other=refuses)
