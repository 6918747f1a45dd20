"""The loop of `watch`: new games of each L1 head, and our judgement of those whose verdict is open [WAT8, WAT9]."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import orjson

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.protocol.hex_encoding import HexError, to_hex
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.types import ZERO_HASH, Hash
from rollup_node.tools.watch.games import (
    Anchor,
    Game,
    GameBook,
    Judgement,
    Verdict,
    judge,
    line,
    record,
    waits_for,
)
from rollup_node.tools.watch.l1_reader import FAILURES, L1Reader
from rollup_node.tools.watch.node_reader import OwnSide, View
from rollup_node.tools.watch.server import MONITOR, OWN, Pages, WatchMetrics, page

AT_ONCE = 200
"""Games that are judged in one step; the others follow in the next ones."""
NODE_FAILURES = (EndpointError, RpcFailure, HexError)


class Output(NamedTuple):
    """Where what is found goes: games as they are judged, notes, and `as_json` for games as JSON lines."""

    games: Callable[[str], None]
    notes: Callable[[str], None]
    as_json: bool = False


class Watch:
    """State: the games with their judgements, the anchor, and what fails now. `window`: seconds of the past.

    `clock` gives Unix seconds."""

    def __init__(
        self,
        l1: L1Reader,
        side: OwnSide,
        metrics: WatchMetrics,
        output: Output,
        window: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._l1, self._side, self._metrics, self._output = l1, side, metrics, output
        self._window, self._clock = window, clock
        self.book = GameBook()
        self.anchor: Anchor | None = None
        self._anchor_due, self._list_due = True, True
        self._anchor_judgement = Judgement(Verdict.NOT_YET)
        self._failures: dict[str, str] = {}
        self._view: View | None = None
        self._proven: bool | None = None
        self.pages = Pages(self._html, self._json, metrics.text)

    @property
    def is_caught_up(self) -> bool:
        """Whether L1 and the node have answered, and no game waits for its first judgement."""
        return self._view is not None and not self._list_due and not self._failures

    @property
    def has_disagreement(self) -> bool:
        """Whether we disagree with a claim or with the anchor."""
        return bool(self.book.count(Verdict.DISAGREE)) or self._anchor_judgement.verdict is Verdict.DISAGREE

    async def run(self, interval: float) -> None:
        """Take a step each interval, in seconds, for ever."""
        while True:
            began = time.monotonic()
            await self.step()
            sys.stdout.flush()
            await asyncio.sleep(max(0.0, interval - (time.monotonic() - began)))

    async def step(self) -> None:
        """Look at the node and at L1 once; what fails is looked at again in the next step [WAT9]."""
        try:
            self._view = await self._side.view()
            self._ended("node")
        except NODE_FAILURES as error:
            self._failed("node", str(error))
        try:
            await self._read_l1(None if self._view is None else self._view.proven_l1)
            self._ended("l1")
        except FAILURES as error:
            self._failed("l1", str(error))
        self._show_proof()
        if self._view is not None and "node" not in self._failures:
            try:
                await self._judge(self._view)
            except NODE_FAILURES as error:
                self._failed("node", str(error))
        self._show()

    async def _read_l1(self, proven: tuple[int, Hash] | None) -> None:
        advance = await self._l1.advance(proven)
        if advance is not None:
            self._list_due |= advance.gap
            self._anchor_due |= advance.anchor_moved
            for game in self.book.remove_blocks(advance.removed):
                self._output.notes(f"game {game.proxy} is gone: L1 was reorganized")
            for game in advance.games:
                self.book.add(game)
        if self._list_due:
            for game in await self._l1.games_since(int(self._clock() - self._window)):
                self.book.add(game)
            self._list_due = False
        if self._anchor_due:
            self.anchor = await self._l1.read_anchor()
            self._anchor_judgement = Judgement(Verdict.NOT_YET)
            self._anchor_due = False

    async def _judge(self, view: View) -> None:
        for game in self.book.open(view.finalized_l1)[:AT_ONCE]:
            judgement = waits_for(game, view.current_l1)
            if judgement is None and not self._side.compares(game):
                judgement = Judgement(Verdict.IGNORED, reason="a supernode has super roots only: give a node as --rpc")
            if judgement is None:
                judgement = await self._judgement(game, view)
            if self.book.judge(game, judgement):
                self._tell(game, judgement)
        if self.anchor is not None and self._anchor_judgement.verdict is Verdict.NOT_YET:
            await self._judge_anchor(self.anchor, view)

    async def _judgement(self, game: Game, view: View) -> Judgement:
        try:
            opinion = await self._side.opinion(game, view)
        except RpcFailure as failure:
            # Of this game alone: the others are asked about as well.
            return Judgement(Verdict.NOT_YET, missing=f"{self._side.name} answers: {one_line(str(failure))}")
        self._metrics.set(f"{MONITOR}_last_output_fetch", self._clock())
        return judge(game, opinion)

    async def _judge_anchor(self, anchor: Anchor, view: View) -> None:
        """Compare the anchor once it is set and our side has its block [WAT7]."""
        if anchor.root_claim == to_hex(ZERO_HASH):
            return
        root = await self._side.root(anchor.l2_sequence_number, view)
        if root is None:
            return
        ours = to_hex(root)
        verdict = Verdict.AGREE if ours == anchor.root_claim else Verdict.DISAGREE
        self._anchor_judgement = Judgement(verdict, ours)
        text = f"{verdict.value}: the anchor {anchor.address} is {anchor.root_claim} at {anchor.l2_sequence_number}"
        self._output.notes(text if verdict is Verdict.AGREE else f"{text}, ours is {ours}")

    def _show_proof(self) -> None:
        """Say whether the L1 blocks that are read are proven ones [WAT3]."""
        proven = self._view is not None and self._view.proven_l1 is not None
        if proven != self._proven:
            self._proven = proven
            text = "L1 is proven: by the node's checkpoint" if proven else "L1 is NOT proven"
            why = "" if proven else ": the node has no checkpoint, and the L1 endpoint is believed"
            self._output.notes(text + why)

    def _tell(self, game: Game, judgement: Judgement) -> None:
        if self._output.as_json:
            self._output.games(orjson.dumps(record(game, judgement)).decode())
        else:
            self._output.games(line(game, judgement))

    def _failed(self, endpoint: str, text: str) -> None:
        shown = one_line(text)
        if endpoint not in self._failures:
            self._output.notes(f"{endpoint} does not answer as it should, and is asked again: {shown}")
        self._failures[endpoint] = shown
        self._metrics.set(f"{OWN}_failing", 1, endpoint)

    def _ended(self, endpoint: str) -> None:
        if self._failures.pop(endpoint, None) is not None:
            self._output.notes(f"{endpoint} answers again")
            self._metrics.set(f"{OWN}_failing", 0, endpoint)

    # --- what is shown ---

    def _show(self) -> None:
        metrics, head = self._metrics, self._l1.head
        metrics.show(self.book)
        agrees = {Verdict.AGREE: 1, Verdict.DISAGREE: 0}.get(self._anchor_judgement.verdict, -1)
        metrics.set(f"{OWN}_anchor_agrees", agrees)
        metrics.set(f"{OWN}_l1_proven", int(bool(self._proven)))
        metrics.set(f"{OWN}_l1_head", 0 if head is None else head.header.number)
        if self.is_caught_up:
            metrics.set(f"{MONITOR}_up", 1)

    def _records(self) -> list[dict[str, object]]:
        return [record(game, judgement) for game, judgement in self.book][::-1]

    def _json(self) -> bytes:
        return orjson.dumps(self._records())

    def _html(self) -> str:
        return page(self.summary, self._records())

    @property
    def summary(self) -> str:
        """Return the state in one sentence."""
        head = self._l1.head
        counts = ", ".join(f"{self.book.count(verdict)} {verdict.value}" for verdict in Verdict)
        proof = "L1 is proven" if self._proven else "L1 is not proven"
        failing = "".join(f"; {name} fails: {text}" for name, text in self._failures.items())
        return f"L1 block {'?' if head is None else head.header.number}: {counts}; {proof}{failing}"
