"""What lasts in the l1 process is one line with a code and the remedy, and a problem with the code."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process import head_poller
from rollup_node.stages.l1.process import stage as l1
from rollup_node.stages.messages.codes import Code
from tests.stages.l1.process.test_stage import L1Clients
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.http_listener import Methods, app_for_every_path, json_rpc_app, listening
from tests.support.servers.l1_endpoints import ROLLUP


@asynccontextmanager
async def following(app: web.Application) -> AsyncIterator[L1Clients]:
    """Run the l1 process with one endpoint."""
    async with listening(app) as urls:
        config = L1Config(urls, (ROLLUP,), poll_interval=0.05, epoch_poll_interval=0.1, timeout=2.0)
        async with running_stage("l1", lambda bus, meter: l1.build(config, bus, meter)) as buses:
            yield L1Clients(buses)


async def has_problem(app: web.Application, code: Code) -> None:
    """Follow until there is a problem with a code, and a moment for more lines of it."""
    async with following(app) as clients:
        await clients.until(lambda: any(problem.startswith(f"{code.text}: ") for problem in clients.problems), (5, 1))
        await asyncio.sleep(0.3)


def assert_one_line(shown: str, code: Code, *words: str) -> None:
    """The condition is one line, with what to do and the words of the other side."""
    lines = [line for line in shown.splitlines() if re.search(rf"\bcode={code.text}\b", line)]
    assert len(lines) == 1 and lines[0].endswith(f"do={code.remedy}"), shown
    assert all(word in lines[0] for word in words), lines[0]
    assert shown.splitlines() == lines, "there is nothing else to read"


@pytest.mark.sign("L1-THROTTLED", line=True, readyz=True)
async def test_an_endpoint_that_limits_requests(capsys: pytest.CaptureFixture[str]) -> None:
    async def busy(request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "20"}, text="over your quota")

    await has_problem(app_for_every_path(busy), Code.L1_THROTTLED)
    assert_one_line(capsys.readouterr().err, Code.L1_THROTTLED, "HTTP status 429", "over your quota")


@pytest.mark.sign("L1-BLOCK", line=True, readyz=True)
async def test_an_endpoint_that_contradicts_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """A block does not have the hash that it is given with."""
    chain = FakeL1Chain(10)
    methods: Methods = {**chain.methods(5), "eth_getBlockByNumber": _with_another_hash(chain)}
    await has_problem(json_rpc_app(methods), Code.L1_BLOCK)
    assert_one_line(capsys.readouterr().err, Code.L1_BLOCK, "127.0.0.1:", "hash")


def _with_another_hash(chain: FakeL1Chain) -> Callable[..., Any]:
    """Blocks, of which number 5 has another time than its hash says."""

    def by_number(label: str, full: bool) -> Any:
        result = chain.methods(5)["eth_getBlockByNumber"](label, full)
        return result | {"timestamp": "0x1"} if result is not None and result["number"] == "0x5" else result

    return by_number


@pytest.mark.sign("L1-CONTRADICTS", line=True, readyz=True)
async def test_a_finalized_block_above_the_head(capsys: pytest.CaptureFixture[str]) -> None:
    methods = FakeL1Chain(10).methods(5, finalized=FakeL1Chain(30))
    await has_problem(json_rpc_app(methods), Code.L1_CONTRADICTS)
    assert_one_line(capsys.readouterr().err, Code.L1_CONTRADICTS, "is above the head")


@pytest.mark.fault("F11")
@pytest.mark.sign("L1-STALE", line=True, readyz=True)
async def test_a_head_that_stands_still(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(head_poller, "STUCK_SECONDS", 0.5)
    await has_problem(json_rpc_app(FakeL1Chain(10).methods(5)), Code.L1_STALE)
    assert_one_line(capsys.readouterr().err, Code.L1_STALE, "head=9:0x", "seconds=")


@pytest.mark.sign("FINALITY-STALE", line=True)
async def test_finality_that_stands_still(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(head_poller, "UNFINALIZED_SECONDS", 0.3)
    chain = FakeL1Chain(10)
    async with following(json_rpc_app(chain.methods(5, finalized=FakeL1Chain(10)))) as clients:
        began = time.monotonic()
        while time.monotonic() < began + 1.0:
            chain.extend(1)
            await asyncio.sleep(0.1)
        assert clients.problems == (), "derivation goes on"
    assert_one_line(capsys.readouterr().err, Code.FINALITY_STALE, "finalized=3:0x")
