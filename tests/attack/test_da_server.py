"""What a DA server can do to the blobs process: bodies that are too large, never end or drip, wrong bytes, errors.

The process under attack is a real one; docs/security.md has the bounds."""

import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing

import pytest
from aiohttp import web

from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.protocol.commitments import GENERIC, Commitment, keccak_commitment
from tests.support.processes.attacked_stage import AttackedStage, SharedStage
from tests.support.processes.leftovers import Leftovers
from tests.support.servers.hostile_bodies import endless, gzip_bomb
from tests.support.servers.http_listener import Handler

NUMBERS = itertools.count()
"""Inputs that no other test has."""
LIMIT, HASHED = 32 << 20, 48 << 20
TIMEOUT = 8.0
"""Seconds: many times what four answers of HASHED bytes at once take."""
FAST = {
    "rollup_node.stages.blobs.pending_requests.MAX_PAUSE": 0.5,
    "rollup_node.stages.blobs.process.da_client.MAX_HASHED": HASHED,
}


@pytest.fixture(scope="module")
def shared(module_leftovers: Leftovers) -> Iterator[SharedStage]:
    """Yield the process under attack."""

    def config(url: str) -> BlobsConfig:
        return BlobsConfig(None, da_servers={"": DaServerConfig(url, get_timeout=TIMEOUT, max_requests=4)})

    with closing(SharedStage(module_leftovers, "blobs", config, FAST)) as stage:
        yield stage


class HostileServer:
    """A DA server that answers one input, and by `attack` everything else."""

    def __init__(self, attack: Handler) -> None:
        self.attack, self.attacks = attack, 0
        self.data = b"honest %d " % next(NUMBERS) * 100
        self.honest = keccak_commitment(self.data)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One HTTP request."""
        if request.path.endswith(self.honest.content.hex()):
            return web.Response(body=self.data)
        self.attacks += 1
        return await self.attack(request)


def wanted(commitment: Commitment, urgent: bool = True) -> list[object]:
    return ["input", commitment.encode().hex(), urgent]


def strange(kind: int) -> Commitment:
    return Commitment(kind, next(NUMBERS).to_bytes(32, "big"))


async def heals(stage: AttackedStage, server: HostileServer) -> None:
    """An honest input arrives after the attack."""
    stage.request(wanted(server.honest))
    await arrives(stage, server.honest)


async def arrives(stage: AttackedStage, commitment: Commitment) -> None:
    """Wait for an input."""
    await stage.until(lambda: stage.last("input") == commitment.encode().hex(), f"the input of {commitment}")


def play(
    shared: SharedStage,
    attack: Handler,
    script: Callable[[AttackedStage, HostileServer], Awaitable[None]],
    received_megabytes: int = 0,
) -> None:
    server = HostileServer(attack)
    shared.attack(server.handle, lambda stage: script(stage, server), received_megabytes)


async def failing(request: web.Request) -> web.StreamResponse:
    return web.Response(status=500, body=bytes(1 << 20))


async def compressed(request: web.Request) -> web.StreamResponse:
    return web.Response(body=gzip_bomb(b"", 64 << 20, b""), headers={"Content-Encoding": "gzip"})


async def wrong(request: web.Request) -> web.StreamResponse:
    return web.Response(body=bytes(100_000))


ATTACKS: dict[str, tuple[Handler, int, str]] = {
    "endless keccak": (endless(bytes(1 << 20)), 0, f"longer than {HASHED} bytes"),
    "endless generic": (endless(bytes(1 << 20)), 1, f"longer than {LIMIT} bytes"),
    "dripping": (endless(b".", 0.05), 1, f"no answer within {TIMEOUT:g} s"),
    "failing": (failing, 1, "HTTP status 500"),
    "compressed": (compressed, 1, "compressed"),
    "wrong bytes": (wrong, 0, "do not match commitment"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_an_error_and_the_process_goes_on(shared: SharedStage, name: str) -> None:
    attack, kind, error = ATTACKS[name]

    async def script(stage: AttackedStage, server: HostileServer) -> None:
        inputs = [strange(kind) for _ in range(6)]
        stage.request(*(wanted(input_, input_ is inputs[0]) for input_ in inputs))
        await stage.until(lambda: server.attacks >= 6, "6 answers of the attack")
        await stage.until(lambda: stage.last("missing") == inputs[0].encode().hex(), "the input is missing")
        assert error in stage.last("error")
        assert stage.last("not_found") is False
        await heals(stage, server)

    play(shared, attack, script)


def test_inputs_of_the_largest_size_fit_one_after_another(shared: SharedStage) -> None:
    async def largest(_: web.Request) -> web.StreamResponse:
        return web.Response(body=bytes(LIMIT))

    async def script(stage: AttackedStage, server: HostileServer) -> None:
        for _ in range(2):
            commitment = strange(GENERIC)
            stage.request(wanted(commitment))
            await arrives(stage, commitment)
            assert stage.last("size") == LIMIT
        await heals(stage, server)

    # The client holds the message and the input.
    play(shared, largest, script, received_megabytes=2 * (LIMIT >> 20))
