"""The stages of a node that only decodes: `derivation` reads the channel bodies in a folder through `DecodingClient`,
as the real process does, and writes the results; meanwhile it kills the compute workers that the job names."""

import asyncio
import json
import os
import signal
from hashlib import sha256
from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.channel_reader import ChannelReader, need_decoded
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedDecoded
from rollup_node.stages.derivation.process.decoding_client import DecodingClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested, PeriodicTask, Stage
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.forks.table import FORK_NAMES

PREFETCHED = 8
SPAN = SpanRules(11155420, 1691802540, 2)
SCHEDULES = {"early": ForkSchedule({}, 2, 300, 600), "late": ForkSchedule(dict.fromkeys(FORK_NAMES, 0), 2, 300, 600)}


class DecodingJob(msgspec.Struct, frozen=True):
    """The folder of bodies, whether to decode without workers, and the channels after which a worker is killed."""

    folder: str
    runtime: str
    inline: bool
    kills: tuple[int, ...]
    output: int


class DecodingStage(Stage):
    """Reads every body by the rules of the first and of the last fork."""

    def __init__(self, config: DecodingJob, bus: Bus, meter: Meter) -> None:
        self._config = config
        self._wake = asyncio.Event()
        self._counters = bus.counters
        self._slots = bus._slots["compute"]
        self._pool = bus.dispatch("work.derivation")
        self._decoding = DecodingClient(None if config.inline else self._pool, self._wake.set)
        self.periodic_tasks = [PeriodicTask("decode", self._step)]

    async def close(self) -> None:
        await self._decoding.close()

    async def _step(self) -> float:
        bodies = [path.read_bytes() for path in sorted(Path(self._config.folder).iterdir())]
        jobs = [(schedule, body) for body in bodies for schedule in SCHEDULES.values()]
        digests, killed = [], 0
        for number, (schedule, body) in enumerate(jobs):
            for ahead, (rules, later) in enumerate(jobs[number : number + PREFETCHED]):
                if ahead == PREFETCHED - 1 or number == 0:
                    self._decoding.prefetch(need_decoded(later, rules.l1(0), SPAN))
            await asyncio.sleep(0)
            due = sum(kill <= number for kill in self._config.kills)
            while killed < due and self._pool.scheduler.outstanding:
                killed += await self._kill_a_busy_worker()
            digests.append(await self._read(schedule.l1(0), body))
        result = {"digests": digests, "killed": killed, "reissued": self._counters["tasks_reissued"]}
        os.write(self._config.output, json.dumps(result).encode())
        raise ExitRequested()

    async def _read(self, rules: L1Rules, body: bytes) -> tuple[int, str]:
        """How many batches there are, and a digest of them and of all that was dropped."""
        events = PipelineEvents()
        reader = ChannelReader(SPAN, events)
        reader.open(ReadyChannel(bytes(16), body), rules)
        digest, count = sha256(), 0
        while (popped := reader.pop(rules, 5)) is not Flow.OUT_OF_DATA:
            if isinstance(popped, NeedDecoded):
                await self._decode(reader, popped)
            elif not isinstance(popped, Flow):
                digest.update(msgspec.msgpack.encode(popped))
                count += 1
        digest.update(repr([str(dropped) for dropped in events.drops]).encode())
        return count, digest.hexdigest()

    async def _decode(self, reader: ChannelReader, need: NeedDecoded) -> None:
        while (result := self._decoding.result(need)) is None:
            self._wake.clear()
            await self._wake.wait()
        assert reader.add_decoded(need.key, result)

    async def _kill_a_busy_worker(self) -> int:
        """Kills a worker that runs a task.

        Returns 1 when a task of its was assigned again, 0 when its last result was already on its way."""
        entries = json.loads((Path(self._config.runtime) / "processes.json").read_text())
        workers = [entry for entry in entries if entry["role"] == "compute"]
        pids = {ProcessId(self._slots[entry["copy"]], entry["incarnation"]): entry["pid"] for entry in workers}
        before = self._counters["tasks_reissued"]
        for worker, state in list(self._pool.scheduler._workers.items()):
            if state.held and worker in pids:
                os.kill(pids[worker], signal.SIGKILL)
                while worker in self._pool.scheduler.workers:
                    await asyncio.sleep(0.005)
                break
        await asyncio.sleep(0.005)
        return int(self._counters["tasks_reissued"] > before)


class IdleStage(Stage):
    """An idle stage for the other processes that dispatch tasks."""


build = DecodingStage


def idle(config: object, bus: Bus, meter: Meter) -> IdleStage:
    """Return a process that does nothing."""
    return IdleStage()
