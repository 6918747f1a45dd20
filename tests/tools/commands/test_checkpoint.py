"""`rollup-node checkpoint` [CMD16]."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiohttp import web

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.beacon import application
from rollup_node.tools.devnet.l1.light_client_routes import add_routes
from tests.support.processes.cli import Cli
from tests.support.servers.http_listener import Handler, app_for_every_path, listening
from tests.support.servers.threads import in_thread

REFUSED = "http://127.0.0.1:9"


def l1(branch: int = 0) -> L1Backend:
    chain = L1Backend(l1_genesis(1_700_000_000), 2, branch=branch)
    for _ in range(8):
        chain.mine(chain.chain.head.header.timestamp + 2)
    return chain


def beacon(chain: L1Backend) -> web.Application:
    app = application(chain)
    add_routes(app, chain)
    return app


async def _without_routes(request: web.Request) -> web.Response:
    if request.path.endswith("/version"):
        return web.json_response({"data": {"version": "Prysm/v7.0.0 (linux amd64)"}})
    return web.json_response({"code": 404, "message": "NOT_FOUND"}, status=404)


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
    """Neither one that does not answer, nor one that has not come so far."""
    late = L1Backend(l1_genesis(1_700_000_000), 2)
    with served(beacon(chain), beacon(late)) as urls:
        ended = cli("checkpoint", "--json", *urls, REFUSED)
    result = ended.json_result()
    assert ended.code == 1 and result["confirmed"] is False
    problems = [other["problem"] for other in result["others"]]
    assert problems[0].endswith("it has no block in slot 4") and "cannot connect" in problems[1]


def test_one_that_does_not_serve_light_clients(cli: Cli, chain: L1Backend, root: str) -> None:
    """[CMD16]"""

    @web.middleware
    async def without_light_clients(request: web.Request, handler: Handler) -> web.StreamResponse:
        return web.Response(status=404) if "/light_client/" in request.path else await handler(request)

    app = beacon(chain)
    app.middlewares.append(without_light_clients)
    with served(app) as (url,):
        ended = cli("checkpoint", url)
        result = cli("checkpoint", "--json", url)
    assert ended.out == f"{root}\n" and "it does not serve light clients; turn them on there" in ended.err
    assert result.json_result()["serves_light_clients"] is False


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "URL is required: the beacon node whose finalized block is taken"),
        (("here",), 'argument URL: "here" is not an address'),
        ((REFUSED,), "cannot connect (Connection refused): give a beacon node that answers"),
        ((REFUSED,) * 18, "17 beacon nodes to compare with: give at most 16"),
    ],
)
def test_what_is_refused(cli: Cli, words: tuple[str, ...], text: str) -> None:
    assert text in cli.refused("checkpoint", *words)


def test_one_without_a_header(cli: Cli) -> None:
    with served(app_for_every_path(_without_routes)) as (url,):
        assert "HTTP status 404 for /eth/v1/beacon/headers/finalized" in cli.refused("checkpoint", url)
