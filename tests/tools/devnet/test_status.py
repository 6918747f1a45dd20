"""The status of a network: heads, peers, L1, batches and memory, and its display."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NoReturn

import pytest
from rich.console import Console

from rollup_node.stages.io.http.endpoint_errors import RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet import status as module
from rollup_node.tools.devnet.status import (
    Comparison,
    LiveView,
    NetworkStatus,
    NodeHeads,
    ProcessUsage,
    StatusPoller,
    compare_output_roots,
)
from tests.support.servers.http_listener import json_rpc_app, listening

STATUS = NetworkStatus(
    l1_head=30,
    nodes={"sequencer": NodeHeads(9, 7, 5, 2), "verifier": None},
    batches={"channels": 4, "blobs": 3},
    processes={"sequencer": [ProcessUsage("l1", 123, 2, 40.4), ProcessUsage("engine", 124, 1, 60.0)], "verifier": []},
)


ROLES = ("supervisor", "sweeper", "l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc")


@pytest.mark.parametrize(("nodes", "copies"), [(2, 1), (2, 6), (4, 1), (4, 6), (1, 30)])
def test_all_processes_have_room_on_a_small_screen(monkeypatch: pytest.MonkeyPatch, nodes: int, copies: int) -> None:
    console = Console(record=True, force_terminal=True, width=80, height=24)
    monkeypatch.setattr(module, "Console", lambda: console)
    live = LiveView(30)
    names = ["sequencer", "sequencer-2", "sequencer-3", "verifier"][:nodes]
    roles = [role for role in ROLES for _ in range(copies if role == "compute" else 1)]
    processes = {name: [ProcessUsage(role, 10000, 1, 33) for role in roles] for name in names}
    live.show(NetworkStatus(7, dict.fromkeys(names, NodeHeads(9, 7, 5, 2)), {}, processes, leader="sequencer"))
    live.close()
    lines = console.export_text().rstrip("\n").split("\n")
    assert len(lines) < 24 and max(map(len, lines)) <= 80 and not [line for line in lines if "…" in line]
    for role in ROLES:
        (*_, row) = (line for line in lines if line.split()[:1] == [role])
        assert row.count("x ") >= nodes
    (total,) = (line for line in lines if line.split()[:1] == ["total"])
    assert total.split()[1:] == [str(33 * len(roles))] * nodes
    assert lines[-1].endswith("7 of 30 blocks safe on all nodes")


@pytest.mark.parametrize(
    ("target", "progress"), [(30, "0 of 30 blocks safe on all nodes"), (None, "safe on all nodes: 0 (Ctrl-C to stop)")]
)
def test_the_live_table(monkeypatch: pytest.MonkeyPatch, target: int | None, progress: str) -> None:
    console = Console(record=True, force_terminal=True, width=100, height=60)
    monkeypatch.setattr(module, "Console", lambda: console)
    live = LiveView(target)
    live.message("starting")
    live.show(STATUS)
    live.close()
    text, parts = console.export_text(), ("starting", "L1 head 30", "sequencer", "4 channels posted, 3 blobs")
    assert [part for part in (*parts, "123", "2x", "total", "100", progress) if part not in text] == []


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
async def polling(root: Path, l1: Methods = L1, **methods: Any) -> AsyncIterator[StatusPoller]:
    """Yield a poller of an L1 and of a node that is called `verifier`."""
    async with listening(json_rpc_app(l1), json_rpc_app(NODE | methods)) as (l1_url, node):
        poller = StatusPoller(l1_url, {"verifier": node}, root)
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
