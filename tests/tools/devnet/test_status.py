"""The status of a network: heads, peers, L1, batches and memory, and its display."""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NoReturn

import pytest
from rich.console import Console

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet import status as module
from rollup_node.tools.devnet.status import (
    Comparison,
    LineView,
    LiveView,
    NetworkStatus,
    NodeHeads,
    ProcessUsage,
    SilentView,
    StatusPoller,
    choose,
    compare_output_roots,
)
from tests.support.servers.http_listener import json_rpc_app, listening

STATUS = NetworkStatus(
    l1_head=30,
    nodes={"sequencer": NodeHeads(9, 7, 5, 2), "verifier": None},
    batches={"channels": 4, "blobs": 3},
    processes={"sequencer": [ProcessUsage("l1", 123, 2, 40.4), ProcessUsage("engine", 124, 1, 60.0)], "verifier": []},
)


def test_the_display_fits_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(choose(True, None), SilentView)
    assert isinstance(choose(False, None), LineView)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    live = choose(False, 5)
    assert isinstance(live, LiveView)
    live.close()


def test_lines_have_all_heads_every_two_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([10.0, 10.0, 11.0, 12.5, 12.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    lines = LineView(30)
    lines.message("starting")
    for status in (STATUS, STATUS, NetworkStatus(l1_head=31, leader="sequencer-2")):
        lines.show(status)
    lines.close()
    assert capsys.readouterr().out.splitlines() == [
        "starting",
        "L1 30  sequencer unsafe/safe/finalized 9/7/5 peers 2  verifier unsafe/safe/finalized starting  "
        "batches 4 blobs 3  of 30",
        "L1 31  leader sequencer-2  batches 0 blobs 0  of 30",
    ]


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
