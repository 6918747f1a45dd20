"""The rows of derived attributes, and which life of the derivation process works on which start."""

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.attributes.activation_hold import OtherUpgrade
from rollup_node.stages.engine.calls.actions import Action, ShowProblem
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.core.rows import HeadRow
from rollup_node.stages.messages.engine import PipelineStart
from rollup_node.stages.protocol.errors import TemporaryError


class DerivationSession:
    """`peer` is the life of derivation that was seen last, `owner` the one that the current start belongs to.

    `restart_wanted`: derivation is to get a new start at the safe head in force."""

    def __init__(self) -> None:
        self.peer: ProcessId | None = None
        self.start: PipelineStart | None = None
        self.owner: ProcessId | None = None
        self.restart_wanted = False

    def begin(self, start: PipelineStart) -> None:
        """Note that a start is in force; it belongs to the current life."""
        self.start, self.owner = start, self.peer
        self.restart_wanted = False

    def clear(self) -> None:
        """No start is in force."""
        self.start = self.owner = None
        self.restart_wanted = False

    def see(self, peer: ProcessId) -> bool:
        """Note who sends; False for an earlier life, whose messages are ignored."""
        if self.peer is not None and peer.incarnation < self.peer.incarnation:
            return False
        self.peer = peer
        return True


class UpgradeDiffers(Action, frozen=True):
    """Report other upgrade transactions, perhaps `confirmed` by L1; `is_chosen`: the node takes them."""

    precedes_calls = True

    other: OtherUpgrade
    confirmed: bool
    is_chosen: bool = False


class AttributesRow(HeadRow):
    """The calls for the attributes that derivation waits for.

    The next ones are started with the update to the last block, unless somebody else may build on it [ENG40]."""

    purpose = CallPurpose.ATTRIBUTES
    _shown: tuple[OtherUpgrade, bool] | None = None

    @property
    def is_open(self) -> bool:
        """Whether attributes are taken."""
        return self._core.confirmed_heads is not None and not self._core.session.restart_wanted

    def due(self, now: Instant) -> CoreCall | None:
        core, attributes = self._core, self._core.attributes
        if core.waits(self.purpose, now):
            return None
        if self.is_open:
            result = attributes.begin()
            if result is not None:
                core.send_result(result)
            if not (core.sequencer.sequencer.active or core.interop.enabled or core.build_api_row.waiting):
                attributes.join()
        return self._call(now)

    def due_ahead(self, now: Instant) -> CoreCall | None:
        """Return the first call for attributes derived ahead; whatever else is due comes first."""
        if not self.is_open or self._core.waits(self.purpose, now):
            return None
        self._core.attributes.begin_ahead()
        return self._call(now)

    def _call(self, now: Instant) -> CoreCall | None:
        core, attributes = self._core, self._core.attributes
        if (result := attributes.check()) is not None:
            core.report(result, now)
            core.publish(now)
            # A displaced tip is due again, in a row before this one.
            return core.forkchoice_row.due(now)
        call = attributes.next()
        if call is not None and attributes.building:
            core.sequencer.sequencer.on_derived_build()
        return call

    def take(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        self._core.report(self._core.attributes.answer(pending.call, answer), now)
        self._core.publish(now)

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        self._core.attributes.fail()
        return super().failed(call, error, now)

    def show_hold(self) -> None:
        """Report that derivation waits before the activation block of a fork, if that has changed [UPG24]."""
        core, hold = self._core, self._core.attributes.hold
        shown = None if hold is None else (hold.other, hold.confirmed)
        if shown == self._shown:
            return
        self._shown = shown
        core.do(ShowProblem("upgrade", None if hold is None else hold.problem))
        if hold is not None:
            is_chosen = hold.confirmed and hold.other.carried is not None and core.config.bundle_auto
            core.do(UpgradeDiffers(hold.other, hold.confirmed, is_chosen))
