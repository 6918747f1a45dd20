"""Profiles over HTTP, with processes that answer [LIF16, LIF17, LIF20]."""

import asyncio
import re
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from rollup_node.node.runtime.runtime import ProcessProfiles
from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.stages.io.profiling import profile
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.rpc.process import pprof_server
from rollup_node.stages.rpc.process.pprof_server import PprofServer
from rollup_node.stages.rpc.process.stage import PPROF_LIMITS
from tests.support.rpc.harness import running_listener
from tests.support.rpc.pprof_decoder import decode

Get = Callable[[str], Coroutine[Any, Any, tuple[int, bytes]]]


@asynccontextmanager
async def running_server(folder: Path, *names: str, silent: str = "") -> AsyncIterator[Get]:
    """Provide processes of these names that answer, but for the silent one."""
    settings = ProfilingSettings(is_served=True)
    answering = [ProcessProfiles(settings, folder, name) for name in names if name != silent]
    tasks = [asyncio.create_task(item.serve(), name="profiles") for item in answering]
    await asyncio.sleep(0)
    server = PprofServer(str(folder), lambda: names)
    async with running_listener(server.handle, PPROF_LIMITS) as listener, ClientSession(listener.local_url) as http:

        async def get(path: str) -> tuple[int, bytes]:
            async with http.get(path) as response:
                return response.status, await response.read()

        yield get
    await cancel_all(tasks)


async def test_profiles_of_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too large says so."""
    async with running_server(tmp_path, "l1", "engine") as get:
        status, body = await get("/debug/pprof/goroutine")
        result = decode(body)
        assert status == 200 and result.comments == []
        assert {labels["process"] for _, _, labels in result.samples} == {"l1", "engine"}
        assert result.sample_types == [("goroutine", "count")]
        status, body = await get("/debug/pprof/profile?seconds=1")
        result = decode(body)
        assert status == 200 and result.sample_types[1] == ("cpu", "nanoseconds")
        assert 900_000_000 < result.numbers[10] < 3_000_000_000, "the seconds of the request"
        status, body = await get("/debug/pprof/threadcreate?debug=1")
        assert status == 200 and body.startswith(b"threadcreate profile: threadcreate (count); total ")
        assert b"process=engine thread=MainThread" in body
        status, body = await get("/debug/pprof/mutex")
        assert status == 200 and decode(body).samples == []
        monkeypatch.setattr(profile, "MAX_BYTES", 200)
        result = decode((await get("/debug/pprof/goroutine"))[1])
        assert result.samples == []
        left_out = [re.sub(r"\d+ bytes", "N bytes", comment) for comment in sorted(result.comments)]
        assert left_out == [f"the samples of {name} are left out: N bytes, more than 200" for name in ("engine", "l1")]


async def test_other_paths(tmp_path: Path) -> None:
    async with running_server(tmp_path, "l1") as get:
        status, body = await get("/debug/pprof/")
        assert status == 200 and b'href="heap?debug=1"' in body and b"cmdline" not in body
        assert await get("/debug/pprof/symbol") == (200, b"num_symbols: 1\n")
        assert (await get("/debug/pprof/trace?seconds=1"))[0] == 501
        for path in ("cmdline", "cpu", "x/heap"):
            assert await get(f"/debug/pprof/{path}") == (404, b"Unknown profile\n")
        assert (await get("/metrics"))[0] == 404
        for seconds in ("0", "-1", "121", "x", "1e1", "9" * 99, "", "00000000199999999", "9" * 4400):
            assert (await get(f"/debug/pprof/profile?seconds={seconds}"))[0] == 400


async def test_a_client_that_goes_away_leaves_the_profiler_free(tmp_path: Path) -> None:
    async with running_server(tmp_path, "l1") as get:
        for number in range(2):
            gone = asyncio.create_task(get("/debug/pprof/heap?seconds=120"))
            while not tracemalloc.is_tracing():
                await asyncio.sleep(0.01)
            assert await get("/debug/pprof/heap") == (503, b"another profile is being made\n")
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            while (result := await get("/debug/pprof/mutex"))[0] == 503:
                await asyncio.sleep(0.05)
            assert result[0] == 200 and not tracemalloc.is_tracing(), number
        assert list(tmp_path.iterdir()) == [], "neither request nor answers stay"


async def test_a_process_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pprof_server, "ANSWER_SECONDS", 0.5)
    async with running_server(tmp_path, "l1", "p2p", silent="p2p") as get:
        result = decode((await get("/debug/pprof/goroutine"))[1])
        assert result.comments == ["no profile of: p2p"]
    (tmp_path / "other").mkdir()
    async with running_server(tmp_path / "other") as get:
        assert await get("/debug/pprof/goroutine") == (500, b"no process has answered\n")
