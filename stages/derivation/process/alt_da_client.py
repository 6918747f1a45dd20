"""What Alt-DA needs of other processes: inputs from blobs, L1's finalized head from l1; and what it reports."""

from collections.abc import Iterable
from itertools import islice

from rollup_node.ipc.bus.bus import Client
from rollup_node.stages.derivation.pipeline.alt_da import AltDaResolver
from rollup_node.stages.derivation.pipeline.outputs import NeedInput
from rollup_node.stages.derivation.process.requests import Throttle
from rollup_node.stages.io.log.lasting_conditions import RepeatedWarnings
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Endpoints, Health, Problem, QueueLength
from rollup_node.stages.messages.blobs import InputRequest, InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1Heads, L1Proof, RuntimeConfigs
from rollup_node.stages.messages.log_fields import FieldValue
from rollup_node.stages.protocol import commitments
from rollup_node.stages.protocol.types import Address, L1Block

REPEAT_SECONDS = 0.5
PREFETCHED_INPUTS = 32
PREFETCH_SECONDS = 5.0
LONG_WAIT = 15.0
"""Seconds after which a missing input is a health problem."""
LOST_ANSWERS, LOST_SECONDS = 5, 60.0
"""How often, and over how long, a DA server must not have an input that nobody can challenge any more [ADA15]."""

InputMessage = InputResponse | InputTooLarge | InputUnavailable


class AltDaClient:
    """Requests are repeated until they are met. Times are seconds of a steady clock.

    `_phase` is what is needed and whether it is its last chance; `_not_found` counts the answers in it that the DA
    server does not have it, from the time `_not_found_since`, to requests from number `_first` on."""

    def __init__(self, resolver: AltDaResolver, blobs: Client, meter: Meter, log: Logger) -> None:
        self._resolver, self._blobs, self._meter = resolver, blobs, meter
        self._log, self._warnings = log, RepeatedWarnings(log)
        self._throttle, self._prefetch_throttle = Throttle(REPEAT_SECONDS), Throttle(PREFETCH_SECONDS)
        self._start = self._number = self._first = self._not_found = 0
        self._phase: tuple[NeedInput, bool] | None = None
        self._not_found_since = 0.0
        self._waits_for: tuple[NeedInput | None, float] = (None, 0.0)
        self._error: str | None = None
        self._code = Code.ALTDA_UNREACHABLE

    @property
    def settled_l1(self) -> int | None:
        """The L1 block up to which challenges are settled [ADA11]."""
        return self._resolver.challenges.settled

    def restart(self, start: int) -> None:
        """Request everything at once, as derivation starts again with the number `start`."""
        self._start, self._phase = start, None
        self._throttle.clear()
        self._prefetch_throttle.clear()

    def on_input(self, message: InputMessage, now: float) -> None:
        """Take the blobs process's answer; one to an earlier need is ignored."""
        if isinstance(message, InputResponse):
            self._resolver.add_input(message.commitment, message.data)
        elif isinstance(message, InputTooLarge):
            self._resolver.add_too_large(message.commitment, message.size)
        elif self._resolver.needed is not None and self._resolver.needed.commitment == message.commitment:
            if message.not_found:
                self._on_not_found(message, now)
            self._error = message.error
            self._code = Code.ALTDA_MISSING if message.not_found else Code.ALTDA_UNREACHABLE

    def on_l1_status(self, message: L1Heads | L1Proof | RuntimeConfigs | Endpoints | QueueLength | Health) -> None:
        if isinstance(message, L1Heads):
            self._resolver.challenges.finalize(None if message.finalized is None else message.finalized.number)

    def request(self, ahead: Iterable[L1Block], batcher: Address | None, now: float) -> None:
        """Request the needed input, and those of the batcher's transactions in the blocks `ahead`."""
        needed = self._resolver.needed
        if needed is not None:
            self._enter_phase(needed)
            if self._throttle.is_due("input", self._phase, now):
                self._number += 1
                self._blobs.send(InputRequest(needed.commitment, True, self._start, self._number))
        nearest = list(islice(_commitments(ahead, batcher), PREFETCHED_INPUTS))
        for commitment in nearest:
            request = InputRequest(commitment, False, self._start)
            if self._prefetch_throttle.is_due(commitment, request, now):
                self._blobs.send(request)
        self._prefetch_throttle.retain(set(nearest))

    def report(self, now: float) -> list[Problem]:
        """Set the metrics; the health problem of an input that is waited for, if it lasts."""
        state = self._resolver.challenges
        if state.challenge_origin is not None:
            self._meter.set("challenges_head", state.challenge_origin.number, type="latest")
        if state.settled is not None:
            self._meter.set("challenges_head", state.settled, type="finalized")
        for status, count in state.counts.items():
            if status is not commitments.ChallengeStatus.UNINITIALIZED:
                self._meter.set("challenges_status", count, status=status.name.lower())
        needed, since = self._waits_for
        if needed != self._resolver.needed:
            self._waits_for, self._error = (self._resolver.needed, now), None
            self._code = Code.ALTDA_UNREACHABLE
            return []
        if needed is None or now - since <= LONG_WAIT:
            return []
        error = f": {self._error}" if self._error else ""
        text = f"derivation has waited {now - since:.0f} s for {self._describe(needed)}{error}"
        return [Problem(self._code, "", text)]

    def _enter_phase(self, needed: NeedInput) -> None:
        phase = needed, self._resolver.is_last_chance
        if phase != self._phase:
            self._phase, self._first, self._not_found = phase, self._number + 1, 0

    def _on_not_found(self, message: InputUnavailable, now: float) -> None:
        """Count a failed look-up: at its last chance an input is missing for good only after many [ADA15].

        They all fail in a short outage of a DA server. One that began before the phase says nothing."""
        needed, is_last_chance = self._resolver.needed, self._resolver.is_last_chance
        if needed is None or (needed, is_last_chance) != self._phase or message.number < self._first:
            return
        self._not_found += 1
        if self._not_found == 1:
            self._not_found_since = now
            self._explain(needed, is_last_chance)
        is_lost = self._not_found >= LOST_ANSWERS and now - self._not_found_since >= LOST_SECONDS
        if is_lost or not is_last_chance:
            self._resolver.input_not_found(message.commitment)

    def _explain(self, needed: NeedInput, is_last_chance: bool) -> None:
        until = self._resolver.challenges.challenge_window_end(needed.block.number)
        fields: dict[str, FieldValue] = {"commitment": str(needed.commitment), "block": needed.block}
        fields["challenged_until"] = until
        if not is_last_chance:
            text = "the DA server does not have an input: reading challenges ahead"
            self._log.info(text, code=Code.ALTDA_MISSING.text, **fields)
            return
        text, fields["do"] = (
            "the DA server does not have an input: its challenge window is over, derivation ends soon",
            Code.ALTDA_LOST.remedy,
        )
        self._warnings.warn("lost", text, code=Code.ALTDA_LOST.text, **fields)

    def _describe(self, needed: NeedInput) -> str:
        """Return the input, and what becomes of it on L1."""
        state, included = self._resolver.challenges, needed.block.number
        challenge = state.challenge(needed.commitment, included)
        if needed.commitment.kind != commitments.KECCAK:
            window = ""
        elif challenge is None:
            window = f", which can be challenged until L1 block {state.challenge_window_end(included)}"
        else:
            window = f", whose challenge can be resolved until L1 block {challenge.resolve_window_end}"
        known = f"; challenges are known up to L1 block {state.next_number - 1}" if window else ""
        return f"the input of commitment {needed.commitment} of L1 block {needed.block}{window}{known}"


def _commitments(blocks: Iterable[L1Block], batcher: Address | None) -> Iterable[commitments.Commitment]:
    for block in blocks:
        for transaction in block.inbox:
            if (
                transaction.sender != batcher
                or transaction.blobs
                or transaction.data[:1] != bytes((commitments.VERSION,))
            ):
                continue
            try:
                yield commitments.decode_commitment(transaction.data[1:])
            except commitments.CommitmentError:
                continue
