"""Every benchmark runs, with few of what it counts; what it measures is checked where it reckons or compares."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.tools.bench import (
    derivation,
    http_client,
    interop_backfill,
    interop_rounds,
    p2p_gossip,
    p2p_latency,
    sequencing,
)
from rollup_node.tools.bench.drops import FLOODS, Flood, FloodRun
from rollup_node.tools.bench.measure import Figure, show

Main = Callable[[list[str]], object]


@pytest.mark.parametrize(
    ("main", "words", "lines"),
    [
        (http_client.main, "--calls 2 --runs 1", ["a JSON-RPC call over loopback"]),
        (
            interop_backfill.main,
            "--blocks 300 --logs 3",
            ["backfill of the interop process", "logs of 7 days, 2 chains of 2 s", "blocks read"],
        ),
        (
            interop_rounds.main,
            "--chains 2 --messages 4 --logs 3 --rounds 4",
            ["rounds of the interop verifier", "a round of 2 chains, 4 messages"],
        ),
        (
            p2p_gossip.main,
            "--peers 30 --heartbeats 2 --blocks 2 --runs 1",
            ["gossip among 30 peers", "heartbeats, CPU"],
        ),
        (p2p_latency.main, "--runs 1 --blocks 3 --warm-up 0", ["gossip from socket to engine message", "of 100 KB"]),
        (
            sequencing.main,
            "--payloads 3 --runs 1 --blocks 4 --warm-up 1 --block-time 1 --l1-latency 0.05",
            ["engine process, at the wire", "slots missed with L1 answers after 50 ms"],
        ),
    ],
    ids=["http_client", "interop_backfill", "interop_rounds", "p2p_gossip", "p2p_latency", "sequencing"],
)
def test_a_benchmark(main: Main, words: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(words.split())
    output = capsys.readouterr().out
    assert output.startswith(lines[0]) and all(line in output for line in lines)


def test_derivation(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    derivation.main([str(shared_data / "channels"), "--blocks", "20", "--long", "20", "--runs", "1"])
    assert "memory" in capsys.readouterr().out


@pytest.mark.parametrize("flood", FLOODS, ids=[flood.name for flood in FLOODS])
def test_each_flood_is_dropped_for_one_reason(flood: Flood) -> None:
    run = FloodRun(flood, 300)
    assert run.seconds() > 0
    ((_, count),) = run.drops.items()
    assert 298 <= count <= 305


@pytest.mark.parametrize(
    ("figure", "code", "verdict"),
    [
        (Figure("a", "s", (1.0,), bound=1.0), 0, "bound 1: held"),
        (Figure("a", "s", (1.1,), bound=1.0), 1, "bound 1: MISSED"),
        (Figure("a", "x", (2.0,), floor=1.5), 0, "floor 1.5: held"),
        (Figure("a", "x", (1.4,), floor=1.5), 1, "floor 1.5: MISSED"),
    ],
)
def test_bounds_are_compared(figure: Figure, code: int, verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert show("title", [figure]) == code
    assert verdict in capsys.readouterr().out
