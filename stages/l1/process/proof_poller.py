"""Has Beacon APIs prove the L1 heads, and links blocks to them [LCP10 to LCP18]."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from rollup_node.stages.io.files.private_files import read_private_file, replace_private_file
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.log.lasting_conditions import LastingCondition, RepeatedWarnings
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.head_tracker import HeadTracker
from rollup_node.stages.l1.light_client.beacon_json import LightClientDataError
from rollup_node.stages.l1.light_client.containers import LightClientHeader
from rollup_node.stages.l1.light_client.store import Kind, LightClient, Refusal, Request
from rollup_node.stages.l1.process.beacon_client import LightClientEndpoints
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.process.head_poller import HeadPoller
from rollup_node.stages.l1.proof import Proof, Standing
from rollup_node.stages.l1.stored_root import (
    MAX_BYTES,
    StoredRoot,
    StoredRootError,
    decode_stored_root,
    encode_stored_root,
)
from rollup_node.stages.l1.verify import InvalidDataError, verify_block_ref
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1Proof
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash, L1BlockRef

T = TypeVar("T")
log = Logger("l1")

POLLS_A_SLOT = 8
MIN_SECONDS = 0.2
MIN_WOKEN_SECONDS = 0.1
"""Between two steps, however many updates an endpoint says there are."""

LATE_SLOTS = 5
"""After so many slots without a new proven head another endpoint is asked, and `/readyz` says so."""

LAG_SLOTS = 8
"""An endpoint whose newest head is older is left for another one: it may be behind, or withhold the newer ones."""

FINALITY_LATE_EPOCHS = 4
"""After so many epochs without a new finalized block another endpoint is asked: this one may withhold it."""

STEPS = 8
"""So many batches of links are followed at once, before the heads are proven again."""


class _BeaconFailure(TemporaryError):
    """The Beacon API in use fails, lies or leads no further; the next one is asked from now on."""


class ProofPoller:
    """Feeds `proof` of the derivations of `rollups` (L2 chain ids) and the tracker.

    `on_proven` is called when blocks may have become proven. `wake` has the next step done now."""

    def __init__(
        self,
        config: CheckpointConfig,
        rollups: Iterable[int],
        endpoints: L1Endpoints,
        tracker: HeadTracker,
        poller: HeadPoller,
        meter: Meter,
        on_proven: Callable[[], None],
    ) -> None:
        self._config, self._endpoints, self._tracker, self._poller = config, endpoints, tracker, poller
        self._meter, self._on_proven = meter, on_proven
        self.beacons = LightClientEndpoints(config, meter)
        stored = read_stored_root(config)
        self._checkpoint, root = _roots(config, stored)
        before = {} if stored is None else stored.unproven
        by_rollup = {rollup: before.get(rollup) for rollup in rollups}
        self._absent = {rollup: unproven for rollup, unproven in before.items() if rollup not in by_rollup}
        self.proof = Proof(time.monotonic, by_rollup, keeps=config.path is not None)
        self.client = LightClient(config.network, root)
        self._stored = stored
        self._progress_at = self._finality_at = time.monotonic()
        self._step_at = float("-inf")
        self.wake: Callable[[], None] = lambda: None
        self.proof.on_wanted = lambda: self.wake()
        self._reason: str | None = None
        self._lies = RepeatedWarnings(log)
        self._late, self._unfinalized = LastingCondition(log), LastingCondition(log)

    @property
    def description(self) -> dict[str, str]:
        """What the log says at the start."""
        endpoints = ", ".join(endpoint.name for endpoint in self.beacons.all)
        return {"network": self._config.network.name, "root": to_hex(self.client.root), "beacon": endpoints}

    async def step(self) -> float:
        """Prove what is new; the seconds until the next step. Raises TemporaryError while nothing can be proven."""
        await asyncio.sleep(max(0.0, self._step_at + MIN_WOKEN_SECONDS - time.monotonic()))
        self._step_at = time.monotonic()
        # An unproven block waits until it is recorded, whether or not the head is proven just now.
        await self.keep()
        # The pause of a failed step comes after all endpoints have failed, not after each.
        await _of_any(len(self.beacons.all), self._prove, _BeaconFailure)
        store = self.client.store
        if store is None or not self.client.is_synced(time.time()):
            return 0.0
        self.beacons.listen(lambda: self.wake())
        await self._advance()
        await self._finalize(store.finalized)
        await self._link()
        await self.keep()
        self._watch()
        return self._pause(store.optimistic.beacon.slot)

    async def _prove(self) -> None:
        """Ask the Beacon API in use for all that is due. Raises TemporaryError."""
        for request in self.client.requests(time.time()):
            await self._ask(request)
            if request.kind is Kind.OPTIMISTIC:
                # No other answer may hold up the head.
                await self._advance()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The health problems: heads that are not proven any more, blocks that are not proven yet."""
        result = []
        if (seconds := self._late_seconds()) is not None:
            reason = f": the last update: {self._reason}" if self._reason else ""
            text = f"no new L1 head has been proven for {seconds:.0f} s{reason}"
            result.append(Problem(Code.L1_UNPROVEN, "head", text))
        result += [Problem(Code.L1_UNPROVEN, "", unproven) for unproven in self.proof.problems()]
        return tuple(result)

    def newest(self) -> L1Proof | None:
        """Return what is proven, for the status; None before the first proof."""
        store, network = self.client.store, self._config.network
        if store is None or not store.participants:
            return None
        head, finalized = store.optimistic.beacon.slot, store.finalized.beacon.slot
        return L1Proof(
            head_slot=head,
            head_time=network.time_of(head),
            finalized_slot=finalized,
            finalized_time=network.time_of(finalized),
            period=store.period,
            participants=store.participants,
            committee_size=network.preset.sync_committee_size,
            is_linked=self.proof.shows_finality,
            is_finality_late=self._finality_late() is not None,
        )

    def _pause(self, slot: int) -> float:
        """Return the seconds until the next poll: not before the block that may prove the header after `slot`'s."""
        network = self._config.network
        slot_seconds = network.slot_ms / 1000
        interval = max(MIN_SECONDS, slot_seconds / POLLS_A_SLOT)
        # A clock that is set back must not stop the proofs.
        expected = min(network.time_of(slot + 2) - time.time(), 2 * slot_seconds)
        return max(interval, expected)

    async def _ask(self, request: Request) -> None:
        """Ask the endpoint in use, and take its answer. Raises _BeaconFailure."""
        endpoint = self.beacons.in_use
        before = self._slots()
        refusal: Refusal | None = None
        try:
            body = await endpoint.get(request.path, request.query, request.kind.value)
            refusal = self.client.take(request, body, time.time())
            reason = None if refusal is None else refusal.words
            is_lie = refusal is not None and refusal.is_lie
        except LightClientDataError as error:
            reason, is_lie = str(error), True
        except EndpointError as error:
            # There may be no finality, and no update of the present period, yet: the head is proven without them.
            is_extra = request.kind in (Kind.UPDATES, Kind.FINALITY) and self.client.is_synced(time.time())
            if is_extra and error.status is not None:
                return
            self.beacons.next()
            raise _BeaconFailure(f"L1 is not proven: {error}", Code.L1_UNPROVEN) from None
        if is_lie:
            text = endpoint.masked(f"its {request.kind.value} is refused: {reason}")
            title, code = "a Beacon API does not prove what it says", Code.L1_UNPROVEN
            self._lies.warn(endpoint.name, title, code=code.text, endpoint=endpoint.name, error=text, do=code.remedy)
            raise self._left(text)
        if (after := self._slots()) != before:
            self._progress_at, self._reason = time.monotonic(), None
            if before is None or after is None or after[0] != before[0]:
                self._finality_at = self._progress_at
            endpoint.verdict = ""
            return
        if refusal is not None and refusal is not Refusal.NOT_RELEVANT:
            self._reason = refusal.words
        if not self.client.is_synced(time.time()):
            text = f"its {request.kind.value} does not lead to the present sync committee"
            raise self._left(f"{text}{f': {reason}' if reason else ''}")

    def _left(self, why: str) -> _BeaconFailure:
        """Leave the endpoint in use for the next one; returns the error."""
        name = self.beacons.in_use.name
        self.beacons.next(why)
        return _BeaconFailure(f"L1 is not proven: {name}: {why}", Code.L1_UNPROVEN)

    def _slots(self) -> tuple[int, int, bool] | None:
        """Return finalized and optimistic slot, and whether the next committee is known."""
        store = self.client.store
        if store is None:
            return None
        return store.finalized.beacon.slot, store.optimistic.beacon.slot, store.next_sync_committee is not None

    async def _advance(self) -> None:
        """Make the block of the newest proven header the head, as long as the committee that signs now is known."""
        store, head = self.client.store, self.proof.chain.head
        if store is None or not self.client.is_synced(time.time()):
            return
        block_hash = store.optimistic.execution_block_hash
        if not any(block_hash) or (head is not None and head.hash == block_hash and self._tracker.head == head):
            return
        ref = await self._block(block_hash)
        self.proof.chain.advance(ref)
        self._poller.take_head(ref)
        self._on_proven()

    async def _finalize(self, header: LightClientHeader) -> None:
        """Make the block of a finalized header the finalized one, and keep its root; the safe block may be above it."""
        block_hash, known = header.execution_block_hash, self._tracker.finalized
        if not any(block_hash) or (known is not None and known.hash == block_hash):
            return
        ref = await self._block(block_hash)
        error = self._tracker.update_finalized(ref)
        if error is not None:
            raise TemporaryError(f"L1 is not proven: {error}", Code.L1_CONTRADICTS)
        log.debug("new proven L1 finalized block", block=ref)
        self._tracker.update_safe(await self._safe(ref))
        self._poller.finality_proven()

    async def _safe(self, finalized: L1BlockRef) -> L1BlockRef:
        """Return the endpoint's safe block if it is proven and above the finalized one, which is safe as well."""
        try:
            block = await self._endpoints.pick().block_json("safe")
            safe = None if block is None else verify_block_ref(block, False)
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            log.debug("the L1 endpoint has no safe block", error=error)
            return finalized
        if safe is None or safe.number < finalized.number:
            return finalized
        return safe if self.proof.standing(safe.number, safe.hash) is Standing.PROVEN else finalized

    async def _block(self, block_hash: Hash) -> L1BlockRef:
        """Return the block of a hash, for which each endpoint is asked once. Raises TemporaryError if none has it."""
        return await _of_any(len(self._endpoints.all), partial(self._read_block, block_hash))

    async def _read_block(self, block_hash: Hash) -> L1BlockRef:
        async def ref_of(endpoint: L1Endpoint) -> L1BlockRef | None:
            block = await endpoint.header_by_hash(block_hash)
            return None if block is None else verify_block_ref(block, False)

        endpoint, ref = await self._endpoints.ask("L1 head", ref_of)
        if ref is not None and ref.hash == block_hash:
            return ref
        missing = f"it does not have the proven block {to_hex(block_hash)}"
        text = missing if ref is None else "it has another block for a hash"
        self._endpoints.set_aside(endpoint, EndpointFault.BEHIND, text)
        raise TemporaryError(f"L1 head: {endpoint.name}: {text}", Code.L1_UNPROVEN)

    async def _link(self) -> None:
        """Follow the links down to the lowest block that is wanted. Raises TemporaryError where they do not hold."""
        proof, count = self.proof, len(self._endpoints.all)
        for _ in range(STEPS):
            gaps = proof.gaps
            for rollup in gaps:
                wanted, fill = partial(self._gap, rollup), proof.catch_ups[rollup].fill
                upper = "the block that derivation is sent next"
                await _of_any(count, partial(self._follow, wanted, fill, upper))
            numbers = proof.missing()
            if numbers:
                await _of_any(count, partial(self._follow, proof.missing, proof.chain.extend, "the proven head"))
            if not gaps and not numbers:
                return
            self._on_proven()

    def _gap(self, rollup: int) -> range:
        return self.proof.gaps.get(rollup, range(0))

    async def _follow(
        self, wanted: Callable[[], range], take: Callable[[Sequence[L1BlockRef]], bool], upper: str
    ) -> None:
        """Follow one batch of links. Raises TemporaryError if the endpoint's blocks are other ones."""

        async def refs_of(endpoint: L1Endpoint) -> list[L1BlockRef]:
            headers = await endpoint.headers_json(numbers)
            if any(header is None for header in headers):
                raise InvalidDataError("it does not have a block below its head")
            return [verify_block_ref(header, False) for header in headers]

        if not (numbers := wanted()):
            return
        endpoint, refs = await self._endpoints.ask("L1 links", refs_of)
        # Derivation may have been reset meanwhile.
        if wanted() == numbers and not take(refs):
            text = f"its blocks {numbers[0]} to {numbers[-1]} do not link to {upper}"
            self._endpoints.set_aside(endpoint, EndpointFault.UNPROVEN, text)
            raise TemporaryError(f"L1 links: {endpoint.name}: {text}", Code.L1_UNPROVEN)

    async def keep(self) -> None:
        """Write the newest proven root, and what is unproven, to the file."""
        store, path = self.client.store, self._config.path
        if store is None or path is None:
            return
        header, network = store.finalized.beacon, self._config.network
        unproven = self.proof.to_keep()
        kept = self._absent | unproven
        stored = StoredRoot(network.genesis_validators_root, self._checkpoint, header.root, header.slot, kept)
        if stored == self._stored:
            return
        # What the file has is not known until it is written.
        self._stored, self.proof.kept = stored, {}
        try:
            await asyncio.to_thread(replace_private_file, Path(path), encode_stored_root(stored), durable=True)
        except OSError as error:
            text = "the newest proven L1 root cannot be kept"
            log.warn(text, code=Code.L1_UNPROVEN.text, path=path, error=error, option="l1.checkpoint.path")
        self.proof.kept = unproven
        self._on_proven()

    def _late_seconds(self) -> float | None:
        """Return the seconds since a head was proven; None if that is not long."""
        return self._longer(self._progress_at, LATE_SLOTS)

    def _finality_late(self) -> float | None:
        """Return the seconds since a finalized block was proven; None if that is not long."""
        return self._longer(self._finality_at, FINALITY_LATE_EPOCHS * self._config.network.preset.slots_per_epoch)

    def _longer(self, since: float, slots: float) -> float | None:
        seconds = time.monotonic() - since
        return seconds if seconds > slots * self._config.network.slot_ms / 1000 else None

    def _watch(self) -> None:
        """Name what an endpoint may withhold, heads or finality, and have another one asked for it [LCP12, LCP18]."""
        store, name = self.client.store, self.beacons.in_use.name
        assert store is not None
        lag = self.client.age_of(store.optimistic.beacon.slot, time.time())
        if (seconds := self._late_seconds()) is not None:
            self._late.report(Code.L1_UNPROVEN, "no new L1 head is proven", endpoint=name, seconds=round(seconds))
            self.beacons.next("it proves no new head")
            return
        self._late.end("new L1 heads are proven again", head=self._tracker.head)
        if (seconds := self._finality_late()) is not None:
            text = "no new L1 block is proven to be finalized"
            self._unfinalized.report(Code.FINALITY_STALE, text, endpoint=name, seconds=round(seconds))
            self.beacons.next("it proves no newer finalized block")
        else:
            self._unfinalized.end("L1 is proven to finalize again", finalized=self._tracker.finalized)
            if lag > LAG_SLOTS * self._config.network.slot_ms / 1000:
                self.beacons.next(f"its newest head is {lag:.0f} s old")

    async def close(self) -> None:
        """Keep what is proven, and close the connections."""
        await self.keep()
        await self.beacons.close()


async def _of_any(count: int, attempt: Callable[[], Awaitable[T]], failure: type[TemporaryError] = TemporaryError) -> T:
    """Return the first result of `count` attempts, each with another endpoint. Raises the failure of the last one."""
    for _ in range(count - 1):
        try:
            return await attempt()
        except failure as error:
            log.debug("another endpoint is asked", error=error)
    return await attempt()


def read_stored_root(config: CheckpointConfig) -> StoredRoot | None:
    """Return what is kept at the path; None if there is nothing of this network, which is logged if there is other."""
    if config.path is None:
        return None
    try:
        stored = decode_stored_root(read_private_file(config.path, MAX_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, StoredRootError) as error:
        log.warn("the kept L1 root is unreadable", code=Code.L1_UNPROVEN.text, path=config.path, error=error)
        return None
    return stored if stored.genesis_validators_root == config.network.genesis_validators_root else None


def _roots(config: CheckpointConfig, stored: StoredRoot | None) -> tuple[Hash, Hash]:
    """Return the checkpoint, and the root to start from: the kept one if it was proven from that checkpoint."""
    if stored is not None and stored.replaces(config.root):
        return stored.checkpoint, stored.root
    return config.root, config.root
