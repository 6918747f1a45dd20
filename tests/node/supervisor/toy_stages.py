"""The stages of the toy node: `left` serves a channel, `right` asks it again and again and writes what it learnt into
FOLDER, `hand` only obeys. A file FOLDER/do-ROLE makes a process of that role do what is in it, once."""

import os
import signal
import time
from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import ExitRequested, PeriodicTask
from rollup_node.stages.protocol.errors import CriticalError, ResetError, TemporaryError


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A question."""

    number: int


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Its answer, with padding that makes it travel through the arena."""

    number: int
    padding: bytes


CHANNELS = (Channel("left.answers", Pattern.REQUEST, "left", ("right",), up=Ask, down=Answer),)


class ToyConfig(msgspec.Struct, frozen=True):
    """What a toy needs to know."""

    role: str
    folder: str
    refuse_to_stop: bool = False
    output: int = 2
    code: int = 0


class Toy:
    """A stage that does what it is told."""

    def __init__(self, config: ToyConfig, bus: Bus, meter: Meter) -> None:
        self.config, self.folder, self.bus, self.meter = config, Path(config.folder), bus, meter
        self.log = get_logger(config.role)
        self.periodic_tasks = [PeriodicTask("obey", self.obey)]
        self.asked = 0
        self.told: tuple[str, ...] = ()
        if config.role == "left":
            self.server = bus.serve("left.answers", self.answer)
        if config.role == "right":
            self.client = bus.connect("left.answers", self.learn)
            self.periodic_tasks.append(PeriodicTask("ask", self.ask))

    async def start(self) -> None:
        if self.config.refuse_to_stop:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.log.info("toy starts")

    async def close(self) -> None:
        self.log.info("toy closes")

    def reset(self, error: Exception) -> None:
        self.log.info("toy resets", why=error)

    def report(self, problems: tuple[str, ...]) -> None:
        if problems != self.told:
            self.told = problems
            self.log.info("toy reports", problems=" | ".join(problems) or "none")

    def answer(self, peer: ProcessId, ask: Ask) -> None:
        self.server.send(peer, Answer(ask.number, bytes(100_000)))

    def learn(self, answer: Answer) -> None:
        new = self.folder / "learnt.new"
        new.write_text(f"{answer.number} {len(answer.padding)}")
        new.rename(self.folder / "learnt")

    async def ask(self) -> float:
        self.asked += 1
        self.client.send(Ask(self.asked))
        return 0.05

    async def obey(self) -> float:
        order = self.folder / f"do-{self.config.role}"
        if not order.exists():
            return 0.03
        what = order.read_text()
        order.unlink()
        self.log.info("obeys", what=what)
        await self.orders(what)
        return 0.03

    async def orders(self, what: str) -> None:
        match what:
            case "spin":
                while True:
                    pass
            case "block":
                time.sleep(3600)
            case "crash":
                raise ValueError("a toy's bug")
            case "critical":
                raise CriticalError("a toy contradicts itself")
            case "temporary":
                raise TemporaryError("the toy endpoint is away")
            case "reset":
                raise ResetError("the toy ground moved")
            case "finish":
                os.write(self.config.output, b"the result\n")
                raise ExitRequested(self.config.code)
            case "print":
                print("printed\nby hand")
                os.write(2, b"written past Python\n")
            case "chatter":
                for number in range(3000):
                    self.log.info("chatter", number=number, padding="x" * 3000)
                Path(self.folder / "chattered").touch()


def build(config: ToyConfig, bus: Bus, meter: Meter) -> Toy:
    """What the runtime calls."""
    return Toy(config, bus, meter)
