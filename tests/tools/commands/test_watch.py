"""`rollup-node watch`: its flags, and what is wrong at its start in one line. tests/tools/watch has the rest."""

import json
from collections.abc import Iterator

import pytest

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.games import ANCHOR, FACTORY
from tests.support.chains.l1_with_games import L1WithGames
from tests.support.processes.cli import Cli
from tests.support.servers.http_listener import json_rpc_app, listening
from tests.support.servers.threads import in_thread
from tests.tools.watch.test_node_reader import node_methods

GAMES = ("--games", to_hex(FACTORY))


@pytest.fixture
def l1() -> L1WithGames:
    return L1WithGames()


@pytest.fixture
def urls(l1: L1WithGames) -> Iterator[tuple[str, ...]]:
    """Yield the flags of an L1 and a node."""
    with (
        in_thread(listening(json_rpc_app(l1.methods()))) as (l1_url,),
        in_thread(listening(json_rpc_app(node_methods()))) as (node_url,),
    ):
        yield ("--l1", l1_url, "--rpc", node_url)


def test_one_look_tells_whether_a_claim_is_wrong(urls: tuple[str, ...], l1: L1WithGames, cli: Cli) -> None:
    words = ("watch", *GAMES, *urls, "--once", "--json", "--window", "1000000h")
    l1.game(b"\x11" * 32, 5)
    ended = cli(*words)
    assert ended.code == 0 and json.loads(ended.out)["verdict"] == "agree"
    l1.game(b"\x22" * 32, 6)
    ended = cli(*words)
    assert ended.code == 1 and [json.loads(text)["verdict"] for text in ended.out.splitlines()] == ["agree", "disagree"]
    assert "1 agree, 1 disagree" in ended.err


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--l1", "http://127.0.0.1:1"), "--games is required"),
        (("--games", "0x12"), "is not an address of 20 bytes"),
        ((*GAMES, "--l1", "ftp://x"), "it takes http or https"),
        ((*GAMES, "--l1", "http://127.0.0.1:1", "--metrics.port", "99999"), "is not a port"),
        ((*GAMES, "--l1", "http://127.0.0.1:1", "--sign"), "unknown flag --sign"),
        ((*GAMES, "--l1", "http://127.0.0.1:1", "--rpc", "http://127.0.0.1:1"), "no node answers at 127.0.0.1:1"),
    ],
)
def test_wrong_flags_are_rejected_in_one_line(flags: tuple[str, ...], text: str, cli: Cli) -> None:
    assert text in cli.refused("watch", *flags)


def test_what_is_not_there_is_said_in_one_line(urls: tuple[str, ...], cli: Cli) -> None:
    empty = "0x" + "44" * 20
    assert f"--games: there is no contract at {empty}" in cli.refused("watch", "--games", empty, *urls)
    assert f"--anchor: there is no contract at {empty}" in cli.refused("watch", *GAMES, "--anchor", empty, *urls)
    assert "is no DisputeGameFactory" in cli.refused("watch", "--games", to_hex(ANCHOR), *urls)
    l1, l1_url, rpc, node_url = urls
    assert "not a rollup-node" in cli.refused("watch", *GAMES, l1, l1_url, rpc, l1_url)
    assert cli.refused("watch", *GAMES, l1, node_url, rpc, node_url).startswith("rollup-node: --l1: ")
