"""`rollup-node explain`: in a replay of recorded OP Sepolia data, and of a node that answers JSON-RPC."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node import cli
from rollup_node.tools.devnet.fork_server import ForkServer
from tests.support.processes.forked_commands import ForkedCommand
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import FinishedProgram
from tests.support.servers.recorded_server import recorded_server


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> Iterator[str]:
    """Yield the URL of a server of the recording."""
    with recorded_server(shared_data / "op_sepolia_replay") as url:
        yield url


def _words(url: str, shared_data: Path, *more: str, first: int = 6582895) -> tuple[str, ...]:
    blocks = str(shared_data / "op_sepolia_replay" / "l2_blocks.json")
    endpoints = ("--network", "op-sepolia", "--l2-blocks", blocks, "--l1", url, "--l1.beacon", url)
    return ("explain", *endpoints, "--from-l2", "16491244", "--from-l1", str(first), *more)


Explain = Callable[..., FinishedProgram]


@pytest.fixture
def explain(recorded: str, shared_data: Path, fork_server: ForkServer, leftovers: Leftovers) -> Explain:
    """Run the command in a replay of the recording."""

    def run(*more: str, first: int = 6582895) -> FinishedProgram:
        words = _words(recorded, shared_data, *more, first=first)
        return ForkedCommand(fork_server, leftovers, *words).wait_for_exit()

    return run


def test_what_is_dropped_on_the_way_to_a_block(explain: Explain, shared_data: Path) -> None:
    """Channels that end before the safe head's origin, and spans that end before the next block: all but the last."""
    done = explain("--to-l2", "16491249", "--json")
    assert done.code == 0, done.err
    drops = [json.loads(line) for line in done.out.splitlines()]
    spans = json.loads((shared_data / "op_sepolia_replay" / "expected.json").read_text())["spans"]
    by_channel = Counter(span["channel"] for span in spans if span["inclusion"] <= 6582944)
    assert Counter(drop["rule"] for drop in drops) == {"BS2": len(by_channel), "PX5": 25 - by_channel.total()}
    assert [drop["values"]["channel"][2:] for drop in drops if drop["rule"] == "BS2"] == list(by_channel)
    assert {drop["effect"] for drop in drops} == {"discarded", "dropped"}
    last = drops[-1]
    assert last["l1_block"]["number"] == 6582952
    assert (last["reason"], last["values"]) == ("span_past", {"timestamp": 1724785028, "next": 1724785030})
    assert last["text"] == "batch dropped: ends at 1724785028, before the next, 1724785030 [PX5]"


def test_up_to_an_l1_block(recorded: str, shared_data: Path) -> None:
    """As a program that nobody has forked."""
    command = [sys.executable, "-m", "rollup_node.node", *_words(recorded, shared_data, "--to-l1", "6582909")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line[:11] for line in lines] == ["L1 6582900 ", "L1 6582901 ", "L1 6582909 "]
    assert all(line.endswith("[BS2]") for line in lines)


def test_l1_that_ends_before_the_block(explain: Explain) -> None:
    done = explain("--to-l2", "16491251", "--json", first=6582944)
    assert done.code == 1
    assert len(done.out.splitlines()) > 5, "what was dropped is listed all the same"
    assert "nothing is derived after block 16491249: L1 is exhausted at block 6582952" in done.err.splitlines()[-1]


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


@contextmanager
def _node(answer: dict[str, Any]) -> Iterator[str]:
    class DropsHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert call["method"] == "explain_drops"
            body = json.dumps({"jsonrpc": "2.0", "id": call["id"], **answer}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), DropsHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_of_a_running_node(capsys: pytest.CaptureFixture[str]) -> None:
    with _node({"result": {"total": 9, "drops": DROPS}}) as url:
        assert cli.main(["explain", "--rpc", url, "--json"]) == 0
        out, err = capsys.readouterr()
        assert [json.loads(line) for line in out.splitlines()] == DROPS
        assert err == "rollup-node: 5 older drops are no longer known\n"
        assert cli.main(["explain", "--rpc", url, "--from-l1", "6", "--to-l1", "6"]) == 0
        out, _ = capsys.readouterr()
        assert out.splitlines() == [
            "L1 unknown  batch dropped: number 0 [V4]",
            "L1 6  batch dropped: number 6 [V4]",
        ]


def test_texts_of_a_node_are_shown_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    drop = DROPS[0] | {"text": "\x1b[2Jdropped\nby nobody"}
    with _node({"result": {"total": 1, "drops": [drop]}}) as url:
        assert cli.main(["explain", "--rpc", url]) == 0
    assert capsys.readouterr().out == "L1 unknown  \\x1b[2Jdropped\\nby nobody\n"


def test_of_a_node_that_dropped_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with _node({"result": {"total": 0, "drops": []}}) as url:
        assert cli.main(["explain", "--rpc", url]) == 0
    assert capsys.readouterr() == ("", "rollup-node: nothing was dropped\n")


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
def test_of_another_server(answer: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with _node(answer) as url:
        assert cli.main(["explain", "--rpc", url]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("rollup-node: --rpc: ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give --rpc URL of a running node, or --from-l2 N"),
        (["--from-l2", "5", "--l2", "http://127.0.0.1:1"], "give the end: --to-l2 M or --to-l1 L"),
        (["--from-l2", "5", "--to-l2", "5", "--l2", "http://127.0.0.1:1"], "--to-l2 5 is not after --from-l2 5"),
        (["--from-l2", "5", "--to-l2", "6"], "give the L2 source"),
        (["--from-l1", "5", "--to-l1", "4"], "--to-l1 4 is before --from-l1 5"),
        (["--rpc", "http://127.0.0.1:1", "--to-l2", "5"], "--to-l2 has no meaning with --rpc"),
        (["--rpc", "http://127.0.0.1:1", "--network", "op-sepolia"], "unknown flag --network"),
        (["--rpc", "http://127.0.0.1:1"], "--rpc: explain_drops: 127.0.0.1:1: cannot connect"),
        (["--rpc", "nonsense"], 'argument --rpc: "nonsense" is not an address such as http://'),
        (["--from-l2", "5", "--l2", "nonsense"], 'argument --l2: "nonsense" is not an address such as http://'),
        (["--from-l2", "5", "--l2-blocks", "nowhere"], 'argument --l2-blocks: cannot read "nowhere": No such file'),
    ],
)
def test_wrong_flags_are_rejected_in_one_line(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node = [] if "--rpc" in arguments else ["--network", "op-sepolia", "--l1.beacon", "http://127.0.0.1:1"]
    assert cli.main(["explain", *arguments, *node]) == 1
    out, err = capsys.readouterr()
    assert out == "" and text in err and len(err.splitlines()) == 1


def test_a_code_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "blob-expired"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("BLOB-EXPIRED: The blobs are older than the 18 days")
    assert "--l1.beacon-fallbacks" in printed[1] and len(printed) == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["NOPE"], "explain NOPE: no such code; there are BLOB-EXPIRED, "),
        (["blob-expird"], "explain blob-expird: no such code; did you mean BLOB-EXPIRED"),
        (["BLOB-SLOT", "x"], "no more"),
    ],
)
def test_what_is_no_code(words: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", *words]) == 1
    assert error in capsys.readouterr().err
