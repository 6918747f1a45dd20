"""`rollup-node explain`: in a replay of recorded OP Sepolia data, and of a node that answers JSON-RPC."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.cli import Cli
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import FinishedProgram, Program
from tests.support.servers.threads import json_rpc_server

Explain = Callable[..., FinishedProgram]


@pytest.fixture
def explain(recorded: str, recording_folder: Path, leftovers: Leftovers) -> Explain:
    """Run the command in a replay of the recording."""
    chain = f"--network op-sepolia --l2-blocks {recording_folder}/l2_blocks.json --from-l2 16491244 --from-l1 6582895"
    words = ("explain", *chain.split(), "--l1", recorded, "--l1.beacon", recorded)
    return lambda *more: Program(leftovers, "rollup_node", *words, *more).wait_for_exit()


def test_what_is_dropped_on_the_way_to_a_block(explain: Explain, recording_folder: Path) -> None:
    """Channels that end before the safe head's origin, and spans that end before the next block: all but the last."""
    done = explain("--to-l2", "16491249", "--json")
    assert done.code == 0, done.err
    drops = [json.loads(line) for line in done.out.splitlines()]
    spans = json.loads((recording_folder / "expected.json").read_text())["spans"]
    by_channel = Counter(span["channel"] for span in spans if span["inclusion"] <= 6582944)
    assert Counter(drop["rule"] for drop in drops) == {"BS2": len(by_channel), "PX5": 25 - by_channel.total()}
    assert [drop["values"]["channel"][2:] for drop in drops if drop["rule"] == "BS2"] == list(by_channel)
    assert {drop["effect"] for drop in drops} == {"discarded", "dropped"}
    last = drops[-1]
    assert last["l1_block"]["number"] == 6582952
    assert (last["reason"], last["values"]) == ("span_past", {"timestamp": 1724785028, "next": 1724785030})
    assert last["text"] == "batch dropped: ends at 1724785028, before the next, 1724785030 [PX5]"


def test_up_to_an_l1_block(explain: Explain) -> None:
    done = explain("--to-l1", "6582909")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert [line[:11] for line in lines] == ["L1 6582900 ", "L1 6582901 ", "L1 6582909 "]
    assert all(line.endswith("[BS2]") for line in lines)


# --- a running node ------------------------------------------------------------------------------------------------

DROPS = [
    {
        "l1_block": {"hash": "0x" + "aa" * 32, "number": number} if number else None,
        "effect": "dropped",
        "rule": "V4",
        "reason": "parent_hash",
        "text": f"batch dropped: number {number} [V4]",
        "values": {"got": "0x01", "expected": "0x02"},
    }
    for number in (0, 5, 6, 7)
]


def _node(total: int, *drops: dict[str, Any]) -> AbstractContextManager[str]:
    return json_rpc_server("explain_drops", {"result": {"total": total, "drops": drops}})


def test_of_a_running_node(cli: Cli) -> None:
    with _node(9, *DROPS) as url:
        ended = cli("explain", "--rpc", url, "--json")
        assert ended.code == 0 and [json.loads(line) for line in ended.out.splitlines()] == DROPS
        assert ended.err == "rollup-node: 5 older drops are no longer known\n"
        text = cli.out("explain", "--rpc", url, "--from-l1", "6", "--to-l1", "6")
    assert text == "L1 unknown  batch dropped: number 0 [V4]\nL1 6  batch dropped: number 6 [V4]\n"


def test_texts_of_a_node_are_shown_without_control_characters(cli: Cli) -> None:
    with _node(1, DROPS[0] | {"text": "\x1b[2Jdropped\nby nobody"}) as url:
        assert cli.out("explain", "--rpc", url) == "L1 unknown  \\x1b[2Jdropped\\nby nobody\n"


def test_of_a_node_that_dropped_nothing(cli: Cli) -> None:
    with _node(0) as url:
        assert cli("explain", "--rpc", url) == FinishedProgram(0, "", "rollup-node: nothing was dropped\n")


@pytest.mark.parametrize(
    "answer",
    [
        {"result": None},
        {"result": {"total": "1", "drops": []}},
        {"result": {"total": 1, "drops": [{"text": 5}]}},
        {"result": {"total": 1, "drops": [{"text": "x", "l1_block": 7}]}},
        {"error": {"code": -32601, "message": "the method explain_drops does not exist/is not available"}},
        {"error": {"code": -32000, "message": "a message\nof two lines, \x1b[31mcolored"}},
    ],
)
def test_of_another_server(answer: dict[str, Any], cli: Cli) -> None:
    with json_rpc_server("explain_drops", answer) as url:
        assert cli.refused("explain", "--rpc", url).startswith("rollup-node: --rpc: ")


def test_of_a_program_that_is_no_node(cli: Cli) -> None:
    answer = {"error": {"code": -32601, "message": "the method x does not exist/is not available"}}
    with json_rpc_server("explain_drops", answer, is_node=False) as url:
        assert "is an L1, an engine or another program, not a rollup-node" in cli.refused("explain", "--rpc", url)


def test_a_code_of_the_log(cli: Cli) -> None:
    meaning, remedy = cli.out("explain", "blob-expired").splitlines()
    assert meaning.startswith("BLOB-EXPIRED: The blobs are older than the 18 days")
    assert "--l1.beacon-fallbacks" in remedy
