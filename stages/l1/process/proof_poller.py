"""Has Beacon APIs prove the L1 heads, and links blocks to them [LCP10 to LCP18]."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rollup_node.stages.io.files.private_files import read_private_file, replace_private_file
from rollup_node.stages.io.http.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.head_tracker import HeadTracker
from rollup_node.stages.l1.light_client.beacon_json import LightClientDataError
from rollup_node.stages.l1.light_client.containers import LightClientHeader
from rollup_node.stages.l1.light_client.store import Refusal
from rollup_node.stages.l1.light_client.sync import Kind, LightClient, Request
from rollup_node.stages.l1.process.beacon_client import LightClientEndpoints
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints, describe_error
from rollup_node.stages.l1.process.failures import code_of
from rollup_node.stages.l1.process.head_poller import HeadPoller
from rollup_node.stages.l1.proof import Proof
from rollup_node.stages.l1.proven_chain import BATCH, Standing
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

log = get_logger("l1")

POLLS_A_SLOT = 4
MIN_SECONDS = 0.2
LATE_SLOTS = 5
"""After so many slots without a new proven head another endpoint is asked, and `/readyz` says so."""

FINALITY_LATE_EPOCHS = 4
"""After so many epochs without a new finalized block another endpoint is asked: this one may withhold it."""

STEPS = 8
"""So many batches of links are followed at once, before the heads are proven again."""


class ProofPoller:
    """Feeds `proof` of the derivations of `rollups` (L2 chain ids) and the tracker.

    `on_proven` is called when blocks may have become proven."""

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
        self.proof = Proof(time.monotonic, {rollup: before.get(rollup) for rollup in rollups})
        self.client = LightClient(config.network, root)
        self._stored = stored
        self._progress_at = self._finality_at = time.monotonic()
        self._reason: str | None = None
        self._lie, self._late = LastingCondition(log), LastingCondition(log)

    @property
    def description(self) -> dict[str, str]:
        """What the log says at the start."""
        endpoints = ", ".join(endpoint.name for endpoint in self.beacons.all)
        return {"network": self._config.network.name, "root": to_hex(self.client.root), "beacon": endpoints}

    async def step(self) -> float:
        """Prove what is new; the seconds until the next step. Raises TemporaryError while nothing can be proven."""
        for request in self.client.requests(time.time()):
            await self._ask(request)
        now = time.time()
        if not self.client.is_synced(now):
            return 0.0
        store = self.client.store
        assert store is not None
        await self._advance(store.optimistic)
        await self._finalize(store.finalized)
        await self._link()
        await self.keep()
        self._watch()
        return self._pause(store.optimistic.beacon.slot)

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
        )

    def _pause(self, slot: int) -> float:
        """Return the seconds until the header after that of a slot may be proven, by the block after it [LCP10]."""
        network = self._config.network
        slot_seconds = network.slot_ms / 1000
        interval = max(MIN_SECONDS, slot_seconds / POLLS_A_SLOT)
        # A clock that is set back must not stop the proofs.
        expected = min(network.time_of(slot + 2) + interval - time.time(), 2 * slot_seconds)
        return max(interval, expected)

    async def _ask(self, request: Request) -> None:
        """Ask the endpoint in use, and take its answer. Raises TemporaryError after a failure or a lie."""
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
            raise TemporaryError(f"L1 is not proven: {error}", Code.L1_UNPROVEN) from None
        if is_lie:
            text = f"{endpoint.name}: its {request.kind.value} is refused: {reason}"
            self._lie.report(Code.L1_UNPROVEN, "a Beacon API does not prove what it says", error=text)
            self.beacons.next()
            raise TemporaryError(f"L1 is not proven: {text}", Code.L1_UNPROVEN)
        if (after := self._slots()) != before:
            self._progress_at, self._reason = time.monotonic(), None
            if before is None or after is None or after[0] != before[0]:
                self._finality_at = self._progress_at
            self._lie.end("a Beacon API proves the L1 head again", endpoint=endpoint.name)
            return
        if refusal is not None and refusal is not Refusal.NOT_RELEVANT:
            self._reason = refusal.words
        if not self.client.is_synced(time.time()):
            self.beacons.next()
            text = f"{endpoint.name}: its {request.kind.value} does not lead to the present sync committee"
            raise TemporaryError(f"L1 is not proven: {text}{f': {reason}' if reason else ''}", Code.L1_UNPROVEN)

    def _slots(self) -> tuple[int, int, bool] | None:
        """Return finalized and optimistic slot, and whether the next committee is known."""
        store = self.client.store
        if store is None:
            return None
        return store.finalized.beacon.slot, store.optimistic.beacon.slot, store.next_sync_committee is not None

    async def _advance(self, header: LightClientHeader) -> None:
        """Make the block of a proven header the head."""
        head = self.proof.chain.head
        block_hash = header.execution_block_hash
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
        """Return the block of a hash. Raises TemporaryError if the endpoint does not have it."""

        def check(ref: L1BlockRef | None) -> str | None:
            if ref is None:
                return f"it does not have the proven block {to_hex(block_hash)}"
            return None if ref.hash == block_hash else "it has another block for a hash"

        ref = await self._read(lambda endpoint: endpoint.header_by_hash(block_hash), check)
        assert ref is not None
        return ref

    async def _read(
        self, call: Callable[[L1Endpoint], Any], check: Callable[[L1BlockRef | None], str | None]
    ) -> L1BlockRef | None:
        """Return what the first endpoint has that passes the check, each is asked once. Raises TemporaryError."""
        last = len(self._endpoints.all)
        for attempt in range(1, last + 1):
            try:
                return await self._read_one(call, check)
            except TemporaryError:
                if attempt == last:
                    raise
        raise AssertionError("there is an endpoint")

    async def _read_one(
        self, call: Callable[[L1Endpoint], Any], check: Callable[[L1BlockRef | None], str | None]
    ) -> L1BlockRef | None:
        endpoint: L1Endpoint | None = None
        try:
            endpoint = self._endpoints.pick()
            block = await call(endpoint)
            ref = None if block is None else verify_block_ref(block, False)
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            if endpoint is not None:
                self._endpoints.failed(endpoint, error)
            raise TemporaryError(f"L1 head: {describe_error(endpoint, error)}", code_of(error)) from None
        if (text := check(ref)) is not None:
            self._endpoints.set_aside(endpoint, EndpointFault.BEHIND, text)
            raise TemporaryError(f"L1 head: {endpoint.name}: {text}", Code.L1_UNPROVEN)
        return ref

    async def _link(self) -> None:
        """Follow the links down to the lowest block that is wanted. Raises TemporaryError where they do not hold."""
        for _ in range(STEPS):
            gaps = {rollup: gap for rollup, gap in self.proof.gaps.items() if gap}
            for rollup, gap in gaps.items():
                self.proof.catch_ups[rollup].fill((await self._headers(gap[:BATCH]))[1])
                self.proof.gaps[rollup] = gap[BATCH:]
            numbers = self.proof.missing()
            if numbers:
                endpoint, refs = await self._headers(numbers)
                if not self.proof.chain.extend(refs):
                    text = f"its blocks {numbers[0]} to {numbers[-1]} do not link to the proven head"
                    self._endpoints.set_aside(endpoint, EndpointFault.UNPROVEN, text)
                    raise TemporaryError(f"L1 links: {endpoint.name}: {text}", Code.L1_UNPROVEN)
            if not gaps and not numbers:
                return
            self._on_proven()

    async def _headers(self, numbers: Sequence[int]) -> tuple[L1Endpoint, list[L1BlockRef]]:
        """Return the references of blocks, all from one endpoint. Raises TemporaryError."""
        endpoint: L1Endpoint | None = None
        try:
            endpoint = self._endpoints.pick()
            return endpoint, _refs(await endpoint.headers_json(numbers))
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            if endpoint is not None:
                self._endpoints.failed(endpoint, error)
            raise TemporaryError(f"L1 links: {describe_error(endpoint, error)}", code_of(error)) from None

    async def keep(self) -> None:
        """Write the newest proven root, and what is unproven, to the file."""
        store, path = self.client.store, self._config.path
        if store is None or path is None:
            return
        header, network = store.finalized.beacon, self._config.network
        validators, unproven = network.genesis_validators_root, self.proof.unproven
        stored = StoredRoot(validators, self._checkpoint, header.root, header.slot, unproven)
        if stored == self._stored:
            return
        self._stored = stored
        try:
            await asyncio.to_thread(replace_private_file, Path(path), encode_stored_root(stored), durable=True)
        except OSError as error:
            text = "the newest proven L1 root cannot be kept"
            log.warn(text, code=Code.L1_UNPROVEN.text, path=path, error=error, option="l1.checkpoint.path")

    def _late_seconds(self) -> float | None:
        seconds = time.monotonic() - self._progress_at
        return seconds if seconds > LATE_SLOTS * self._config.network.slot_ms / 1000 else None

    def _watch(self) -> None:
        """Warn if no head has been proven for long, and ask another endpoint; also if no block has been finalized."""
        if (seconds := self._late_seconds()) is None:
            self._late.end("new L1 heads are proven again", head=self._tracker.head)
            network, now = self._config.network, time.monotonic()
            if now - self._finality_at > FINALITY_LATE_EPOCHS * network.preset.slots_per_epoch * network.slot_ms / 1000:
                self._finality_at = now
                self.beacons.next()
            return
        name = self.beacons.in_use.name
        self._late.report(Code.L1_UNPROVEN, "no new L1 head is proven", endpoint=name, seconds=round(seconds))
        self.beacons.next()

    async def close(self) -> None:
        """Keep what is proven, and close the connections."""
        await self.keep()
        await self.beacons.close()


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


def _refs(headers: Sequence[Any]) -> list[L1BlockRef]:
    """Return references of headers. Raises InvalidDataError also for one that is missing."""
    if any(header is None for header in headers):
        raise InvalidDataError("it does not have a block below its head")
    return [verify_block_ref(header, False) for header in headers]
