"""The stages of the toy node: `left` serves a channel and runs tasks, `right` sends requests to it and writes the last
response into FOLDER, `copy` does nothing by itself. A file FOLDER/do-ROLE makes a process of that role run the action
in it, once. The role of a process of chain 10 ends in `.10`."""

import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.stages.io.log.logger import Level, Logger, set_level_of_node
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested, PeriodicTask, Stage
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.protocol import errors

STARVED_SECONDS = 4.0
ORDER_SECONDS = 0.1


class ToyRequest(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A request."""

    number: int


class ToyResponse(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Its response, with padding that makes it travel through the arena."""

    number: int
    padding: bytes


CHANNELS = (
    Channel("left.toys", Pattern.REQUEST, "left", ("right",), up=ToyRequest, down=ToyResponse),
    Channel("work.right", Pattern.WORK, "right", ("left",), up=ToyResponse, down=ToyRequest),
)


def kill_worker(task: ToyRequest) -> ToyResponse:
    """Run a task of which every worker dies."""
    os.kill(os.getpid(), signal.SIGKILL)
    return ToyResponse(task.number, b"")


class ToyConfig(msgspec.Struct, frozen=True):
    """The configuration of a toy."""

    role: str
    folder: str
    refuse_to_stop: bool = False
    output: int = 2
    code: int = 0


class ToyStage(Stage):
    """A stage that runs the actions it is ordered to."""

    def __init__(self, config: ToyConfig, bus: Bus, meter: Meter) -> None:
        self.config, self.folder, self.bus, self.meter = config, Path(config.folder), bus, meter
        self.log = Logger(config.role)
        self.periodic_tasks = [PeriodicTask("orders", self.take_order)]
        self.requests = 0
        self.problems: tuple[Problem, ...] = ()
        role, dot, chain = config.role.partition(".")
        self.response = f"response{dot}{chain}"
        if role == "left":
            self.server = bus.serve("left.toys", self.respond)
            bus.work({"work.right": kill_worker})
        if role == "right":
            self.client = bus.connect("left.toys", self.on_response)
            self.workers = bus.dispatch("work.right")
            self.periodic_tasks.append(PeriodicTask("requests", self.request))

    async def start(self) -> None:
        if self.config.refuse_to_stop:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self.log.info("toy started", code=self.config.code)

    async def close(self) -> None:
        self.log.info("toy closed")

    def reset(self, error: Exception) -> None:
        self.log.info("toy reset", reason=error)

    def report(self, problems: tuple[Problem, ...]) -> None:
        if problems != self.problems:
            self.problems = problems
            self.log.info("toy reports", problems=" | ".join(map(str, problems)) or "none")

    def respond(self, client: ProcessId, request: ToyRequest) -> None:
        self.server.send(client, ToyResponse(request.number, bytes(100_000)))

    def on_response(self, response: ToyResponse) -> None:
        new = self.folder / f"{self.response}.new"
        new.write_text(f"{response.number} {len(response.padding)}")
        new.rename(self.folder / self.response)

    async def request(self) -> float:
        self.requests += 1
        self.client.send(ToyRequest(self.requests))
        return 0.05

    async def take_order(self) -> float:
        order = self.folder / f"do-{self.config.role}"
        # Of several copies of a process one takes it.
        taken = order.with_name(f"{order.name}-{os.getpid()}")
        try:
            order.rename(taken)
        except FileNotFoundError:
            return ORDER_SECONDS
        action = taken.read_text()
        taken.unlink()
        self.log.info("toy acts", action=action)
        await self.act(action)
        return ORDER_SECONDS

    def starve(self, core: int) -> None:
        """Without a heartbeat, computes on a core with what time other processes leave, and sleeps for a quarter of the
        time."""
        os.sched_setaffinity(0, {core})
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        begun, asleep = time.monotonic(), 0.0
        while (elapsed := time.monotonic() - begun) < STARVED_SECONDS:
            used = time.thread_time()
            while time.thread_time() - used < 0.0005:
                pass
            nap = max(0.0, elapsed / 4 - asleep)
            time.sleep(nap)
            asleep += nap
        self.log.info("toy was starved")

    async def act(self, action: str) -> None:
        match action:
            case "spin":
                while True:
                    pass
            case "compute":
                # A minute in C, which no signal handler of Python interrupts.
                hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000_000)
            case "block":
                time.sleep(3600)
            case "crash":
                raise ValueError("a toy's bug")
            case "critical":
                raise errors.CriticalError("a toy contradicts itself")
            case "forks":
                raise errors.ForkMismatchError("the toys have other forks: set --override.jovian")
            case "restart":
                raise errors.RestartError("the toys have other colours now")
            case "halt":
                raise errors.HaltError("the toys are outdated")
            case "temporary":
                raise errors.TemporaryError("the toy endpoint is away")
            case "reset":
                raise errors.ResetError("the toy ground moved")
            case "poison":
                await self.workers.run(ToyRequest(0))
            case "finish":
                os.write(self.config.output, b"the result\n")
                raise ExitRequested(self.config.code)
            case "log everything":
                set_level_of_node(Level.TRACE)
            case "trace":
                self.log.trace("toy traces")
            case starve if starve.startswith("starve "):
                self.starve(int(starve.split()[1]))
            case "orphan":
                subprocess.run(["sh", "-c", f"(sleep 0.3 & echo $! > {self.folder / 'orphan'})"], check=True)
            case "print":
                print("printed\nby hand")
                os.write(2, b"written past Python\n")
            case "chatter":
                for number in range(3000):
                    self.log.info("chatter", number=number, padding="x" * 3000)
                Path(self.folder / "chattered").touch()


build = ToyStage
