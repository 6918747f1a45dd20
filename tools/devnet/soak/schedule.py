"""The schedule of a soak: what happens to each node and to L1, and after which pause, as a function of the seed."""

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

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
