"""What the rpc process asks of the engine: the admin calls and the parts of output roots.

A repeated question gets the first answer again; some answers come when the engine has done what was asked."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.messages.control import (
    ControlResponse,
    OutputRequest,
    OutputResponse,
    PostUnsafePayloadRequest,
    ResetDerivationRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

KEPT_ANSWERS = 512
MAX_WAITING = 64

Key = tuple[ProcessId, int]


class ControlServer:
    """`start_sequencer` gives an error text or None; `stop_sequencer` as well, and the stop is done when
    `finish_stops` is called; resets are done when `finish_resets` is. Outputs wait in `outputs`. `post` takes an unsafe
    block."""

    def __init__(
        self,
        bus: Bus,
        start_sequencer: Callable[[Hash], str | None],
        stop_sequencer: Callable[[], str | None],
        on_reset: Callable[[str], None],
        post: Callable[[ExecutionPayload], None],
        wake: Callable[[], None],
    ) -> None:
        self._post = post
        self._start_sequencer = start_sequencer
        self._stop_sequencer = stop_sequencer
        self._on_reset = on_reset
        self._wake = wake
        self._answers: OrderedDict[Key, ControlResponse | OutputResponse] = OrderedDict()
        self.stops: list[Key] = []
        self.resets: list[Key] = []
        self.outputs: list[tuple[ProcessId, OutputRequest]] = []
        self._server = bus.serve("engine.control", self._take)

    def finish_stops(self, head: Hash) -> None:
        """The sequencer has stopped at this head."""
        stops, self.stops = self.stops, []
        for peer, number in stops:
            self.answer(peer, ControlResponse(number, None, head))

    def finish_resets(self) -> None:
        """A new start is in force."""
        resets, self.resets = self.resets, []
        for peer, number in resets:
            self.answer(peer, ControlResponse(number, None, None))

    def answer(self, peer: ProcessId, done: ControlResponse | OutputResponse) -> None:
        """Sends an answer and keeps it for repeated questions."""
        self._answers[peer, done.id] = done
        while len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        self._server.send(peer, done)

    def _take(self, peer: ProcessId, message: Any) -> None:
        key = (peer, message.id)
        known = self._answers.get(key)
        if known is not None:
            self._server.send(peer, known)
        elif isinstance(message, StartSequencerRequest):
            self.answer(peer, ControlResponse(message.id, self._start_sequencer(message.head), None))
        elif isinstance(message, StopSequencerRequest):
            self._stop(key)
        elif isinstance(message, ResetDerivationRequest):
            self._reset(key)
        elif isinstance(message, PostUnsafePayloadRequest):
            self._post(message.payload)
            self.answer(peer, ControlResponse(message.id, None, None))
        elif isinstance(message, OutputRequest):
            self._want_output(peer, message)

    def _want_output(self, peer: ProcessId, message: OutputRequest) -> None:
        if (peer, message) not in self.outputs and len(self.outputs) < MAX_WAITING:
            self.outputs.append((peer, message))
            self._wake()

    def _stop(self, key: Key) -> None:
        if key in self.stops:
            return
        error = self._stop_sequencer()
        if error is not None:
            self.answer(key[0], ControlResponse(key[1], error, None))
        elif len(self.stops) < MAX_WAITING:
            self.stops.append(key)
            self._wake()

    def _reset(self, key: Key) -> None:
        if key not in self.resets and len(self.resets) < MAX_WAITING:
            self.resets.append(key)
            self._on_reset("asked for by admin_resetDerivationPipeline")
