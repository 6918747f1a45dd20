"""docs/subscriptions.md: its program prints heads, and the events have its names and its form."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.stages.rpc.process.test_websocket import block, status
from tests.support.rpc.harness import RpcHarness

PAGE = (Path(__file__).parents[1] / "docs" / "subscriptions.md").read_text()


def events(text: str) -> list[dict[str, str]]:
    """Return the events of a stream: fields by name, blocks that end in an empty line. Strict: no other line."""
    *blocks, rest = text.split("\n\n")
    assert rest == ""
    fields = [[re.fullmatch(r"(retry|event|data): (.*)", line) for line in block.split("\n")] for block in blocks]
    assert all(match is not None for one in fields for match in one)
    return [{match[1]: match[2] for match in one if match} for one in fields]


async def test_the_program_prints_heads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    program: dict[str, object] = {"__name__": "page"}
    exec(compile(source, "subscriptions.md", "exec"), program)
    async with asyncio.timeout(30), RpcHarness(tmp_path, ws_enabled=True).running() as rpc:
        running = asyncio.create_task(program["safe_heads"](rpc.url.replace("http", "ws")))  # type: ignore[operator]
        number, printed = 1, ""
        while not printed:
            number += 1
            rpc.status["engine"].set(status(1, safe=number))
            await asyncio.sleep(0.05)
            printed = capsys.readouterr().out
        running.cancel()
    first = int(printed.split()[0])
    assert printed.splitlines()[0] == f"{first} 0x{block(first).hash.hex()}"


async def test_the_events_are_those_of_the_table(tmp_path: Path) -> None:
    named = re.findall(r"^\| `(\w+)` \| ", PAGE.partition("| Event |")[2], re.MULTILINE)
    async with asyncio.timeout(30), RpcHarness(tmp_path, status_enabled=True).running() as rpc:
        url = rpc.stage.servers["status"].local_url
        text = ""
        async with rpc.http.get(f"{url}/status/events") as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            async for piece in response.content.iter_any():
                text += piece.decode()
                if text.count("event: status") >= 2 and text.endswith("\n\n"):
                    break
        retry, first, *others = events(text)
        assert int(retry["retry"]) > 0 and [first["event"], others[0]["event"]] == named
        async with rpc.http.get(f"{url}/status.json") as response:
            assert json.loads(others[-1]["data"]).keys() == (await response.json()).keys()
