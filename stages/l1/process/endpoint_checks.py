"""Probes the L1 endpoints that are set aside, and compares what all of them say of one block [LHD26, LHD27]."""

import asyncio
import time
from collections.abc import Callable

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.endpoint_pool import EndpointFault, View, compare, lower_number
from rollup_node.stages.l1.head_tracker import HeadTracker
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import L1BlockRef

log = Logger("l1")

DEPTH = 3
"""How far below the head the block is that endpoints are asked for: newer ones may not have reached all of them."""

COMPARE_SECONDS = 384.0
"""Between comparisons where safe and finalized block are not polled."""

STUCK_POLLS = 3
"""So many polls without a new head have the endpoints compared."""

HEADLESS_SECONDS = 5.0
"""Before a first comparison, while the head is not known yet."""

IDLE_SECONDS = 60.0


class EndpointChecks:
    """`disagreement` is what endpoints say otherwise of the same block, if no majority decides it.

    `on_due` is called when a comparison is due before the next step, `on_checked` after one."""

    def __init__(
        self, endpoints: L1Endpoints, tracker: HeadTracker, config: L1Config, on_checked: Callable[[], None]
    ) -> None:
        self._endpoints, self._tracker, self._on_checked = endpoints, tracker, on_checked
        self._heads_are_proven = config.checkpoint is not None
        self._interval = config.epoch_poll_interval if config.epoch_poll_interval > 0 else COMPARE_SECONDS
        self._stuck_seconds = STUCK_POLLS * max(config.poll_interval, 12.0)
        self._compare_at = self._head_at = time.monotonic()
        self._condition = LastingCondition(log, counts=False)
        self.disagreement: str | None = None
        self.on_due: Callable[[], None] = lambda: None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The disagreement as a health problem."""
        return () if self.disagreement is None else (Problem(Code.L1_DISAGREE, "", self.disagreement),)

    def on_new_head(self, reorged: bool) -> None:
        """Have the endpoints compared after a reorg."""
        self._head_at = time.monotonic()
        if reorged:
            self._compare_at = self._head_at
            self.on_due()

    async def step(self) -> float:
        """Probe and compare what is due; the seconds until the next step."""
        pool, now = self._endpoints.pool, time.monotonic()
        if len(self._endpoints.all) == 1:
            for index in pool.to_probe(now):
                self._endpoints.restore(index)
            return min(IDLE_SECONDS, pool.next_probe(now) or IDLE_SECONDS)
        if due := pool.to_probe(now):
            await asyncio.gather(*(self._probe(index) for index in due))
        is_stuck = now > self._head_at + self._stuck_seconds and now > self._compare_at - self._interval + IDLE_SECONDS
        if now >= self._compare_at or is_stuck:
            await self._compare()
        now = time.monotonic()
        pause = pool.next_probe(now)
        return min(IDLE_SECONDS, max(0.05, self._compare_at - now), IDLE_SECONDS if pause is None else max(0.05, pause))

    async def _probe(self, index: int) -> None:
        """Put an endpoint back into use if it answers, and has the same block as the one in use."""
        endpoint, block = self._endpoints.all[index], self._tracker.below_head(DEPTH)
        view = await self._view(endpoint, 0 if block is None else block.number)
        if view is None:
            return
        if block is None or view.block == block.hash:
            self._endpoints.restore(index)
        elif view.block is None:
            findings, _ = compare(block.number, {index: view}, time.time(), block.hash)
            self._endpoints.set_aside(endpoint, *findings[index])
        else:
            await self._compare_block(block)

    async def _compare(self) -> None:
        block = self._tracker.below_head(DEPTH)
        self._compare_at = time.monotonic() + (self._interval if block is not None else HEADLESS_SECONDS)
        if block is not None:
            await self._compare_block(block)

    async def _compare_block(self, block: L1BlockRef) -> None:
        """Set those endpoints aside that contradict the majority of those that answer, and put back those that do not.

        Without a majority none is set aside, so that the first of them is used."""
        number, views = block.number, await self._views(block.number)
        proven = block.hash if self._heads_are_proven else None
        findings, self.disagreement = compare(number, views, time.time(), proven)
        if proven is None and (lower := lower_number(views, time.time())) is not None:
            lower_views = await self._views(lower)
            others, disagreement = compare(lower, lower_views, time.time())
            if disagreement is not None or any(one.fault is EndpointFault.FORKED for one in others.values()):
                number, views, findings, self.disagreement = lower, lower_views, others, disagreement
        for index, finding in findings.items():
            self._endpoints.set_aside(self._endpoints.all[index], finding.fault, finding.reason)
        for index in views.keys() - findings.keys():
            verdict = self._endpoints.pool.verdicts[index]
            if verdict is not None and verdict.fault in (
                EndpointFault.FORKED,
                EndpointFault.UNPROVEN,
                EndpointFault.BEHIND,
                EndpointFault.OTHER_CHAIN,
            ):
                self._endpoints.restore(index)
        if self.disagreement is not None:
            said = ", ".join(f"{self._endpoints.all[index].name} {_said(view)}" for index, view in views.items())
            self._condition.report(Code.L1_DISAGREE, "the L1 endpoints disagree", block=number, answers=said)
        else:
            self._condition.end("the L1 endpoints agree again", block=number)
        self._on_checked()

    async def _views(self, number: int) -> dict[int, View]:
        """Return what the endpoints that answer have, by index."""
        result = await asyncio.gather(*(self._view(endpoint, number) for endpoint in self._endpoints.all))
        return {index: view for index, view in enumerate(result) if view is not None}

    async def _view(self, endpoint: L1Endpoint, number: int) -> View | None:
        """Return what an endpoint has; None if it does not answer, for which it is set aside."""
        try:
            return await endpoint.view(number)
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            self._endpoints.failed(endpoint, error)
            return None


def _said(view: View) -> str:
    return "has none" if view.block is None else f"has {to_hex(view.block)}"
