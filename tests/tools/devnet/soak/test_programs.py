"""The programs of a network as the lanes of a soak use them: with programs that sleep, and proxies."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rollup_node.node.system.procfs import read_stat
from rollup_node.tools.devnet.child_programs import ChildPrograms
from rollup_node.tools.devnet.engine.journal import FILE_NAME
from rollup_node.tools.devnet.files import NetworkFiles
from rollup_node.tools.devnet.network import NetworkPrograms
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, application
from rollup_node.tools.devnet.soak.cli import SCENARIOS
from rollup_node.tools.devnet.soak.lanes import Process
from rollup_node.tools.devnet.soak.programs import TRANSPORT, SoakPrograms, faults_of, kept_files, usable_faults
from rollup_node.tools.faults.scenario import parse_scenarios
from tests.support.servers.http_listener import listening

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
FAULTS = usable_faults(parse_scenarios(SCENARIOS.read_text()))


@asynccontextmanager
async def network(root: Path) -> AsyncIterator[tuple[SoakPrograms, Any, list[Any]]]:
    """A verifier of programs that sleep, whose RPC, engine and L1 are one server; the calls of dev_reorg."""
    reorgs: list[Any] = []
    status = {"safe_l2": {"number": 7}, "unsafe_l2": {"hash": "0x01"}}
    methods: dict[str, Callable[..., Any]] = {
        "optimism_syncStatus": lambda: status,
        "dev_reorg": reorgs.append,
        "eth_blockNumber": lambda: "0x5",
    }
    files, children = NetworkFiles(root), ChildPrograms()
    async with listening(application(JsonRpc(methods))) as (url,):
        for name in ("verifier engine", "verifier node"):
            children.start(name, SLEEP, root / "log")
        found = SimpleNamespace(
            files=files,
            children=children,
            nodes={"verifier": url},
            engines={"verifier": (url, url)},
            l1=url,
            beacon=url,
            proxies={},
            engine_data=files.engine_data,
        )
        programs = SoakPrograms(cast(NetworkPrograms, found), FAULTS, 1)
        try:
            await programs.start_proxies()
            yield programs, found, reorgs
        finally:
            await programs.close()
            children.stop(30.0)


def test_the_faults_that_a_node_can_have() -> None:
    names = faults_of("verifier", FAULTS)
    assert len(names) > 100 and "l1-block-hash-flip" in names and "kill-l1" not in names
    ours = faults_of("sequencer", FAULTS)
    assert "engine-html" in ours and "l1-block-hash-flip" not in ours
    assert all(fault.do in TRANSPORT for each in FAULTS if each.name in ours for fault in each.faults)
    assert not any(each.dies or each.events for each in FAULTS)


def test_a_node_is_ended_and_started_and_its_engine_loses_blocks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with network(tmp_path) as (programs, found, reorgs):
            first = found.children.pids()
            assert await programs.end("verifier", signal.SIGKILL) == ""
            found.children.check()
            assert programs.safe("verifier") is None
            programs.start("verifier")
            assert await programs.end("verifier", signal.SIGTERM) == "the node ended with signal SIGTERM"
            programs.start("verifier")
            folder = found.files.engine_data("verifier")
            folder.mkdir()
            journal = folder / FILE_NAME
            journal.write_text('{"executionPayload": 1}\n{"headBlockHash": 1}\n{"executionPayload": 2}\n')
            await programs.restart_engine("verifier", 0.01, 1)
            assert journal.read_text().count("executionPayload") == 1
            await programs.restart_engine("verifier", 0.0, None)
            assert not folder.exists()
            second = found.children.pids()
            assert not set(first.values()) & set(second.values())
            await programs.reorg(3)
            assert reorgs == [3]

    asyncio.run(scenario())


def test_heads_and_faults_through_the_proxies(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with network(tmp_path) as (programs, found, _):
            assert set(found.proxies["verifier"]) == {"l1", "l1.beacon", "l2"}
            follow = asyncio.create_task(programs.follow_heads())
            async with asyncio.timeout(20):
                while programs.safe("verifier") is None:
                    await asyncio.sleep(0.01)
            assert programs.safe("verifier") == 7
            follow.cancel()
            through = SimpleNamespace(**{**vars(found), "l1": found.proxies["verifier"]["l1"]})
            other = SoakPrograms(cast(NetworkPrograms, through), FAULTS, 1)
            await programs.set_fault("verifier", "l1-html")
            try:
                await other.reorg(1)
                raise AssertionError("the fault does not hold")
            except Exception as error:
                assert "HTML" in str(error) or "JSON" in str(error), error
            await programs.set_fault("verifier", "")
            await other.reorg(1)
            await other.close()

    asyncio.run(scenario())


def test_signals_reach_only_the_process_that_was_meant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with network(tmp_path) as (programs, found, _):
            assert programs.processes("verifier") == {}
            child = subprocess.Popen(SLEEP)
            stat = read_stat(child.pid)
            assert stat is not None
            folder = found.files.node("verifier")
            folder.mkdir()
            entry = {"role": "rpc", "pid": child.pid, "start_ticks": stat.start_ticks}
            (folder / "processes.json").write_text(json.dumps([entry]))
            process = programs.processes("verifier")["rpc"]
            programs.send(Process(process.pid, process.ticks + 1), signal.SIGKILL)
            assert child.poll() is None and os.path.exists(f"/proc/{child.pid}")
            programs.send(process, signal.SIGKILL)
            assert child.wait(30) == -signal.SIGKILL
            programs.send(process, signal.SIGKILL)

    asyncio.run(scenario())


def test_what_a_node_keeps(tmp_path: Path) -> None:
    kept = ["verifier-peers.db", "verifier-peers.db-wal", "verifier-safe-heads.db", "verifier-discovery.db"]
    for name in (*kept, "verifier-2-peers.db", "verifier.log", "verifier-p2p-key.txt"):
        (tmp_path / name).touch()
    assert sorted(path.name for path in kept_files(tmp_path, "verifier")) == sorted(kept)
