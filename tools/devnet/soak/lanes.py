"""The lanes of a soak: each takes the actions on one node, or on L1, one after another, and measures the recovery."""

import asyncio
import random
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from rollup_node.tools.devnet.settings import SEQUENCER

if TYPE_CHECKING:
    from rollup_node.tools.devnet.soak.programs import SoakPrograms

SUPERVISOR, SWEEPER = "supervisor", "sweeper"
ROLES = ("l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc", SWEEPER, SUPERVISOR)
"""The processes of a node that can be killed, stopped or hung."""

LEAST_PAUSE = 4.0
"""Seconds between two actions on a node at least."""

DISTINCT = 3
"""A process that dies does not die in the next so many deaths of its node. So it dies at most 4 times within 60
seconds, below the restart policy's 5."""

MAX_DEPTH = 6
MAX_LOST_BLOCKS = 6


class Kind(Enum):
    """What is done."""

    KILL = "kill"
    """SIGKILL to a process; a node whose supervisor it was is started again after `seconds`."""
    STOP = "stop"
    """SIGSTOP to a process for `seconds`, which it survives."""
    HANG = "hang"
    """SIGSTOP to a process until its supervisor has replaced it."""
    FAULT = "fault"
    """A fault of the node's endpoints for `seconds`, by the name of a scenario."""
    RESTART = "engine restart"
    """SIGKILL to the execution engine, which starts after `seconds` without its last `amount` blocks."""
    LEAVE = "leave"
    """SIGTERM to the node, which is started again after `seconds`."""
    JOIN = "join"
    """As LEAVE, without anything that node and engine have kept."""
    REORG = "reorg"
    """The last `amount` blocks of L1 are replaced."""


_WEIGHTS = {
    Kind.KILL: 68,
    Kind.STOP: 9,
    Kind.HANG: 3,
    Kind.FAULT: 9,
    Kind.RESTART: 5,
    Kind.LEAVE: 4,
    Kind.JOIN: 2,
}

_SECONDS = {
    Kind.KILL: (0.0, 3.0),
    Kind.STOP: (0.2, 3.5),
    Kind.HANG: (0.0, 0.0),
    Kind.FAULT: (2.0, 8.0),
    Kind.RESTART: (0.0, 4.0),
    Kind.LEAVE: (1.0, 15.0),
    Kind.JOIN: (1.0, 10.0),
}


@dataclass(frozen=True)
class Action:
    """An action of one lane, `pause` seconds after the recovery from the one before.

    `target` is the role of a process or the name of a fault, empty where the node as a whole is meant."""

    kind: Kind
    pause: float
    target: str = ""
    seconds: float = 0.0
    amount: int = 0

    @property
    def text(self) -> str:
        """The action in a few words."""
        words = [self.kind.value, self.target]
        words += [f"of {self.amount} blocks"] if self.amount else []
        words += [f"for {self.seconds:.1f} s"] if self.seconds else []
        return " ".join(filter(None, words))


def node_actions(seed: int, node: str, faults: Sequence[str], pause: float, *, joins: bool) -> Iterator[Action]:
    """Yield the endless actions on a node.

    `faults` are the names of those that it can have, `pause` the mean seconds between recovery and the next action,
    `joins` whether it may lose its data."""
    chance = random.Random(f"{seed}:{node}")
    recent: deque[str] = deque(maxlen=DISTINCT)
    left_out = {Kind.FAULT} if not faults else set()
    left_out |= set() if joins else {Kind.JOIN}
    weights = {kind: weight for kind, weight in _WEIGHTS.items() if kind not in left_out}
    while True:
        kind = chance.choices(list(weights), list(weights.values()))[0]
        wait, low_high = _pause(chance, pause), _SECONDS[kind]
        seconds, target, amount = round(chance.uniform(*low_high), 2), "", 0
        if kind in (Kind.KILL, Kind.HANG):
            roles = [role for role in ROLES if role not in recent]
            if kind is Kind.HANG:
                roles = [role for role in roles if role not in (SUPERVISOR, SWEEPER)]
            target = chance.choice(roles)
            recent.append(target)
            if kind is Kind.KILL and target != SUPERVISOR:
                seconds = 0.0
        elif kind is Kind.STOP:
            target = chance.choice(ROLES)
        elif kind is Kind.FAULT:
            target = chance.choice(faults)
        elif kind is Kind.RESTART:
            amount = chance.randint(0, MAX_LOST_BLOCKS)
        yield Action(kind, wait, target, seconds, amount)


def l1_actions(seed: int, pause: float) -> Iterator[Action]:
    """Yield the endless reorgs of L1, `pause` seconds apart on average."""
    chance = random.Random(f"{seed}:l1")
    while True:
        wait = _pause(chance, pause)
        yield Action(Kind.REORG, wait, amount=chance.randint(1, MAX_DEPTH))


def _pause(chance: random.Random, mean: float) -> float:
    return round(chance.uniform(LEAST_PAUSE, max(LEAST_PAUSE, 2 * mean - LEAST_PAUSE)), 2)


RECOVERY_SECONDS = 60.0
"""Within so many seconds after an action the node's safe head is above all safe heads at its end. The time in which the
sequencer or L1 is disturbed does not count for the verifiers."""

JOIN_BLOCKS_A_SECOND = 5.0
"""A node without data has this much more time."""

HANG_SECONDS = 60.0
POLL_SECONDS = 0.25
L1 = "l1"


class Process(NamedTuple):
    """A process of a node; the start in clock ticks tells it from a later one with its pid."""

    pid: int
    ticks: int


class Disturbed:
    """Whether the sequencer or L1 is disturbed, and when the last action on either ended.

    And which nodes join: these have more time to recover and are waited for by nobody else."""

    def __init__(self) -> None:
        self.lanes: set[str] = set()
        self.joining: set[str] = set()
        self.ended = float("-inf")


class Done(NamedTuple):
    """An action that is done: when it began, its recovery in seconds, and what was wrong."""

    node: str
    action: Action
    began: float
    recovery: float | None
    problem: str


class Lane:
    """Takes the actions of one node, or of L1 (`L1`), until `stop` is set; `done` gets each."""

    def __init__(
        self,
        network: "SoakPrograms",
        node: str,
        actions: Iterator[Action],
        disturbed: Disturbed,
        done: Callable[[Done], None],
        stop: asyncio.Event,
    ) -> None:
        self._network, self._node, self._actions = network, node, actions
        self._disturbed, self._done, self._stop = disturbed, done, stop
        self._central = node in (SEQUENCER, L1)
        self._last: dict[str, Process] = {}

    async def run(self) -> None:
        """Run until `stop` is set; the action that goes on then is completed."""
        for action in self._actions:
            with suppress(TimeoutError):
                async with asyncio.timeout(action.pause):
                    await self._stop.wait()
                return
            await self._one(action)

    async def _one(self, action: Action) -> None:
        began = _now()
        problems = self._unexpected(began, frozenset())
        before = self._processes()
        if self._central:
            self._disturbed.lanes.add(self._node)
        if action.kind is Kind.JOIN:
            self._disturbed.joining.add(self._node)
        try:
            problems += filter(None, [await self._act(action, before)])
            ended = _now()
            if self._central:
                self._disturbed.ended = ended
            recovery, problem = await self._recovery(action, before, ended)
        finally:
            self._disturbed.lanes.discard(self._node)
            self._disturbed.joining.discard(self._node)
        self._last = before
        if recovery is None:
            problems.append(problem)
            self._last = {}
        else:
            problems += self._unexpected(began, _replaced(action))
            self._last = self._processes()
        self._done(Done(self._node, action, began, recovery, "; ".join(problems)))

    def _processes(self) -> dict[str, Process]:
        return {} if self._node == L1 else self._network.processes(self._node)

    def _unexpected(self, began: float, expected: frozenset[str]) -> list[str]:
        """Return the processes that are others than the last time although nobody ended them."""
        now = self._processes()
        others = [role for role, process in self._last.items() if role not in expected and now.get(role) != process]
        return [f"processes ended by themselves: {', '.join(sorted(others))}"] if others else []

    # --- what is done ----------------------------------------------------------------------------------------------

    async def _act(self, action: Action, before: Mapping[str, Process]) -> str:
        """Do it; what was wrong with it."""
        network, node = self._network, self._node
        if action.kind is Kind.REORG:
            await network.reorg(action.amount)
        elif action.kind is Kind.RESTART:
            await network.restart_engine(node, action.seconds, action.amount)
        elif action.kind is Kind.FAULT:
            await network.set_fault(node, action.target)
            try:
                await asyncio.sleep(action.seconds)
            finally:
                await network.set_fault(node, "")
        elif action.kind in (Kind.LEAVE, Kind.JOIN) or (action.target == SUPERVISOR and action.kind is Kind.KILL):
            return await self._absence(action)
        elif action.target not in before:
            return f"there is no process {action.target}"
        elif action.kind is Kind.KILL:
            network.send(before[action.target], signal.SIGKILL)
        elif action.kind is Kind.STOP:
            await self._stopped(before[action.target], action.seconds)
        else:
            return await self._hang(action.target, before[action.target])
        return ""

    async def _absence(self, action: Action) -> str:
        number = signal.SIGKILL if action.kind is Kind.KILL else signal.SIGTERM
        problem = await self._network.end(self._node, number)
        try:
            if action.kind is Kind.JOIN:
                self._network.erase(self._node)
                await self._network.restart_engine(self._node, 0.0, None)
            await asyncio.sleep(action.seconds)
        finally:
            self._network.start(self._node)
        return problem

    async def _stopped(self, process: Process, seconds: float) -> None:
        self._network.send(process, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._network.send(process, signal.SIGCONT)

    async def _hang(self, role: str, process: Process) -> str:
        """Stop a process until there is another one in its place."""
        self._network.send(process, signal.SIGSTOP)
        deadline = _now() + HANG_SECONDS
        try:
            while self._processes().get(role, process) == process:
                if _now() > deadline:
                    return f"the hanging process {role} was not replaced within {HANG_SECONDS:.0f} s"
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._network.send(process, signal.SIGCONT)
        return ""

    # --- what follows ----------------------------------------------------------------------------------------------

    async def _recovery(self, action: Action, before: Mapping[str, Process], ended: float) -> tuple[float | None, str]:
        """Return the seconds from the end of the action to the recovery, or None and what is missing."""
        target = max((self._network.safe(node) or 0 for node in self._network.nodes), default=0)
        bound = RECOVERY_SECONDS + (target / JOIN_BLOCKS_A_SECOND if action.kind is Kind.JOIN else 0.0)
        counted, last = 0.0, ended
        while True:
            missing = self._missing(action, before, target)
            now = _now()
            if not missing:
                return now - ended, ""
            if self._central:
                counted = now - max(ended, self._disturbed.ended)
            elif not self._disturbed.lanes:
                counted += now - last
            last = now
            if counted > bound:
                return None, f"no recovery within {bound:.0f} s: {missing}"
            await asyncio.sleep(POLL_SECONDS)

    @property
    def _settled(self) -> list[str]:
        return [node for node in self._network.nodes if node not in self._disturbed.joining]

    def _missing(self, action: Action, before: Mapping[str, Process], target: int) -> str:
        """Return what is missing to the recovery; empty for nothing."""
        for node in self._settled if self._node == L1 else (self._node,):
            safe = self._network.safe(node)
            if safe is None or safe <= target:
                return f"the safe head of {node} is {safe}, wanted is more than {target}"
        if self._node == L1:
            return ""
        now = self._processes()
        absent = [role for role in ROLES if role not in now]
        if absent:
            return f"no process {', '.join(absent)}"
        same = [role for role in _replaced(action) if role in before and now[role] == before[role]]
        return f"process {', '.join(sorted(same))} is the one from before" if same else ""


def _replaced(action: Action) -> frozenset[str]:
    """Return the roles whose processes an action ends."""
    if action.kind in (Kind.LEAVE, Kind.JOIN) or (action.kind is Kind.KILL and action.target == SUPERVISOR):
        return frozenset(ROLES)
    return frozenset({action.target}) if action.kind in (Kind.KILL, Kind.HANG) else frozenset()


def _now() -> float:
    return asyncio.get_running_loop().time()
