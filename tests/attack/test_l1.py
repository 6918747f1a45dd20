"""What an L1 endpoint can do to the l1 process: it lies about the chain, or its answers are far too large or misshapen.

The process under attack is a real one, the same for most tests; docs/security.md has the bounds."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any

import msgspec
import orjson
import pytest
from aiohttp import web

from rollup_node.stages.l1.config import L1Config
from tests.support.chains.fake_l1_chain import BLOCK_TIME, FakeL1Chain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.processes.attacked_stage import AttackedStage, SharedStage
from tests.support.processes.leftovers import Leftovers
from tests.support.servers.hostile_bodies import gzip_bomb, lists, send_body
from tests.support.servers.http_listener import Handler, app_for_every_path, listening

CHAIN_ID, FOREIGN_ID = 5, 1337
HEAL_SECONDS = 30

Answer = Callable[[Any], Any]
"""The answer to a decoded request: bytes for a whole body, gzip-compressed if they begin so, or a JSON value."""


class HostileL1:
    """An endpoint with a chain, whose last `spare` blocks are yet to come.

    While `attack` is set, it answers instead of the chain; `attacked` has the kinds of requests that it answered."""

    def __init__(self, length: int = 40, spare: int = 0) -> None:
        genesis = int(time.time()) - BLOCK_TIME * (length + spare)
        self.chain, self.chain_id = FakeL1Chain(length, genesis), CHAIN_ID
        self.foreign = FakeL1Chain(length + 40, genesis - BLOCK_TIME * 40)
        self.foreign.reorg(length + 39, length + 39)
        self.attack: Answer | None = None
        self.attacks = 0
        self.attacked: set[str] = set()
        self.endless: Handler | None = None
        self._last_range = 0

    def new_range(self) -> int:
        """Return the first of some block numbers that are not cached, since none within the prefetch window was
        requested."""
        self._last_range += 100
        assert self._last_range + 20 < self.chain.head
        return self._last_range

    def answer(self, request: Any) -> Any:
        """Return the honest answer to a request or a batch."""
        return self.answer_from(self.chain, self.chain_id, request)

    def answer_from(self, chain: FakeL1Chain, chain_id: int, request: Any) -> Any:
        """Return the answer of a node of that chain."""
        if isinstance(request, list):
            return [self.answer_from(chain, chain_id, item) for item in request]
        result = chain.methods(chain_id)[request["method"]](*request["params"])
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One HTTP request."""
        if self.endless is not None:
            return await self.endless(request)
        call = orjson.loads(await request.read())
        result = self.answer(call) if self.attack is None else self.attack(call)
        if self.attack is not None:
            self.attacks += 1
            self.attacked.add(kind_of(call))
        body = result if isinstance(result, bytes) else orjson.dumps(result)
        return await send_body(request, body)


def kind_of(call: Any) -> str:
    """Whether a request is a batch, or asks for the chain id, a head or a block."""
    if isinstance(call, list):
        return "batch"
    if call["method"] == "eth_chainId":
        return "chain id"
    return "head" if call["params"][0] in ("latest", "safe", "finalized") else "block"


Scenario = Callable[[AttackedStage, HostileL1], Awaitable[None]]


def config(url: str) -> L1Config:
    """Return the configuration of an l1 process that polls this endpoint."""
    rollup = msgspec.structs.replace(PLAIN_ROLLUP, l1_chain_id=CHAIN_ID)
    return L1Config((url,), (rollup,), poll_interval=0.1, epoch_poll_interval=0.2, timeout=10.0)


class SharedL1:
    """An l1 process and its endpoint, which the tests attack one after another."""

    def __init__(self, leftovers: Leftovers) -> None:
        constants = {"rollup_node.stages.io.http.jsonrpc.SINGLE_SECONDS": 1.0}
        self.stage, self.l1 = SharedStage(leftovers, "l1", config, constants), HostileL1(length=1900, spare=30)

    def attack(self, scenario: Scenario) -> None:
        """Run a scenario once the process follows the chain; the process must outlive it within its bounds."""

        async def whole(stage: AttackedStage) -> None:
            await follows(stage, self.l1)
            await scenario(stage, self.l1)

        self.l1.attack, self.l1.endless, self.l1.attacked = None, None, set()
        self.stage.attack(self.l1.handle, whole)


@pytest.fixture(scope="module")
def shared(module_leftovers: Leftovers) -> Iterator[SharedL1]:
    """Yield the process under attack."""
    shared_l1 = SharedL1(module_leftovers)
    with closing(shared_l1.stage):
        yield shared_l1


@asynccontextmanager
async def attack_new_l1(leftovers: Leftovers) -> AsyncIterator[tuple[AttackedStage, HostileL1]]:
    """Provide against an l1 process that has just been started."""
    l1 = HostileL1()
    async with listening(app_for_every_path(l1.handle)) as (url,):
        with AttackedStage(leftovers, "l1", config(url)) as stage, stage.within_bounds():
            yield stage, l1


def heads(stage: AttackedStage) -> tuple[int | None, int | None]:
    return stage.last("head"), stage.last("finalized")


async def follows(stage: AttackedStage, l1: HostileL1) -> None:
    """Wait until the process has the chain's head and finalized block, and no problem."""
    expected = (l1.chain.head, l1.chain.head - 6)
    await stage.until(lambda: heads(stage) == expected, f"heads {expected}", HEAL_SECONDS)
    await stage.until(lambda: not stage.last("problems"), "no problems", HEAL_SECONDS)


async def attacked(stage: AttackedStage, l1: HostileL1, answers: int) -> None:
    """Wait until the endpoint has given so many answers of the attack."""
    goal = l1.attacks + answers
    await stage.until(lambda: l1.attacks >= goal, f"{answers} answers of the attack")


@pytest.mark.parametrize("forged", ["all", "a finalized block above the head", "a finalized block of another chain"])
def test_another_chain_behind_the_url_for_a_while(shared: SharedL1, forged: str) -> None:
    async def scenario(stage: AttackedStage, l1: HostileL1) -> None:
        number = l1.chain.head + (10 if "above" in forged else -2)

        def answer(request: Any) -> Any:
            if forged == "all":
                return l1.answer_from(l1.foreign, FOREIGN_ID, request)
            result = l1.answer(request)
            if isinstance(request, dict) and request["params"][:1] == ["finalized"]:
                result["result"] = l1.foreign.block_json(number)
            return result

        l1.attack = answer
        await attacked(stage, l1, 6)
        await stage.until(lambda: stage.last("problems"), "the problem is published")
        assert heads(stage) == (l1.chain.head, l1.chain.head - 6)
        l1.attack = None
        l1.chain.extend(5)
        await follows(stage, l1)

    shared.attack(scenario)


async def test_a_foreign_chain_from_the_start_is_given_up(leftovers: Leftovers) -> None:
    """It even has the right chain id; what its finalized block rested on is disproved later."""
    async with attack_new_l1(leftovers) as (stage, l1):
        l1.attack = lambda request: l1.answer_from(l1.foreign, CHAIN_ID, request)
        foreign = (l1.foreign.head, l1.foreign.head - 6)
        await stage.until(lambda: heads(stage) == foreign, "the foreign chain is followed")
        stage.request(["blocks", 10, 20])
        await stage.until(lambda: stage.last("block") == 29, "foreign blocks are sent")
        l1.attack = None
        await follows(stage, l1)
        sent = len(stage.messages)
        stage.request(["blocks", 31, 9])
        await stage.until(
            lambda: any(message.get("block") == 39 for message in stage.messages[sent:]), "blocks of the chain"
        )


@pytest.mark.fault("F5")
@pytest.mark.parametrize("identity", [[1], {"a": 1}, "0x1", 1.5, None, True, 10**30])
def test_ids_of_any_type_in_a_batch(shared: SharedL1, identity: Any) -> None:
    async def scenario(stage: AttackedStage, l1: HostileL1) -> None:
        answer = {"jsonrpc": "2.0", "result": None}
        shown = b"1" + b"0" * 30 if identity == 10**30 else orjson.dumps(identity)
        element = orjson.dumps(answer)[:-1] + b',"id":' + shown + b"}"
        l1.attack = lambda request: b"[" + element + b"]"
        last = l1.new_range()
        stage.request(["refs", last, 5])
        await stage.until(lambda: stage.last("error") and stage.last("refs") == last, "the references are unavailable")
        l1.attack = None
        await stage.until(lambda: stage.last("refs") == last and not stage.last("error"), "the references")

    shared.attack(scenario)


def a_result(body: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":' + body + b"}"


BODIES: dict[str, Callable[[], bytes]] = {
    "40 MB of lists": lambda: lists(40_000_000),
    "40 MB of lists as a result": lambda: a_result(lists(40_000_000)),
    "a gzip bomb of 60 MB": lambda: gzip_bomb(b"", 60_000_000, b""),
    "a gzip bomb of 60 MB as a result": lambda: gzip_bomb(b'{"jsonrpc":"2.0","id":1,"result":{"a":', 60_000_000, b"}}"),
    "a deep nest": lambda: b"[" * 2_000_000,
    "4 MB of lists": lambda: lists(4_000_000),
}


@pytest.mark.parametrize("name", BODIES)
def test_huge_answers_to_every_call(shared: SharedL1, name: str) -> None:
    """Heads, blocks and batches alike, while the chain id, without which nothing else is asked for, is right, and then
    the chain id as well. Some time after the last of them the process follows the chain again."""

    async def scenario(stage: AttackedStage, l1: HostileL1) -> None:
        body = BODIES[name]()
        l1.attack = lambda request: l1.answer(request) if kind_of(request) == "chain id" else body
        stage.request(["blocks", first := l1.new_range(), 20], ["refs", first + 10, 5])
        await stage.until(lambda: {"head", "block", "batch"} <= l1.attacked, "an answer of each kind")
        l1.attack = lambda request: body
        await attacked(stage, l1, 6)
        l1.attack = None
        l1.chain.extend(1)
        await follows(stage, l1)

    shared.attack(scenario)


async def test_long_error_messages_are_cut(leftovers: Leftovers) -> None:
    async with attack_new_l1(leftovers) as (stage, l1):
        await follows(stage, l1)
        error = {"code": -32000, "message": "m" * 2_000_000, "data": "d" * 1_000_000}
        l1.attack = lambda request: {"jsonrpc": "2.0", "id": None, "error": error}
        stage.request(["blocks", 10, 20], ["refs", 20, 5])
        await attacked(stage, l1, 12)
        await stage.until(lambda: stage.last("problems") and stage.last("error"), "the problem is published")
        assert max(len(orjson.dumps(message)) for message in stage.messages) < 4000
        assert max(map(len, stage.log.splitlines())) < 1500
        l1.attack = None
        await follows(stage, l1)


def test_an_answer_that_never_ends(shared: SharedL1) -> None:
    async def scenario(stage: AttackedStage, l1: HostileL1) -> None:
        ended = 0

        async def spaces(request: web.Request) -> web.StreamResponse:
            nonlocal ended
            response = web.StreamResponse()
            await response.prepare(request)
            try:
                while True:
                    await response.write(bytes(1 << 16).replace(b"\0", b" "))
            except ConnectionError:
                ended += 1
            return response

        l1.endless = spaces
        await stage.until(lambda: ended >= 3, "the process gives up 3 answers")
        l1.endless = None
        await follows(stage, l1)

    shared.attack(scenario)
