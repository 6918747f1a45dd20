"""Polls the L1 head, safe and finalized block [LHD3, LHD5, LHD6]."""

import time
from collections.abc import Callable

from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.head_tracker import HeadChange, HeadTracker
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints, describe_error
from rollup_node.stages.l1.receipts_methods import is_unsupported
from rollup_node.stages.l1.verify import InvalidDataError, verify_block_ref
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef

log = get_logger("l1")

STUCK_SECONDS = 300.0


class HeadPoller:
    """Feeds a tracker. `on_new_head` is called after the head changed, with whether that was a reorg; `on_polled` after
    each poll of safe and finalized block. `contradiction` is what the last finalized block contradicts, if it does."""

    def __init__(
        self,
        config: L1Config,
        endpoints: L1Endpoints,
        tracker: HeadTracker,
        meter: Meter,
        on_new_head: Callable[[bool], None],
        on_polled: Callable[[], None],
    ) -> None:
        self._config, self._endpoints, self._tracker, self._meter = config, endpoints, tracker, meter
        self._on_new_head, self._on_polled = on_new_head, on_polled
        self.contradiction: str | None = None
        self._changed_at, self._is_stuck = time.monotonic(), False

    async def poll_head(self) -> float:
        """Polls the latest block; the seconds until the next poll. Raises TemporaryError if that fails, or if the block
        is below the finalized one."""
        ref = await self._poll("latest")
        if ref is None:
            raise TemporaryError("the L1 endpoint has no latest block")
        before = self._tracker.head
        change = self._tracker.update_head(ref)
        if change is HeadChange.BELOW_FINALIZED:
            # The endpoint may be a proxy that now answers from another node, or from another chain.
            self._endpoints.recheck_chains()
            self._endpoints.use_next()
            raise TemporaryError(
                f"L1 head {ref} is below the finalized block {self._tracker.finalized}: "
                "the endpoint is far behind, or on another chain"
            )
        self._watch_progress(change)
        if change in (HeadChange.ADVANCED, HeadChange.REORGED):
            reorged = change is HeadChange.REORGED
            log.trace("new L1 head", head=ref)
            if reorged:
                self._endpoints.recheck_chains()
                self._meter.observe("l1_reorg_depth", self._tracker.reorg_depth)
                log.warn("L1 reorg", old=before, new=ref, min_depth=self._tracker.reorg_depth)
            self._on_new_head(reorged)
        return self._config.poll_interval

    async def poll_finality(self) -> float:
        """Polls the safe and the finalized block; the seconds until the next poll. Raises TemporaryError if that
        fails."""
        safe, finalized = await self._poll("safe"), await self._poll("finalized")
        if safe is not None and self._tracker.update_safe(safe):
            log.debug("new L1 safe block", block=safe)
        contradiction = None
        if finalized is not None:
            before = self._tracker.finalized
            contradiction = self._tracker.update_finalized(finalized)
            if contradiction is not None and contradiction != self.contradiction:
                log.error(contradiction)
            elif finalized != before:
                log.debug("new L1 finalized block", block=finalized)
        self.contradiction = contradiction
        self._on_polled()
        interval = self._config.epoch_poll_interval
        return interval if self._tracker.finalized else min(interval, max(self._config.poll_interval, 1.0))

    def _watch_progress(self, change: HeadChange) -> None:
        """Warns, once, if the head has not changed for long."""
        now = time.monotonic()
        if change is not HeadChange.SAME:
            self._changed_at, self._is_stuck = now, False
        elif not self._is_stuck and now - self._changed_at > max(STUCK_SECONDS, 5 * self._config.poll_interval):
            self._is_stuck = True
            log.warn("L1 head does not change", head=self._tracker.head, seconds=round(now - self._changed_at))

    async def _poll(self, label: str) -> L1BlockRef | None:
        """The verified reference of a label's block from the endpoint in use; None if it has none or does not support
        the label. Raises TemporaryError if the call fails."""
        endpoint: L1Endpoint | None = None
        try:
            endpoint = self._endpoints.pick()
            block = await endpoint.block_json(label)
            return None if block is None else verify_block_ref(block, self._config.trust_rpc)
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            if isinstance(error, RpcFailure) and label != "latest" and is_unsupported(error.code, error.message):
                log.debug("the L1 endpoint does not support a label", label=label, error=error)
                return None
            if endpoint is not None:
                self._endpoints.failed(endpoint, error)
            raise TemporaryError(f"L1 {label} block: {describe_error(endpoint, error)}") from None
