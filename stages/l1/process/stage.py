"""The l1 process: polls the heads, and fetches, verifies and sends the blocks that derivation and engine request."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rollup_node.ipc.bus.bus import Bus, ProcessId, Server
from rollup_node.stages.io.http.jsonrpc import carries_notifications
from rollup_node.stages.io.log.lasting_conditions import LastingCondition, RepeatedWarnings
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter, show_l1_block
from rollup_node.stages.io.task import LATE_SECONDS, PacedPublisher, PeriodicTask, Stage
from rollup_node.stages.l1.block_subscription import BlockSubscription
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.head_tracker import HeadTracker, NewestBlock
from rollup_node.stages.l1.prefetch_window import PrefetchWindow, grouped, memory_of
from rollup_node.stages.l1.process.block_fetcher import BlockFetcher, FetchResult
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.process.endpoint_checks import EndpointChecks
from rollup_node.stages.l1.process.head_poller import HeadPoller
from rollup_node.stages.l1.process.proof_poller import ProofPoller
from rollup_node.stages.l1.process.refs_client import RefsReader
from rollup_node.stages.l1.process.runtime_config_client import RuntimeConfigReader
from rollup_node.stages.l1.proof import HIDE_SECONDS, Standing
from rollup_node.stages.messages.base import Endpoints, Health, Problem, QueueLength
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1Heads, L1RefsRequest
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import L1BlockRef

log = Logger("l1")

IDLE_SECONDS = 5.0
RESEND_SECONDS = 0.1
GONE_SECONDS = 5.0
"""A client that cannot be sent anything for so long is forgotten until it asks again: its process does not run."""
MAX_SERVED = 4096
"""L1 blocks of which it is known where they are from."""
BLOCKS = "blocks"
DERIVATION = "l1.blocks"
"""The channel of derivation; the engine reads origins on the other."""


@dataclass
class _Client:
    """A process that requests blocks of the rollup at an index; `derivation` is the chain id of one that derives."""

    process: ProcessId
    rollup: int
    derivation: int | None
    server: Server
    subscription: BlockSubscription
    looked_up: int = -1
    """The last block that a request began with, of those that exist."""
    unreachable_since: float | None = None


def _is_gone(client: _Client) -> bool:
    since = client.unreachable_since
    return since is not None and time.monotonic() - since > GONE_SECONDS


_HANGS = Problem(Code.L1_UNREACHABLE, "head", f"L1 has not answered for {LATE_SECONDS:g} s")


class L1Stage(Stage):
    """State: the heads, the window of blocks, a subscription per client, and the running fetches."""

    new_fetcher: Callable[..., BlockFetcher] = BlockFetcher
    new_refs: Callable[..., RefsReader] = RefsReader

    def __init__(self, config: L1Config, bus: Bus, meter: Meter) -> None:
        self._config, self._meter = config, meter
        self._shown: dict[str, L1BlockRef] = {}
        for flag in ("true", "false"):
            meter.count("l1_source_cache_get", 0, type=BLOCKS, hit=flag)
            meter.count("l1_source_cache_add", 0, type=BLOCKS, evicted=flag)
        self._endpoints = L1Endpoints(config, meter, self._on_notification)
        self._tracker = HeadTracker()
        most_blocks = config.cache_size or max(rollup.seq_window_size for rollup in config.rollups) * 3 // 2
        self._window = PrefetchWindow(most_blocks, config.cache_bytes, len(config.rollups))
        self._rollups = {str(rollup.l2_chain_id): index for index, rollup in enumerate(config.rollups)}
        self._clients: dict[tuple[str, int], _Client] = {}
        self._missing = LastingCondition(log, counts=False)
        polls = config.poll_interval > 0 or any(carries_notifications(url) for url in config.endpoints)
        self._polling = config.checkpoint is not None or polls
        self._head_task: PeriodicTask | None = None
        self._blocks = PeriodicTask("blocks", self._step_blocks)
        self._publisher = bus.publish("status.l1")
        self._counts = PacedPublisher(self._publisher.set)
        newest = NewestBlock[L1Endpoint](config.poll_interval, self._is_awaited)
        self._workers = bus.dispatch("work.l1")
        self._fetcher = self.new_fetcher(config, self._endpoints, newest, self._workers, self._blocks.wake.set)
        self._poller = HeadPoller(
            config, self._endpoints, self._tracker, newest, meter, self._on_new_head, self._on_finality_polled
        )
        self._prover = self._new_prover(meter)
        self._proof = None if self._prover is None else self._prover.proof
        if self._proof is not None:
            self._proof.on_hidden = self._on_hidden
        self._served: dict[int, L1Endpoint] = {}
        self._forgers = RepeatedWarnings(log)
        refs = PeriodicTask("references", lambda: self._refs.step(self._origins.send))
        self._refs = self.new_refs(config, self._endpoints, refs.wake.set, self._proof)
        self._checks = EndpointChecks(self._endpoints, self._tracker, config, self.publish_health)
        checks = PeriodicTask("endpoints", self._checks.step)
        self._checks.on_due = self._endpoints.on_set_aside = checks.wake.set
        self.periodic_tasks: Sequence[PeriodicTask] = [self._blocks, *self._pollers(), refs, checks]
        self._serve(bus, DERIVATION, lambda rollup: BlockSubscription(config.confirmations(rollup), config.window, 0.5))
        self._origins = self._serve(bus, "l1.origins", lambda _: BlockSubscription(0, 0, resend_after=0.2))

    def _new_prover(self, meter: Meter) -> ProofPoller | None:
        """Return what proves the heads; None where the endpoints are believed."""
        if self._config.checkpoint is None:
            return None
        on_proven = self._blocks.wake.set
        rollups = [rollup.l2_chain_id for rollup in self._config.rollups if self._config.derives]
        return ProofPoller(
            self._config.checkpoint, rollups, self._endpoints, self._tracker, self._poller, meter, on_proven
        )

    def _pollers(self) -> list[PeriodicTask]:
        tasks: list[PeriodicTask] = []
        if self._prover is not None:
            tasks.append(PeriodicTask("head", self._prover.step))
            self._prover.wake = tasks[-1].wake.set
        elif self._polling:
            self._head_task = PeriodicTask("head", self._poller.poll_head, late=_HANGS)
            tasks.append(self._head_task)
        if self._config.epoch_poll_interval > 0 and self._prover is None:
            tasks.append(PeriodicTask("finality", self._poller.poll_finality))
        if self._config.runtime_config:
            reader = RuntimeConfigReader(
                self._config, self._endpoints, self._head_number, self._publisher.set, self._proof
            )
            tasks.append(PeriodicTask("runtime config", reader.step))
        return tasks

    async def start(self) -> None:
        """Log the configuration; connections are opened by the first call."""
        names = ", ".join(endpoint.name for endpoint in self._endpoints.all)
        log.info("following L1", endpoints=names, chain=self._config.rollups[0].l1_chain_id)
        if not self._polling:
            log.warn("the L1 head is not polled: l1.http-poll-interval is 0", code=Code.L1_NOT_POLLED.text)
        if self._prover is not None:
            log.info("L1 is proven from a checkpoint", **self._prover.description)
        elif self._config.epoch_poll_interval <= 0:
            text = "L1 finality is not polled: l1.epoch-poll-interval is 0 or less, so L2 will not be finalized"
            log.warn(text, code=Code.L1_NOT_POLLED.text)

    async def close(self) -> None:
        """Cancel the fetches and close the connections."""
        await self._fetcher.close()
        if self._prover is not None:
            await self._prover.close()
        await self._endpoints.close()

    def _on_notification(self) -> None:
        if self._head_task is not None:
            self._head_task.wake.set()

    def _on_new_head(self, reorged: bool) -> None:
        head, finalized = self._tracker.head, self._tracker.finalized
        if head is not None:
            self._window.update_head(head, reorged, finalized.number if finalized else -1)
        self._checks.on_new_head(reorged)
        self._publish_heads()
        self._blocks.wake.set()

    def _is_awaited(self, number: int) -> bool:
        """Whether a client wants that block next, once it is the head."""
        return any(client.subscription.awaits(number) for client in self._clients.values())

    def _on_finality_polled(self) -> None:
        self.publish_health()
        self._publish_heads()

    def _publish_heads(self) -> None:
        tracker = self._tracker
        for name, ref in (("l1_head", tracker.head), ("l1_safe", tracker.safe), ("l1_finalized", tracker.finalized)):
            if ref is not None and self._shown.get(name) != ref:
                self._shown[name] = ref
                show_l1_block(self._meter, name, ref)
        finalized = tracker.finalized if self._proof is None or self._proof.shows_finality else None
        self._publisher.set(L1Heads(tracker.head, tracker.safe, finalized))
        if self._prover is not None and (proof := self._prover.newest()) is not None:
            self._publisher.set(proof)

    def _head_number(self) -> int | None:
        return self._tracker.head.number if self._tracker.head else None

    def _no_head_error(self) -> Problem | None:
        """Why the head is unknown; None if it is not polled, so that all numbers count as visible."""
        if not self._polling:
            return None
        return next(iter(self.runtime_problems), Problem(None, "", "the L1 head is not known yet"))

    def _serve(self, bus: Bus, channel: str, new_subscription: Callable[[RollupConfig], BlockSubscription]) -> Server:
        def on_request(process: ProcessId, request: L1BlocksRequest | L1RefsRequest) -> None:
            if isinstance(request, L1RefsRequest):
                self._refs.request(process, request)
                return
            client = self._clients.get((channel, process.slot))
            # A new incarnation of a client does not have the blocks sent to the one before.
            if client is None or client.process != process:
                rollup = self._rollups.get(bus.group_of(process), 0)
                config = self._config.rollups[rollup]
                derivation = config.l2_chain_id if channel == DERIVATION else None
                client = _Client(process, rollup, derivation, server, new_subscription(config))
                self._clients[channel, process.slot] = client
            client.subscription.request(request.first, request.count, time.monotonic())
            if self._proof is not None and client.derivation is not None:
                self._proof.catch_ups[client.derivation].requested(request.first, request.taken)
            self._count_lookup(client, request.first)
            self._send_blocks(client)
            head = self._head_number()
            unavailable = client.subscription.unavailable(head, self._no_head_error(), self._window.failure)
            if unavailable is not None:
                server.send(process, unavailable)
            self._blocks.wake.set()

        server = bus.serve(channel, on_request)
        return server

    async def _step_blocks(self) -> float:
        """Take the results of fetches, sends requested blocks, starts the fetches that are due."""
        taken = sum([self._take(result) for result in self._fetcher.take_results()])
        head = self._head_number()
        all_sent = all([self._send_blocks(client) for client in self._clients.values()])
        self._clients = {key: client for key, client in self._clients.items() if not _is_gone(client)}
        ranges = []
        if head is not None or not self._polling:
            ranges = [wanted for c in self._clients.values() if (wanted := c.subscription.wanted(head)) is not None]
        before = len(self._window)
        self._window.trim(ranges)
        self._count_added(taken, before - len(self._window))
        now = time.monotonic()
        planned = self._window.plan(ranges, self._fetcher.block_room, now)
        for fetches in grouped(planned, self._fetcher.request_room):
            self._fetcher.start(fetches)
        self._meter.set("l1_source_cache_size", len(self._window), type=BLOCKS)
        self.publish_health()
        retry = self._window.next_retry(ranges, now)
        pause = IDLE_SECONDS if retry is None else min(max(retry, 0.01), IDLE_SECONDS)
        return pause if all_sent else min(pause, RESEND_SECONDS)

    def _count_lookup(self, client: _Client, first: int) -> None:
        """Count whether the block that a request begins with is cached, once, and not before L1 has it."""
        head = self._head_number()
        if first != client.looked_up and head is not None and first <= head:
            client.looked_up = first
            hit = "true" if self._window.get(first) is not None else "false"
            self._meter.count("l1_source_cache_get", type=BLOCKS, hit=hit)

    def _count_added(self, added: int, evicted: int) -> None:
        """Count blocks that were added to the cache, and the ones that others gave way to."""
        self._meter.count("l1_blocks_fetched_total", added)
        self._meter.count("l1_source_cache_add", min(added, evicted), type=BLOCKS, evicted="true")
        self._meter.count("l1_source_cache_add", max(added - evicted, 0), type=BLOCKS, evicted="false")

    def _take(self, result: FetchResult) -> bool:
        """Take the result of a fetch; whether it is a block."""
        fetch, blocks, error, endpoint = result
        now = time.monotonic()
        if blocks is None:
            # A reorg may have taken the block away.
            if error is None and self._polling and not self._window.is_outdated(fetch):
                text = f"the L1 endpoint does not have block {fetch.number}, although its head is higher"
                error = Problem(Code.L1_BLOCK, "", text)
                if endpoint is not None:
                    self._endpoints.set_aside(endpoint, EndpointFault.BEHIND, text)
            if error is not None:
                log.debug("could not fetch an L1 block", number=fetch.number, error=str(error))
            self._window.failed(fetch, error, now)
        elif (forged := self._forged(blocks[0].ref, endpoint)) is not None:
            self._window.failed(fetch, Problem(Code.L1_UNPROVEN, "", forged), now)
            return False
        elif self._window.fetched(fetch, blocks, memory_of(blocks), now):
            text = "an L1 block does not link to the cached ones: they are verified again"
            log.warn(text, code=Code.L1_CONTRADICTS.text, block=blocks[0].ref)
            self._endpoints.recheck_chains()
        return blocks is not None

    def _send_blocks(self, client: _Client) -> bool:
        """Send a client its requested blocks that are cached; False if its queue is full or it is gone."""
        blocks = partial(self._window.get, rollup=client.rollup)
        for block in client.subscription.to_send(blocks, self._head_number()):
            if not self._admits(block.ref, client.derivation):
                return True
            if not client.server.send(client.process, L1BlockResponse(block)):
                client.unreachable_since = client.unreachable_since or time.monotonic()
                return False
            client.unreachable_since = None
            client.subscription.sent(block, time.monotonic())
            if client.derivation is not None:
                self._sent(block.ref, client.derivation)
        return True

    # --- where heads are proven, no block is let out that is not, or will be [LCP15 to LCP18] -------------------------

    def _forged(self, ref: L1BlockRef, endpoint: L1Endpoint | None) -> str | None:
        """Return why a fetched block is not used, for which its endpoint is set aside; None if it may be good."""
        if self._proof is None:
            return None
        if endpoint is not None:
            self._served[ref.number] = endpoint
            if len(self._served) > MAX_SERVED:
                self._served = {number: by for number, by in self._served.items() if self._window.get(number)}
        standing = self._proof.standing(ref.number, ref.hash)
        if standing is Standing.REPLACED:
            text = f"its L1 block {ref} was replaced in a reorg"
            if endpoint is not None:
                self._endpoints.set_aside(endpoint, EndpointFault.BEHIND, text)
            return text
        if standing is not Standing.FORGED:
            return None
        text = f"its L1 block {ref} is not the one that the proven head links to"
        self._blame(ref.number, text)
        return text

    def _admits(self, ref: L1BlockRef, derivation: int | None) -> bool:
        """Whether a client may have a cached block now; one that is not on the proven chain is fetched again.

        `derivation` is the L2 chain id of that client, None for another client."""
        if self._proof is None:
            return True
        standing = self._proof.admits(ref, derivation)
        if standing in (Standing.FORGED, Standing.REPLACED):
            self._forged(ref, None)
            self._window.drop(ref.number)
            self._blocks.wake.set()
        return standing in (Standing.PROVEN, Standing.FAR)

    def _sent(self, ref: L1BlockRef, derivation: int) -> None:
        """Take a block that a derivation was sent, which resets itself if the one before is not its parent."""
        if self._proof is None:
            return
        was_shown = self._proof.shows_finality
        if not self._proof.sent(ref, derivation):
            text = f"its L1 block {ref.number - 1}, used unproven, is not the parent of {ref}"
            log.warn("a catch-up does not link to the proven L1 block", code=Code.L1_UNPROVEN.text, block=ref)
            self._blame(ref.number - 1, text)
            self._window.drop(ref.number - 1)
        if self._proof.shows_finality != was_shown:
            self._publish_heads()

    def _blame(self, number: int, text: str) -> None:
        """Set aside the endpoint that a block is from, if it is known."""
        endpoint = self._served.get(number)
        if endpoint is not None:
            title = "an L1 endpoint has a block that is not proven"
            self._forgers.warn(endpoint.name, title, code=Code.L1_UNPROVEN.text, endpoint=endpoint.name, reason=text)
            self._endpoints.set_aside(endpoint, EndpointFault.UNPROVEN, text)

    def _on_hidden(self) -> None:
        """Hide finality before an unproven block is used; the block follows after the pause."""
        self._publish_heads()
        asyncio.get_running_loop().call_later(HIDE_SECONDS, self._blocks.wake.set)

    def publish_health(self) -> None:
        """Publish the problems of the periodic tasks, of finality, and of the blocks that clients wait for."""
        head = self._head_number()
        waited_for = [r.first for c in self._clients.values() if (r := c.subscription.wanted(head)) is not None]
        failures = [self._window.failure(number) for number in waited_for]
        problems = tuple(dict.fromkeys(failure.error for failure in failures if failure is not None and failure.error))
        self._log_blocks(problems)
        proven = () if self._prover is None else self._prover.problems
        self._publisher.set(
            Health((*self.runtime_problems, *proven, *self._poller.problems, *self._checks.problems, *problems))
        )
        self._counts.step(self._endpoint_counts, self._queue_length)

    def _endpoint_counts(self) -> Endpoints:
        beacons = () if self._prover is None else self._prover.beacons.counts()
        return Endpoints((*self._endpoints.counts(), *beacons))

    def _queue_length(self) -> QueueLength:
        return QueueLength(len(self._fetcher), self._workers.scheduler.outstanding)

    def _log_blocks(self, problems: tuple[Problem, ...]) -> None:
        """Log that a block is waited for, unless the heads fail by the same cause, which is logged already."""
        if not problems:
            self._missing.end("the L1 blocks that are waited for are there")
            return
        code = problems[0].code or Code.L1_BLOCK
        if all(problem.code is not code for problem in self.runtime_problems):
            text = "an L1 block that is waited for is unavailable"
            self._missing.report(code, text, error=problems[0].text)


build = L1Stage
