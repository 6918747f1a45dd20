"""`rollup-node watch`: its flags, and what is wrong at its start in one line. tests/tools/watch has the rest."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.games import ANCHOR, FACTORY
from tests.support.chains.l1_with_games import L1WithGames, NodeWithRoots
from tests.support.processes.cli import Cli
from tests.support.servers.http_listener import json_rpc_app, listening
from tests.support.servers.threads import in_thread

GAMES = ("--games", to_hex(FACTORY))


@pytest.fixture
def l1() -> L1WithGames:
    return L1WithGames()


@pytest.fixture
def node() -> NodeWithRoots:
    return NodeWithRoots()


@contextmanager
def serving(l1: L1WithGames, node: NodeWithRoots) -> Iterator[tuple[str, ...]]:
    """Yield the flags of an L1 and a node."""
    with in_thread(listening(json_rpc_app(l1.methods()), node.app())) as (l1_url, node_url):
        yield ("--l1", l1_url, "--rpc", node_url)


@pytest.fixture
def urls(l1: L1WithGames, node: NodeWithRoots) -> Iterator[tuple[str, ...]]:
    with serving(l1, node) as flags:
        yield flags


def test_one_look_tells_whether_a_claim_is_wrong(urls: tuple[str, ...], l1: L1WithGames, cli: Cli) -> None:
    words = ("watch", *GAMES, *urls, "--once", "--json", "--window", "1000000h")
    l1.game(b"\x11" * 32, 5)
    ended = cli(*words)
    assert ended.code == 0 and json.loads(ended.out)["verdict"] == "agree"
    l1.game(b"\x22" * 32, 6)
    ended = cli(*words)
    assert ended.code == 1 and [json.loads(text)["verdict"] for text in ended.out.splitlines()] == ["agree", "disagree"]
    assert "1 agree, 1 disagree" in ended.err


def test_a_supernode_does_not_tell_its_l1_chain(l1: L1WithGames, node: NodeWithRoots, cli: Cli) -> None:
    l1.game(b"\x11" * 32, 5, 4)
    node.answers["supernode_syncStatus"] = {"current_l1": {"number": 101}}
    del node.answers["optimism_rollupConfig"]
    with serving(l1, node) as flags:
        assert cli.out("watch", *GAMES, *flags, "--once", "--window", "1000000h").startswith("agree: ")


def test_what_is_not_there_is_said_in_one_line(urls: tuple[str, ...], node: NodeWithRoots, cli: Cli) -> None:
    empty = "0x" + "44" * 20
    assert f"--games: there is no contract at {empty}" in cli.refused("watch", "--games", empty, *urls)
    assert f"--anchor: there is no contract at {empty}" in cli.refused("watch", *GAMES, "--anchor", empty, *urls)
    assert "is no DisputeGameFactory" in cli.refused("watch", "--games", to_hex(ANCHOR), *urls)
    l1, l1_url, rpc, node_url = urls
    assert "not a rollup-node" in cli.refused("watch", *GAMES, l1, l1_url, rpc, l1_url)
    assert cli.refused("watch", *GAMES, l1, node_url, rpc, node_url).startswith("rollup-node: --l1: ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = cli.refused("watch", *GAMES, *urls, "--metrics", "--metrics.port", port)
    assert f"--metrics.port: cannot listen on 127.0.0.1:{port}: " in text
    node.answers["optimism_rollupConfig"] = {"l1_chain_id": 1}
    assert "is on L1 chain 900, but the node's rollup is on 1" in cli.refused("watch", *GAMES, *urls)
