"""Dispute games and what we say of their claims, without I/O [WAT1 to WAT8].

Names are those of op-dispute-mon where they mean the same."""

from collections.abc import Iterable, Iterator
from enum import Enum

import msgspec

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash

OUTPUT_TYPES = frozenset((0, 1, 2, 3, 6, 8, 10, 254, 255, 1337))
"""Game types whose claim is an output root: op-dispute-mon's list."""
SUPER_TYPES = frozenset((4, 5, 7, 9))
"""Game types whose claim is a super root."""
MAX_SEQUENCE = (1 << 63) - 1
"""No block number or time is higher; a node could not be asked for it."""
INVALID_TRANSITION = "0x" + "00" * 32
"""The expected root of a claim where there can be none."""


class Verdict(Enum):
    """What we say of a claim; `IGNORED` is of a game whose type this watch cannot compare."""

    AGREE = "agree"
    DISAGREE = "disagree"
    NOT_YET = "not yet"
    IGNORED = "ignored"


class Game(msgspec.Struct, frozen=True, rename="camel"):
    """A game. `l2_sequence_number` is an L2 block, or for super roots a time in seconds.

    `block` is the L1 block in which it was created, 0 where that is unknown. `proven`: its data follow from the header
    of an L1 block that the node has proven [WAT3]. `problem`: why its data are unknown; they are zero then."""

    proxy: str
    game_type: int
    timestamp: int
    root_claim: str
    l1_head: str
    l1_head_num: int
    l2_sequence_number: int
    block: int = 0
    block_hash: str = ""
    proven: bool = False
    problem: str = ""


class Judgement(msgspec.Struct, frozen=True, rename="camel"):
    """A verdict, our root if there is one, and why; `missing` says what a verdict waits for."""

    verdict: Verdict
    expected_root_claim: str | None = None
    reason: str = ""
    missing: str = ""

    @property
    def agree_with_claim(self) -> bool | None:
        """Whether we agree; None without a verdict."""
        return {Verdict.AGREE: True, Verdict.DISAGREE: False}.get(self.verdict)


class Opinion(msgspec.Struct, frozen=True):
    """What our side says of a root: the L1 block up to which it has read.

    `root` is None where it has none at that block or time. `is_safe`: it follows from L1 up to the game's L1 head, None
    where that is unknown."""

    current_l1: int
    root: Hash | None
    is_safe: bool | None = None


UNKNOWN = Judgement(Verdict.NOT_YET, missing="the node has not been asked yet")


def waits_for(game: Game, current_l1: int) -> Judgement | None:
    """Return the judgement of a game that our side cannot be asked about yet, or need not be [WAT4, WAT5]."""
    if game.problem:
        return Judgement(Verdict.IGNORED, reason=game.problem)
    if game.game_type not in OUTPUT_TYPES | SUPER_TYPES:
        return Judgement(Verdict.IGNORED, reason=f"game type {game.game_type} is unknown here")
    if game.l2_sequence_number > MAX_SEQUENCE:
        return Judgement(Verdict.DISAGREE, INVALID_TRANSITION, "no block or time has such a number")
    if current_l1 <= game.l1_head_num:
        text = f"the node has read L1 up to block {current_l1}, the claim is about L1 block {game.l1_head_num}"
        return Judgement(Verdict.NOT_YET, missing=text)
    return None


def judge(game: Game, opinion: Opinion) -> Judgement:
    """Return the judgement of a game by what our side says of its block or time [WAT5, WAT6]."""
    early = waits_for(game, opinion.current_l1)
    if early is not None:
        return early
    if opinion.root is None:
        text = "nothing is derived there from the L1 data up to the game's L1 head"
        return Judgement(Verdict.DISAGREE, INVALID_TRANSITION, text)
    ours = to_hex(opinion.root)
    if ours != game.root_claim:
        return Judgement(Verdict.DISAGREE, ours, "the roots differ")
    if opinion.is_safe is None:
        return Judgement(Verdict.AGREE, ours, "the roots are equal; whether it was safe by then is unknown")
    if not opinion.is_safe:
        text = f"the roots are equal, but it does not follow from L1 up to the game's L1 head {game.l1_head_num}"
        return Judgement(Verdict.DISAGREE, INVALID_TRANSITION, text)
    return Judgement(Verdict.AGREE, ours, "the roots are equal")


class Anchor(msgspec.Struct, frozen=True, rename="camel"):
    """The anchor state on L1, and our judgement of it."""

    address: str
    root_claim: str
    l2_sequence_number: int


class GameBook:
    """Games by their address in the order in which they were created, each with its last judgement.

    At most `most` are kept: the oldest that is final leaves first."""

    def __init__(self, most: int = 10_000) -> None:
        self._games: dict[str, tuple[Game, Judgement]] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._games)

    def __iter__(self) -> Iterator[tuple[Game, Judgement]]:
        return iter(self._games.values())

    def add(self, game: Game) -> None:
        """Add a game without a judgement; one that is known stays as it is."""
        self._games.setdefault(game.proxy, (game, UNKNOWN))
        while len(self._games) > self._most:
            del self._games[next(iter(self._games))]

    def remove_blocks(self, hashes: Iterable[str]) -> list[Game]:
        """Remove the games of L1 blocks that are no longer canonical, and return them [WAT8]."""
        gone = set(hashes)
        removed = [game for game, _ in self if game.block_hash in gone]
        for game in removed:
            del self._games[game.proxy]
        return removed

    def open(self, finalized_l1: int) -> list[Game]:
        """Return the games whose judgement may change: without a verdict, or after L1's finalized block [WAT8]."""
        return [
            game
            for game, judgement in self
            if judgement.verdict is Verdict.NOT_YET
            or (judgement.verdict is not Verdict.IGNORED and game.l1_head_num >= finalized_l1)
        ]

    def judge(self, game: Game, judgement: Judgement) -> bool:
        """Set a judgement; whether its verdict or our root changed."""
        _, before = self._games[game.proxy]
        self._games[game.proxy] = game, judgement
        return (before.verdict, before.expected_root_claim) != (judgement.verdict, judgement.expected_root_claim)

    def count(self, verdict: Verdict) -> int:
        """Return how many games have this verdict."""
        return sum(judgement.verdict is verdict for _, judgement in self)


def record(game: Game, judgement: Judgement) -> dict[str, object]:
    """Return a game as a JSON object."""
    return {
        "proxy": game.proxy,
        "gameType": game.game_type,
        "timestamp": game.timestamp,
        "l1Head": game.l1_head,
        "l1HeadNum": game.l1_head_num,
        # JSON of many programs has no number of more bits.
        "l2SequenceNumber": min(game.l2_sequence_number, MAX_SEQUENCE),
        "rootClaim": game.root_claim,
        "verdict": judgement.verdict.value,
        "agreeWithClaim": judgement.agree_with_claim,
        "expectedRootClaim": judgement.expected_root_claim,
        "reason": judgement.reason,
        "missing": judgement.missing,
        "proven": game.proven,
    }


def line(game: Game, judgement: Judgement) -> str:
    """Return a game as a line of text."""
    kind = "super root of time" if game.game_type in SUPER_TYPES else "output root of block"
    none = judgement.expected_root_claim == INVALID_TRANSITION
    shown = f", ours is {'none' if none else judgement.expected_root_claim}"
    ours = shown if judgement.verdict is Verdict.DISAGREE else ""
    why = judgement.missing or judgement.reason
    return (
        f"{judgement.verdict.value}: game {game.proxy} type {game.game_type} claims {game.root_claim}"
        f" as the {kind} {game.l2_sequence_number}{ours}" + (f" ({why})" if why else "")
    )
