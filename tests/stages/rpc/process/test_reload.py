"""admin_reload asks the supervisor, and says what came of it [RPC99]; test_reloaded_node.py has a real one."""

import asyncio
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.io.task import ReloadResult
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.process import reload as module
from rollup_node.stages.rpc.process.reload import reload_options


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the signals that would be sent."""
    result: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: result.append(arguments))
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    return result


async def answered(file: Path, *contents: bytes) -> ReloadResult:
    """Return the result while a supervisor writes these contents, one after the other."""
    task = asyncio.create_task(reload_options(str(file)))
    for content in contents:
        await asyncio.sleep(0.01)
        assert not task.done()
        file.write_bytes(content)
    return await task


async def test_the_result_of_a_reload_that_begins_afterwards_is_returned(
    tmp_path: Path, signals: list[tuple[int, int]]
) -> None:
    file, old = tmp_path / "reload.json", ReloadResult(time.monotonic(), error="an earlier one")
    file.write_bytes(msgspec.json.encode(old))
    new = ReloadResult(time.monotonic() + 60, ("l1",), ("l1",), ("workers",))
    assert await answered(file, b"", b"damaged {", msgspec.json.encode(old), msgspec.json.encode(new)) == new
    assert signals == [(os.getppid(), signal.SIGUSR1)]


async def test_a_refusal_is_an_error(tmp_path: Path, signals: list[tuple[int, int]]) -> None:
    result = ReloadResult(time.monotonic() + 60, error="file node.toml is not TOML")
    with pytest.raises(JsonRpcError, match=r"reload refused, nothing is changed: file node\.toml is not TOML"):
        await answered(tmp_path / "reload.json", msgspec.json.encode(result))


async def test_a_supervisor_that_says_nothing_is_not_waited_for_without_end(
    tmp_path: Path, signals: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.02)
    with pytest.raises(JsonRpcError, match="the reload has not ended within"):
        await reload_options(str(tmp_path / "reload.json"))


async def test_a_program_without_a_file_for_it_signals_nobody(signals: list[tuple[int, int]]) -> None:
    with pytest.raises(JsonRpcError, match="nothing to read again"):
        await reload_options("")
    assert signals == []
