"""`rollup-node checkpoint` [CMD16]."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web

from rollup_node.node.checks.beacon import LIGHT_CLIENT_FLAGS
from rollup_node.stages.l1.light_client.network import BEACON_NETWORKS
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.beacon import application
from rollup_node.tools.devnet.l1.light_client_routes import add_routes
from tests.support.processes.cli import Cli
from tests.support.servers.http_listener import app_for_every_path, listening
from tests.support.servers.threads import in_thread

REFUSED = "http://127.0.0.1:9"
ROOT = "0x" + "11" * 32
MESSAGE = {"slot": "7", "proposer_index": "1"} | dict.fromkeys(("parent_root", "state_root", "body_root"), ROOT)


def l1(branch: int = 0) -> L1Backend:
    chain = L1Backend(l1_genesis(1_700_000_000), 2, branch=branch)
    for _ in range(8):
        chain.mine(chain.chain.head.header.timestamp + 2)
    return chain


def beacon(chain: L1Backend) -> web.Application:
    app = application(chain)
    add_routes(app, chain)
    return app


def saying(answers: dict[str, Any]) -> web.Application:
    """Return a beacon node with answers by the last part of the path: data, or a status."""

    async def handle(request: web.Request) -> web.Response:
        answer = answers.get(request.path.rpartition("/")[2], 404)
        return web.Response(status=answer) if isinstance(answer, int) else web.json_response({"data": answer})

    return app_for_every_path(handle)


@contextmanager
def served(*apps: web.Application) -> Iterator[list[str]]:
    with in_thread(listening(*apps)) as urls:
        yield list(urls)


@pytest.fixture
def chain() -> L1Backend:
    return l1()


@pytest.fixture
def root(chain: L1Backend) -> str:
    return to_hex(chain.headers.root(chain.chain.finalized))


def test_beacon_nodes_that_agree(cli: Cli, chain: L1Backend, root: str) -> None:
    with served(beacon(chain), beacon(chain)) as urls:
        ended = cli("checkpoint", *urls)
        alone = cli("checkpoint", urls[0])
    first, second = (url.removeprefix("http://").rstrip("/") for url in urls)
    assert (ended.code, ended.out) == (0, f"{root}\n")
    assert ended.err.splitlines() == [f"{first}: finalized, slot 4", f"{second}: the same"]
    assert (alone.code, alone.out) == (0, f"{root}\n")
    assert "the word of one beacon node" in alone.err


def test_one_of_another_chain(cli: Cli, chain: L1Backend, root: str) -> None:
    other = l1(branch=1)
    with served(beacon(chain), beacon(chain), beacon(other)) as urls:
        ended = cli("checkpoint", *urls)
        result = cli("checkpoint", "--json", *urls[:2])
    theirs = other.headers.root(other.chain.finalized)
    assert (ended.code, ended.out) == (1, f"{root}\n")
    assert ended.err.splitlines()[2].endswith(f"ANOTHER ROOT {to_hex(theirs)}")
    assert result.code == 0 and result.json_result()["confirmed"] is True
    assert result.json_result()["root"] == root and result.json_result()["serves_light_clients"] is True


def test_nobody_confirms_it(cli: Cli, chain: L1Backend) -> None:
    """Neither one that does not answer, nor one that has not come so far, nor one that answers with something else."""
    late = L1Backend(l1_genesis(1_700_000_000), 2)
    others = (saying({"root": answer}) for answer in ({"root": "0x"}, {}, 500))
    with served(beacon(chain), beacon(late), *others) as urls:
        ended = cli("checkpoint", "--json", *urls, REFUSED)
    result = ended.json_result()
    assert ended.code == 1 and result["confirmed"] is False
    texts = ("it has no block in slot 4", "no block root", "no block root", "HTTP status 500", "cannot connect")
    assert all(text in other["problem"] for text, other in zip(texts, result["others"], strict=True))


def test_one_of_a_known_network_that_does_not_serve_light_clients(cli: Cli) -> None:
    """[CMD16] Each client has a flag of its own for that."""
    mainnet = BEACON_NETWORKS[1]
    genesis = {"genesis_validators_root": to_hex(mainnet.genesis_validators_root)}
    answers = {"finalized": {"root": "0x", "header": {"message": MESSAGE}}, "genesis": genesis, "finality_update": 501}
    with served(saying(answers)) as (url,):
        for client, advice in (LIGHT_CLIENT_FLAGS | {"erigon": "ask another beacon node"}).items():
            answers["version"] = {"version": f"{client.title()}/v1.2.3"}
            ended = cli("checkpoint", url)
            assert ended.code == 0 and "HTTP status 501" in ended.err
            assert "it does not serve light clients; " in ended.err and advice in ended.err
        assert ": finalized, slot 7, mainnet, " in ended.err
        result = cli.json("checkpoint", "--json", url)
    assert (result["network"], result["slot"], result["serves_light_clients"]) == ("mainnet", 7, False)


@pytest.mark.parametrize("change", [{"slot": "x"}, {"slot": "-1"}, {"slot": "9" * 30}, {"body_root": "0x11"}])
def test_one_without_a_header(change: dict[str, str], cli: Cli) -> None:
    with served(saying({"finalized": {"header": {"message": MESSAGE | change}}}), saying({})) as (url, other):
        text = "no header in the response to /eth/v1/beacon/headers/finalized: give a beacon node that answers"
        assert text in cli.refused("checkpoint", url)
        assert "HTTP status 404 for /eth/v1/beacon/headers/finalized" in cli.refused("checkpoint", other)
