"""What an execution engine can do to the engine process: answers that are far too large, never end, drip, or are
misshapen. The process under attack is a real one; docs/security.md has the bounds."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.engine.config import EngineConfig
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.fake_engine import SECRET, FakeExecutionEngine
from tests.support.processes.attacked_stage import AttackedStage, SharedStage
from tests.support.processes.leftovers import Leftovers
from tests.support.servers.hostile_bodies import endless, gzip_bomb, lists, send_body
from tests.support.servers.http_listener import Handler

ROOT = Path(__file__).resolve().parents[2]
CHAIN = chain_with()
TIMEOUT = 1.0
MEGABYTES = 400
"""A body that is refused may have 256 MiB."""
FAST = {"rollup_node.stages.engine.core.rows.MAX_SECONDS": 0.2}
RESETS = [0]
"""The starts that the process has given, each of which the next attack has it abandon."""


@pytest.fixture(scope="module")
def shared(module_leftovers: Leftovers) -> Iterator[SharedStage]:
    """Yield the process under attack, whose engine is away until the first attack."""

    def config(url: str) -> EngineConfig:
        return EngineConfig(url, SECRET, TIMEOUT, "geth", CHAIN.rollup, CHAIN.l1_chain)

    with closing(SharedStage(module_leftovers, "engine", config, FAST, MEGABYTES)) as stage:
        yield stage


class HostileEngine:
    """An engine that answers by `attack` while that is set."""

    def __init__(self, attack: Handler) -> None:
        self.honest, self.attack, self.attacks = FakeExecutionEngine(CHAIN), attack, 0
        self.honest.head = CHAIN.genesis.hash
        self.is_hostile = True

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One HTTP request."""
        if not self.is_hostile:
            return await self.honest.handle(request)
        self.attacks += 1
        return await self.attack(request)


def answering(result: Any) -> Handler:
    """Answers every call with this result, or with these bytes around its id."""

    async def answer(request: web.Request) -> web.StreamResponse:
        calls = orjson.loads(await request.read())
        listed = calls if isinstance(calls, list) else [calls]
        value = [{"jsonrpc": "2.0", "id": item["id"], **result} for item in listed]
        return await send_body(request, orjson.dumps(value if isinstance(calls, list) else value[0]))

    return answer


def body(data: Callable[[], bytes]) -> Handler:
    """Answers every call with this body."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await send_body(request, data())

    return answer


ATTACKS: dict[str, Handler] = {
    "huge list": body(lambda: lists(32 << 20)),
    "bomb": body(lambda: gzip_bomb(b'{"jsonrpc":"2.0","id":1,"result":', 300 << 20, b"}")),
    "endless": endless(b'{"a":' * 100_000),
    "dripping": endless(b" ", 0.05),
    "other types": answering({"result": {"hash": 5, "number": [], "parentHash": {}, "transactions": "0x"}}),
    "a long error": answering({"error": {"code": -32000, "message": "x" * (1 << 20), "data": "y" * (1 << 20)}}),
    "no JSON": body(lambda: b"<html>" + b"\xff\x00" * (1 << 19)),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_by_the_engine(shared: SharedStage, name: str) -> None:
    engine = HostileEngine(ATTACKS[name])

    async def script(stage: AttackedStage) -> None:
        stage.request([RESETS[-1], f"attack {name}"])
        await stage.until(lambda: engine.attacks >= 3, "3 answers of the attack")
        engine.is_hostile = False
        before = len(stage.messages)
        await stage.until(
            lambda: any("start" in message for message in stage.messages[before:]), "a start of derivation"
        )
        RESETS.append(stage.last("start"))

    shared.attack(engine.handle, script)


DECODED = """
import os, sys
from rollup_node.stages.engine.process import engine_answers as answers
from rollup_node.stages.io.http.json_answers import decode_answer
from rollup_node.stages.protocol.answer_limits import L2_BLOCK
from rollup_node.tools.fuzz.targets.chain_seeds import answer, payload
from rollup_node.stages.protocol.engine_json import envelope_to_json
from tests.support.processes.process_memory import peak_memory, reset_peak_memory

size, transaction = map(int, sys.argv[1:])
text, before = b'"0x' + b"11" * transaction + b'",', b'"transactions":['
raw = answer(envelope_to_json(payload(4))).replace(before, before + text * (size // len(text)))
reset_peak_memory(os.getpid())
used = peak_memory(os.getpid())
read = answers.payload_of_envelope(decode_answer(raw, "engine_getPayloadV4", answers.SealedEnvelope, L2_BLOCK))
assert len(read.transactions) > size // len(text)
print((peak_memory(os.getpid()) - used) / len(raw))
"""


@pytest.mark.parametrize(("transaction", "most"), [(110, 3.0), (1, 22.0)])
def test_what_a_large_block_of_the_engine_takes(transaction: int, most: float) -> None:
    """Bytes of memory for each byte of the answer, with transactions of so many bytes."""
    words = [sys.executable, "-c", DECODED, str(8 << 20), str(transaction)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    print(ran.stdout)
    assert 0 < float(ran.stdout) < most
