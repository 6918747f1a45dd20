"""A forged L1 moves no block that is derived: the l1 process against endpoints that lie at random [LCP12 to LCP18].

The process is the real one with its task runner, HTTP clients above the connections, files and verification. Its time
is virtual, so that hours pass in seconds."""

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from yarl import URL

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.stages.io.http.client import HttpAnswer, HttpClient
from rollup_node.stages.io.http.endpoint_errors import EndpointError, NoAnswerError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1 import proof, tasks
from rollup_node.stages.l1.config import CheckpointConfig, L1Config
from rollup_node.stages.l1.process.stage import L1Stage
from rollup_node.stages.messages.l1 import (
    L1BlockResponse,
    L1BlocksRequest,
    L1Heads,
    L1RefsRequest,
    L1RefsResponse,
)
from rollup_node.stages.protocol.types import Hash, L1BlockRef
from tests.support.chains.fake_beacon_chain import NEVER
from tests.support.chains.lying_l1 import HANGS, Asked, LyingL1
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.timing import virtual_time

ATTACKS = int(os.environ.get("L1_ATTACKS", "300"))
"""Lies that are told to the process; 10,000 are worth running by hand."""

REACH, RESET, SLOT = 12, 8, 12.0
HOSTILE_SLOTS, HONEST_SLOTS = 40, 120
NOW = 1_700_000_000
L1_URLS = ("http://127.0.0.1:1001", "http://127.0.0.1:1002")
BEACON_URLS = ("http://127.0.0.1:2001", "http://127.0.0.1:2002", "http://127.0.0.1:2003")


class AttackedProcess:
    """The process before an L1 whose endpoints lie, and models of derivation and engine, which check what they get.

    It is the bus, too: what the process publishes and sends comes here. `hostile` are the endpoints that lie."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.loop = asyncio.get_running_loop()
        rate, gloas = self.random.choice((0.2, 0.5, 0.8)), self.random.choice((0, 9, NEVER))
        self.l1 = LyingL1(self.random, self.now, gloas, rate)
        names = [url.removeprefix("http://") for url in (*L1_URLS, *BEACON_URLS)]
        self.hostile = {name for name in names if self.random.random() < 0.8}
        self.forgers = {name for name in names if self.random.random() < 0.3}
        self.path = str(folder / f"{seed}.json")
        checkpoint = CheckpointConfig(self.l1.beacon.root(24), BEACON_URLS, self.l1.network, self.path)
        self.config = L1Config(L1_URLS, (PLAIN_ROLLUP,), window=8, checkpoint=checkpoint)
        self.clock_error = 0.0
        self.handlers: dict[str, Callable[[ProcessId, Any], None]] = {}
        self.heads = L1Heads(None, None, None)
        self.derived: dict[int, Hash] = {}
        self.position = self.random.randrange(4, 50)
        self.trapped = asyncio.Event()
        self.far = self.shown = self.hidden = self.refs = 0
        self.start()

    def now(self) -> float:
        """The right time, in Unix seconds."""
        return NOW + self.loop.time()

    # --- the process -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process, with tasks as the runtime runs them."""
        meter = Meter("l1")
        self.stage = L1Stage(self.config, self, meter)  # type: ignore[arg-type]
        self.runner = TaskRunner(self.stage, meter, Problems(self.stage, meter), "l1")
        self.running = [asyncio.create_task(self.runner.run(task)) for task in self.runner.periodic_tasks]

    async def stop(self, killed: bool) -> None:
        """End the process by a signal, or at once: then it keeps nothing more."""
        for task in self.running:
            task.cancel()
        for result in await asyncio.gather(*self.running, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError), f"a bug ends a task: {result!r}"
        if killed:
            assert self.stage._prover is not None
            self.stage._prover.keep = _nothing  # type: ignore[method-assign]
        await self.stage.close()

    async def _restart(self, killed: bool) -> None:
        await self.stop(killed)
        self.start()

    # --- its bus ---------------------------------------------------------------------------------------------------

    def publish(self, channel: str) -> Any:
        return SimpleNamespace(set=self._on_status)

    def group_of(self, process: ProcessId) -> str:
        return ""

    def dispatch(self, channel: str) -> Any:
        return SimpleNamespace(run=self._run_task, scheduler=SimpleNamespace(outstanding=0))

    def serve(self, channel: str, handler: Callable[[ProcessId, Any], None]) -> Any:
        self.handlers[channel] = handler
        return SimpleNamespace(send=lambda peer, message: self._on_sent(channel, message))

    async def _run_task(self, task: Any) -> Any:
        await asyncio.sleep(0.01)
        return tasks.run(task)

    # --- its endpoints ---------------------------------------------------------------------------------------------

    async def post(self, name: str, body: bytes, timeout: float) -> HttpAnswer:
        request = orjson.loads(body)
        calls = request if isinstance(request, list) else [request]
        is_hostile, is_forger = name in self.hostile, name in self.forgers
        answer = self.l1.rpc_answer(calls, PLAIN_ROLLUP.l1_chain_id, is_hostile, is_forger)
        await self._delay(name, answer, timeout)
        if isinstance(answer, bytes):
            return HttpAnswer(200, {}, answer)
        assert isinstance(answer, list)
        return HttpAnswer(200, {}, orjson.dumps(answer if isinstance(request, list) else answer[0]))

    async def get(self, name: str, url: URL, timeout: float, take: Callable[[bytes], None] | None = None) -> HttpAnswer:
        if take is not None:
            return await self._events(name, take)
        answer = self.l1.beacon_answer(Asked(url.path, dict(url.query)), name in self.hostile)
        await self._delay(name, answer, timeout)
        return HttpAnswer(404, {}, b"not there") if answer is None else HttpAnswer(200, {}, answer)

    async def _delay(self, name: str, answer: object, timeout: float) -> None:
        await asyncio.sleep(timeout if answer is HANGS else self.random.random() * 0.1)
        if answer is HANGS:
            raise NoAnswerError(name, timeout)

    async def _events(self, name: str, take: Callable[[bytes], None]) -> HttpAnswer:
        while self.random.random() < 0.95:
            await asyncio.sleep(self.random.random() * 2 * SLOT)
            take(b"event: light_client_optimistic_update\n")
        raise EndpointError(name, "the connection failed")

    # --- derivation, and what it must not get ----------------------------------------------------------------------

    def _on_status(self, message: Any) -> None:
        if not isinstance(message, L1Heads):
            return
        self.heads = message
        for head in (message.head, message.safe):
            assert head is None or head.hash in self.l1.ever, f"a forged head {head}"
        if message.finalized is not None:
            assert message.finalized.hash == self.l1.chain.hash(message.finalized.number), "a forged finalized block"
        self.check()

    def _on_sent(self, channel: str, message: Any) -> bool:
        if isinstance(message, L1RefsResponse):
            self.refs += len(message.refs)
            for ref in message.refs:
                self._check_sent(ref)
        elif isinstance(message, L1BlockResponse):
            ref = message.block.ref
            is_far = self._check_sent(ref)
            if channel == "l1.blocks" and ref.number == self.position:
                self.far += is_far
                self._derive(ref)
        self.check()
        return True

    def _check_sent(self, ref: L1BlockRef) -> bool:
        """Whether a block that a client is sent is too far below the head to be proven; others must be proven."""
        head = self.heads.head
        assert head is not None and ref.number <= head.number, f"{ref} above the head {head}"
        if ref.number < head.number - REACH:
            return True
        assert ref.hash in self.l1.ever, f"a forged block {ref} below {head}"
        return False

    def _derive(self, ref: L1BlockRef) -> None:
        before = self.derived.get(ref.number - 1)
        if before is not None and before != ref.parent_hash:
            self._reset(ref.number - RESET)
            return
        self.derived[ref.number] = ref.hash
        self.position = ref.number + 1
        if ref.hash not in self.l1.ever and self.random.random() < 0.4:
            # Killed while a forged block of a catch-up is in use, and before that may be recorded.
            self.loop.call_later(0.1 * self.random.random(), self.trapped.set)

    def _reset(self, position: int) -> None:
        """Derivation goes back: it requests the blocks again from there, and what it made of them is made anew."""
        self.position = max(1, min(self.position, position))
        self.derived = {number: value for number, value in self.derived.items() if number < self.position}

    def check(self) -> None:
        """Nothing up to the finalized block that is shown is derived from a forged block."""
        final = self.heads.finalized
        self.shown, self.hidden = self.shown + (final is not None), self.hidden + (final is None)
        if final is not None:
            wrong = [n for n, value in self.derived.items() if n <= final.number and value != self.l1.chain.hash(n)]
            assert not wrong, f"{final} is finalized while {wrong} are forged"

    # --- what happens ----------------------------------------------------------------------------------------------

    async def run(self, slots: int, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, with requests of derivation and engine, resets, restarts and clocks that are wrong."""
        for _ in range(slots):
            self.l1.grow()
            for _ in range(6):
                self._request()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.trapped.wait(), SLOT / 3 * self.random.random())
                    self.trapped.clear()
                    await self._restart(killed=True)
                for task in self.running:
                    if task.done():
                        task.result()
                if self.l1.rate:
                    await self._happen(self.random.random() * 6)
            if not self.l1.rate and until():
                return

    def _request(self) -> None:
        head, derivation, engine = self.heads.head, ProcessId(1, 1), ProcessId(2, 1)
        self.handlers["l1.blocks"](derivation, L1BlocksRequest(self.position, 4, self.derived.get(self.position - 1)))
        if head is not None:
            # A read far below the head hides finality for a while.
            depth = self.random.randrange(-2, 30 if self.l1.rate else REACH - 4)
            number = max(0, head.number - depth)
            self.handlers["l1.origins"](engine, L1RefsRequest(number, 4))
            self.handlers["l1.origins"](engine, L1BlocksRequest(number, 1))

    async def _happen(self, dice: float) -> None:
        if dice < 0.06:
            await self._restart(killed=dice < 0.03)
        elif dice < 0.12:
            self._reset(self.position - self.random.randrange(RESET))
        elif dice < 0.15:
            self.clock_error = self.random.choice((0.0, 0.0, -300.0, 300.0))
        elif dice < 0.2:
            # Far behind again: another long catch-up.
            self._reset(self.random.randrange(4, 50))

    def has_arrived(self) -> bool:
        """Whether derivation is at the head, on the honest chain, and finality is shown."""
        head = self.heads.head
        is_newest = head is not None and head.number >= self.l1.chain.head - 3
        return is_newest and self.heads.finalized is not None and self.position > self.l1.chain.head - 3


async def _nothing() -> None:
    pass


async def _at_once(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """As asyncio.to_thread, whose thread would take real time."""
    return function(*args, **options)


async def attacked(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AttackedProcess:
    """Attack one process for some time, and return it when an honest L1 has brought it to the head."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(time, "monotonic", loop.time)
    process: AttackedProcess | None = None
    monkeypatch.setattr(time, "time", lambda: NOW + loop.time() + (process.clock_error if process else 0.0))
    monkeypatch.setattr(asyncio, "to_thread", _at_once)

    async def post(client: HttpClient, body: bytes, timeout: float, max_answer: int) -> HttpAnswer:
        assert process is not None
        return await process.post(client.name, body, timeout)

    async def get(
        client: HttpClient, url: URL, headers: Mapping[str, str], timeout: float, max_answer: int, take: Any = None
    ) -> HttpAnswer:
        assert process is not None
        return await process.get(client.name, url, timeout, take)

    monkeypatch.setattr(HttpClient, "post", post)
    monkeypatch.setattr(HttpClient, "get", get)
    process = AttackedProcess(seed, folder)
    await process.run(HOSTILE_SLOTS)
    process.l1.rate = process.clock_error = 0.0
    await process.run(HONEST_SLOTS, process.has_arrived)
    await process.stop(killed=False)
    assert process.has_arrived(), f"seed {seed} does not arrive: {process.heads}, {process.position}"
    return process


def test_a_forged_l1_moves_no_block_that_is_derived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And once the endpoints are honest, derivation arrives at the head, and finality is shown."""
    monkeypatch.setattr(proof, "REACH", REACH)
    lies, far, shown, hidden, refs, seed = Counter[str](), 0, 0, 0, 0, 0
    while lies.total() < ATTACKS:
        with monkeypatch.context() as patched:
            random.seed(seed)
            process = virtual_time.run(attacked(seed, tmp_path, patched))
        lies += process.l1.lies
        far, refs = far + process.far, refs + process.refs
        shown, hidden = shown + process.shown, hidden + process.hidden
        seed += 1
    print(json.dumps({"lies": dict(lies), "far": far, "shown": shown, "hidden": hidden, "refs": refs, "runs": seed}))
    assert min(lies.values()) > ATTACKS / 400 and len(lies) == 21
    assert far > ATTACKS / 100 and refs > ATTACKS / 10 and shown > ATTACKS / 10 and hidden > ATTACKS / 10
