"""Polls the L1 head, safe and finalized block [LHD3, LHD5, LHD6]."""

import asyncio
import time
from collections.abc import Callable

from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, RpcFailure
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.head_tracker import HeadChange, HeadTracker, NewestBlock, NewestBody
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints, header_json_in
from rollup_node.stages.l1.receipts import is_unsupported
from rollup_node.stages.l1.verify import verify_block_ref
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import ORDINARY_L1_BLOCK
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef

log = Logger("l1")

LABELS = ("safe", "finalized")
STUCK_SECONDS = 300.0
UNFINALIZED_SECONDS = 3600.0
DISPROOFS = 3
"""How many polls in a row, at least one for each endpoint, must disprove the finalized block before it is dropped."""

DROPPED_SECONDS = 3.0
"""After a drop there is no finalized block for so long, so that every process sees that [FIN9]."""

FRESH_SECONDS = 600.0
"""A head of at most this age is the chain's: it cannot be that of an endpoint that is far behind."""


SUBSCRIBED_POLL_SECONDS = 60.0
"""So long after the last poll the head is polled although the endpoint says when there is a new one: if there was one,
the subscription is made again [LHD4]."""

MIN_SECONDS = 0.1
"""Between two polls, however many heads an endpoint says there are."""


class HeadPoller:
    """Feeds a tracker, and `newest` with the answers to polls that ask for the whole block.

    `on_new_head` is called after the head changed, with whether that was a reorg; `on_polled` after each poll of safe
    and finalized block. `contradiction` is what the last finalized block contradicts, if it does. A block that does not
    link to the known heads may come from another chain behind the same URL: then the endpoint is asked for its chain id
    and for the block at the height of the finalized one. A finalized block that the chain disproves again and again is
    dropped [LHD23]."""

    def __init__(
        self,
        config: L1Config,
        endpoints: L1Endpoints,
        tracker: HeadTracker,
        newest: NewestBlock[L1Endpoint],
        meter: Meter,
        on_new_head: Callable[[bool], None],
        on_polled: Callable[[], None],
    ) -> None:
        self._config, self._endpoints, self._tracker, self._meter = config, endpoints, tracker, meter
        self._newest = newest
        self._on_new_head, self._on_polled = on_new_head, on_polled
        self.contradiction: str | None = None
        self._disproofs = self._label_disproofs = 0
        self._was_dropped, self._dropped_at = False, float("-inf")
        self._lags = False
        """Whether the last endpoint's finalized block is below the known one."""
        self._changed_at = self._finalized_at = time.monotonic()
        self._finalized: tuple[L1BlockRef | None, L1BlockRef | None] = None, None
        self._stale, self._contradicted = LastingCondition(log), LastingCondition(log)
        self._unfinalized = LastingCondition(log)
        self._polled_at, self._notifications = float("-inf"), 0

    async def poll_head(self) -> float:
        """Poll the latest block; the seconds until the next poll, which a notification of the endpoint may end.

        Raises TemporaryError if that fails, or if the block is below the finalized one or on another chain."""
        notifier = await self._subscribe()
        await self._update_head(notifier)
        interval = self._config.poll_interval
        if notifier is not None:
            return max(SUBSCRIBED_POLL_SECONDS, interval)
        return interval if interval > 0 else SUBSCRIBED_POLL_SECONDS

    async def _subscribe(self) -> L1Endpoint | None:
        """Return the endpoint in use if it says when there is a new head; None if it has to be polled."""
        endpoint, notifies = await self._endpoints.ask("L1 newest block", L1Endpoint.subscribe_heads)
        if not notifies:
            return None
        await asyncio.sleep(max(0.0, self._polled_at + MIN_SECONDS - time.monotonic()))
        return endpoint

    async def _resubscribe(self, notifier: L1Endpoint) -> None:
        """Make a subscription again that has missed a head."""
        now = time.monotonic()
        missed = notifier.notifications == self._notifications and now > self._polled_at + SUBSCRIBED_POLL_SECONDS / 2
        if missed and self._polled_at > float("-inf"):
            text = "the L1 endpoint did not notify of a new head: it is subscribed again"
            log.warn(text, code=Code.L1_SUBSCRIPTION.text, endpoint=notifier.name)
            await notifier.reconnect()

    async def _update_head(self, notifier: L1Endpoint | None) -> None:
        endpoint, (ref, body) = await self._poll_newest(notifier)
        if ref is None:
            raise TemporaryError(f"{endpoint.name}: the L1 endpoint has no latest block", Code.L1_BLOCK)
        before, finalized = self._tracker.head, self._tracker.finalized
        below = finalized is not None and ref.number <= finalized.number
        if ref != before and (below or not self._tracker.links(ref)):
            await self._check_unlinked_head(endpoint, ref)
        self._disproofs = 0
        change = self._tracker.update_head(ref)
        if notifier is not None:
            if change is not HeadChange.SAME:
                await self._resubscribe(notifier)
            self._polled_at, self._notifications = time.monotonic(), notifier.notifications
        self._changed(change, before, ref, None if body is None else NewestBody(endpoint, ref.number, body))

    def take_head(self, ref: L1BlockRef) -> None:
        """Take a proven head, in place of polls of the latest block [LCP14]."""
        before = self._tracker.head
        self._changed(self._tracker.update_head(ref), before, ref, None)

    def finality_proven(self) -> None:
        """Take note of a proven finalized block, in place of polls of the label [LCP14]."""
        self._watch_finality()
        self._on_polled()

    def _changed(
        self, change: HeadChange, before: L1BlockRef | None, ref: L1BlockRef, body: NewestBody[L1Endpoint] | None
    ) -> None:
        self._watch_progress(change)
        if change in (HeadChange.ADVANCED, HeadChange.REORGED):
            reorged = change is HeadChange.REORGED
            self._newest.advanced(before, ref)
            # Without a body, too: an answer not yet taken may have a block that this head replaces.
            self._newest.put(body)
            log.trace("new L1 head", head=ref)
            if reorged:
                self._endpoints.recheck_chains()
                self._meter.observe("l1_reorg_depth", self._tracker.reorg_depth)
                depth = self._tracker.reorg_depth
                log.warn("L1 reorg", code=Code.L1_REORG.text, old=before, new=ref, min_depth=depth)
            self._on_new_head(reorged or self._was_dropped)
            self._was_dropped = False

    async def _poll_newest(
        self, notifier: L1Endpoint | None
    ) -> tuple[L1Endpoint, tuple[L1BlockRef | None, bytes | None]]:
        """Return the endpoint in use, its newest reference, and the full answer if asked for. Raises TemporaryError."""
        notified = notifier is not None and notifier.notifications != self._notifications
        pays = self._newest.pays(self._tracker.head, notified)

        async def newest_of(endpoint: L1Endpoint) -> tuple[L1BlockRef | None, bytes | None]:
            body = None
            try:
                if pays and (body := await endpoint.block_body("latest", ORDINARY_L1_BLOCK)) is None:
                    return None, None
            except AnswerTooLargeError:
                pass
            header = await endpoint.block_json("latest") if body is None else header_json_in(body, ORDINARY_L1_BLOCK)
            return None if header is None else verify_block_ref(header, self._config.trust_rpc), body

        return await self._endpoints.ask("L1 latest block", newest_of)

    async def poll_finality(self) -> float:
        """Poll the safe and the finalized block; the seconds until the next poll. Raises TemporaryError."""
        (endpoint, safe), (also, finalized) = await self._ask("safe"), await self._ask("finalized")
        contradiction, self._lags = None, False
        if endpoint is also and (safe is not None or finalized is not None):
            await self._endpoints.ask("L1 chain id", L1Endpoint.check_chain, endpoint)
            contradiction = await self._take_labels(endpoint, safe, finalized)
        if contradiction is None:
            self._contradicted.end("L1's finalized block is on its chain again", finalized=self._tracker.finalized)
        self.contradiction = contradiction
        self._watch_finality()
        self._on_polled()
        interval = self._config.epoch_poll_interval
        is_newest = self._tracker.finalized is not None and contradiction is None and not self._lags
        return interval if is_newest else min(interval, max(self._config.poll_interval, 1.0))

    async def _take_labels(
        self, endpoint: L1Endpoint, safe: L1BlockRef | None, finalized: L1BlockRef | None
    ) -> str | None:
        """Take the blocks of the labels as far as they are on the known chain; what they contradict, if anything."""
        if finalized is not None and await self._is_above_head(endpoint, finalized):
            text = f"finalized L1 block {finalized} is above the head {self._tracker.head}"
            return self._refuse(endpoint, text, EndpointFault.BEHIND)
        if safe is not None and not await self._is_above_head(endpoint, safe) and self._tracker.update_safe(safe):
            log.debug("new L1 safe block", block=safe)
        known = self._tracker.finalized
        if finalized is not None and finalized == known:
            self._label_disproofs = 0
            return None
        if finalized is None or time.monotonic() < self._dropped_at + DROPPED_SECONDS:
            return None
        if await self._block_at(endpoint, finalized.number) != finalized:
            return self._refuse(endpoint, f"finalized L1 block {finalized} is not on the endpoint's own chain")
        if known is not None and await self._contradicts(endpoint, known, finalized):
            self._label_disproofs += 1
            if self._label_disproofs >= self._needed_disproofs:
                self._drop_finalized(finalized)
            text = f"finalized L1 block {known} is not on the chain of {finalized}: another chain"
            return self._refuse(endpoint, text)
        self._label_disproofs = 0
        if known is not None and finalized.number < known.number:
            text = f"its finalized block {finalized} is below {known}, which was finalized before"
            self._endpoints.set_aside(endpoint, EndpointFault.BEHIND, text)
            self._lags = True
            return None
        error = self._tracker.update_finalized(finalized)
        if error is not None:
            return self._refuse(endpoint, error)
        log.debug("new L1 finalized block", block=finalized)
        return None

    async def _contradicts(self, endpoint: L1Endpoint, known: L1BlockRef, polled: L1BlockRef) -> bool:
        """Whether the endpoint has another finalized block; one that is far behind has none at that height."""
        if polled.number < known.number:
            return (await self._ref(endpoint, hex(known.number)) or known) != known
        return await self._block_at(endpoint, known.number) != known

    def _refuse(self, endpoint: L1Endpoint, text: str, fault: EndpointFault = EndpointFault.FORKED) -> str:
        """Log what a finalized block contradicts, and has another endpoint asked."""
        self._contradicted.report(Code.L1_CONTRADICTS, "L1's finalized block is refused", error=text)
        self._endpoints.recheck_chains()
        self._endpoints.set_aside(endpoint, fault, text)
        return text

    async def _is_above_head(self, endpoint: L1Endpoint, ref: L1BlockRef) -> bool:
        """Whether a block is above the head, which is polled if it seems so: the labels may be polled more often."""
        head = self._tracker.head
        if head is not None and ref.number > head.number:
            await self.poll_head()
        head = self._tracker.head or await self._ref(endpoint, "latest")
        return head is None or ref.number > head.number

    async def _check_unlinked_head(self, endpoint: L1Endpoint, ref: L1BlockRef) -> None:
        """Check the chain id for a head that does not build on the known ones, its age, and the finalized block.

        Raises TemporaryError if it is far behind, or if its chain does not have the finalized block, until so many
        polls have disproved that that it is dropped."""
        await self._endpoints.ask("L1 chain id", L1Endpoint.check_chain, endpoint)
        head, finalized = self._tracker.head, self._tracker.finalized
        if finalized is None and head is not None and _is_far_behind(ref, head):
            text = f"L1 head {ref} is {head.timestamp - ref.timestamp} s older than {head}: the endpoint is far behind"
            self._endpoints.set_aside(endpoint, EndpointFault.BEHIND, text)
            raise TemporaryError(text, Code.L1_CONTRADICTS)
        if finalized is None or ref == finalized:
            return
        if ref.number < finalized.number:
            disproved = _is_fresh(ref)
            text = (
                f"L1 head {ref} is below the finalized block {finalized}: "
                "the endpoint is far behind, or on another chain"
            )
        else:
            result = ref if ref.number == finalized.number else await self._ref(endpoint, hex(finalized.number))
            if result == finalized:
                return
            disproved = result is not None
            text = f"the chain of L1 head {ref} does not have the finalized block {finalized}, but {result}"
        self._disproofs = self._disproofs + 1 if disproved else 0
        if self._disproofs >= self._needed_disproofs:
            self._drop_finalized(ref)
            return
        self._endpoints.recheck_chains()
        is_behind = ref.number < finalized.number
        self._endpoints.set_aside(endpoint, EndpointFault.BEHIND if is_behind else EndpointFault.FORKED, text)
        raise TemporaryError(text, Code.L1_CONTRADICTS)

    @property
    def _needed_disproofs(self) -> int:
        return max(DISPROOFS, 2 * len(self._endpoints.all))

    def _drop_finalized(self, by: L1BlockRef) -> None:
        text = "L1's finalized block is disproved and dropped"
        log.warn(text, code=Code.L1_CONTRADICTS.text, finalized=self._tracker.finalized, by=by)
        self._tracker.drop_finalized()
        self._label_disproofs, self._was_dropped, self._dropped_at = 0, True, time.monotonic()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The health problems of the heads: a finalized block that contradicts, a head that stands still."""
        problems = [] if self.contradiction is None else [Problem(Code.L1_CONTRADICTS, "", self.contradiction)]
        if (seconds := self._stuck_seconds()) is not None:
            text = f"the L1 head {self._tracker.head} has not changed for {seconds:.0f} s"
            problems.append(Problem(Code.L1_STALE, "", text))
        return tuple(problems)

    def _stuck_seconds(self) -> float | None:
        """For how long the head has not changed; None if that is not long."""
        seconds = time.monotonic() - self._changed_at
        if self._tracker.head is None:
            return None
        return seconds if seconds > max(STUCK_SECONDS, 5 * self._config.poll_interval) else None

    def _watch_progress(self, change: HeadChange) -> None:
        """Warn if the head has not changed for long."""
        # A balancer before nodes that are stuck may show an ancestor in turn with the head.
        if change in (HeadChange.ADVANCED, HeadChange.REORGED):
            self._changed_at = time.monotonic()
            self._stale.end("the L1 head changes again", head=self._tracker.head)
        elif (seconds := self._stuck_seconds()) is not None:
            text = "L1 head does not change"
            self._stale.report(Code.L1_STALE, text, head=self._tracker.head, seconds=round(seconds))

    def _watch_finality(self) -> None:
        """Warn if the finalized block has not changed for long, although the head has."""
        head, finalized, now = self._tracker.head, self._tracker.finalized, time.monotonic()
        if finalized != self._finalized[0] or finalized is None:
            self._finalized, self._finalized_at = (finalized, head), now
            self._unfinalized.end("L1 finalizes again", finalized=finalized)
        elif now - self._finalized_at > UNFINALIZED_SECONDS and head != self._finalized[1]:
            self._unfinalized.report(
                Code.FINALITY_STALE, "L1's finalized block does not change", finalized=finalized, head=head
            )

    async def _ask(self, label: str, endpoint: L1Endpoint | None = None) -> tuple[L1Endpoint, L1BlockRef | None]:
        """Return the endpoint in use, or the given one, and the verified reference of a label's block from it.

        None if it has none or does not support the label. Raises TemporaryError if the call fails."""

        async def ref_of(endpoint: L1Endpoint) -> L1BlockRef | None:
            try:
                block = await endpoint.block_json(label)
            except RpcFailure as error:
                if label not in LABELS or not is_unsupported(error.code, error.message):
                    raise
                log.debug("the L1 endpoint does not support a label", label=label, error=error)
                return None
            return None if block is None else verify_block_ref(block, self._config.trust_rpc)

        return await self._endpoints.ask(f"L1 {label} block", ref_of, endpoint)

    async def _block_at(self, endpoint: L1Endpoint, number: int) -> L1BlockRef:
        """Return the endpoint's canonical block of a number. Raises TemporaryError if it has none or the call fails."""
        result = await self._ref(endpoint, hex(number))
        if result is None:
            text = f"{endpoint.name}: does not have L1 block {number}, although its head is higher"
            raise TemporaryError(text, Code.L1_BLOCK)
        return result

    async def _ref(self, endpoint: L1Endpoint, number: str) -> L1BlockRef | None:
        return (await self._ask(number, endpoint))[1]


def _is_fresh(ref: L1BlockRef) -> bool:
    return abs(time.time() - ref.timestamp) < FRESH_SECONDS


def _is_far_behind(ref: L1BlockRef, head: L1BlockRef) -> bool:
    """Whether a block is not the head of the chain of a known head, but of an endpoint that lacks much of it."""
    return ref.number < head.number and head.timestamp - ref.timestamp >= FRESH_SECONDS and not _is_fresh(ref)
