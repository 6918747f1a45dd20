"""`rollup-node budget` with an L1 of its own [CMD14]."""

import asyncio
import json
from typing import Any

import pytest

from rollup_node.node import cli
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import Methods, json_rpc_app, listening

SEPOLIA = 11155111


def budget(capsys: pytest.CaptureFixture[str], *words: str, methods: Methods | None = None) -> tuple[int, str, str]:
    """Exit code and output with an L1 of 40 blocks without transactions."""

    async def run() -> int:
        async with listening(json_rpc_app(methods or FakeL1Chain(40).methods(SEPOLIA))) as (url,):
            value = ["budget", "--network=op-sepolia", f"--l1={url}", *words]
            return await asyncio.to_thread(cli.main, value)

    code = run_within(30, run)
    result = capsys.readouterr()
    return code, result.out, result.err


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = budget(capsys, "--from-l1=0", "--samples=4", "--l1.rpc-rate-limit=40")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("op-sepolia, L1 head 39, 12.0 s between L1 blocks; 4 blocks of the last day")
    rows = {(line[:8].strip(), line[9:41].strip()): line[41:].split() for line in lines if line[:2] in ("L1", "be")}
    assert rows["L1", "eth_getProof"] == ["144", "1.4"] and rows["beacon", "blobs"] == ["0", "0.0"]
    assert "sync from L1 block 0, 40 L1 blocks" in lines
    assert lines[-1] == "at --l1.rpc-rate-limit 40 the requests to L1 take 0.0 hours at least"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = budget(capsys, "--from-l1=10", "--json")
    result = json.loads(out)
    assert code == 0 and (result["from_l1"], result["l1_head"], result["samples"]) == (10, 39, 24)
    assert result["sync"]["totals"]["L1"]["requests"] == 30 == result["sync"]["l1_blocks"]
    assert result["day"]["l1_blocks"] == 7200 and "hours" not in result["sync"]


@pytest.mark.parametrize(
    ("words", "chain", "error"),
    [
        ((), SEPOLIA, "--from-l1 4071408: must be at most the head of L1, 39"),
        (("--from-l1=-1",), SEPOLIA, "--from-l1 -1: must be at most the head of L1, 39"),
        (("--samples=0",), SEPOLIA, "--samples: must be 1 to 500, not 0"),
        (("--from-l1=0",), 5, "is on L1 chain 5, but the rollup is on 11155111"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], chain: int, error: str) -> None:
    code, out, err = budget(capsys, *words, methods=FakeL1Chain(40).methods(chain))
    assert code == 1 and out == "" and err.count("\n") == 1 and error in err


def test_an_endpoint_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: Any) -> Any:
        return {"number": "0x1"}

    methods = {**FakeL1Chain(40).methods(SEPOLIA), "eth_getBlockByNumber": broken}
    code, _, err = budget(capsys, "--from-l1=0", methods=methods)
    assert code == 1 and err.count("\n") == 1 and ": L1: 127.0.0.1:" in err
