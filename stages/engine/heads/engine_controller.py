"""The heads in force, and which of them the execution engine has accepted.

Until a start is found, and while a new one is searched for, there are no heads.

The forkchoice update that is due is computed from this state and never stored, so there is nothing to cancel: an update
is due while the heads differ from those of the last accepted one [ENG37]."""

import msgspec

from rollup_node.stages.engine.calls import engine_api
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef


class EngineController:
    """`announced` are the heads as others may know them.

    Whoever reads one of them finds it in the engine, under the same label. They are those of a start, which the engine
    returned, or of an update that it accepted.

    `backup_unsafe_head` is the tip that a derived block displaced, until that block is safe; `restoring_backup`: the
    block was dropped, and the next update tries the old tip [ENG35]. `promoted_from` is the L1 block whose derived
    blocks are safe here but not yet in an accepted update."""

    def __init__(self) -> None:
        self.heads: Heads | None = None
        self.announced: Heads | None = None
        self.accepted: Forkchoice | None = None
        self.promoted_from: L1BlockRef | None = None
        self.backup_unsafe_head: L2BlockRef | None = None
        self.restoring_backup = False

    def start(self, heads: Heads) -> None:
        """Note that a start was found; the heads are in force, and the engine has accepted none of them."""
        self.clear()
        self.heads = self.announced = heads

    def restart(self) -> None:
        """Note that derivation starts over at the safe head; the tip stays, and what the engine has accepted."""
        if self.heads is not None:
            self.heads = self.heads.without_pending()
        self.promoted_from = self.backup_unsafe_head = None
        self.restoring_backup = False
        self._moved()

    def clear(self) -> None:
        """No heads are in force."""
        self.heads = self.announced = self.accepted = self.promoted_from = self.backup_unsafe_head = None
        self.restoring_backup = False

    def advance(self, ref: L2BlockRef) -> None:
        """Make a block that the engine has validated the unsafe head."""
        if self.heads is not None:
            self.heads = self.heads.with_unsafe(ref)

    def insert_derived(self, ref: L2BlockRef, concluding: bool) -> None:
        """Make a derived block that the engine has built and validated the unsafe head, whatever the tip was."""
        if self.heads is None:
            return
        if self.heads.unsafe.number >= ref.number:
            self.backup_unsafe_head = self.heads.unsafe
        self.heads = self.heads.with_unsafe(ref).with_derived(ref, concluding)

    def promote(self, ref: L2BlockRef, concluding: bool, derived_from: L1BlockRef) -> None:
        """Note that a block of the chain is as derived: it is pending safe, or safe when it concludes its batch."""
        if self.heads is None:
            return
        self.heads = self.heads.with_derived(ref, concluding)
        if concluding:
            self.backup_unsafe_head = None
        self.promoted_from = None if self.forkchoice_due() is None else derived_from
        self._moved()

    def drop_pending(self) -> None:
        """Drop the rest of a batch: the pending safe head goes back, and a displaced tip is tried again."""
        if self.heads is not None:
            self.restoring_backup = self.backup_unsafe_head is not None
            self.heads = self.heads.without_pending()
            self._moved()

    def finalize(self, ref: L2BlockRef) -> None:
        """Note that a safe block is final; ignored where that would be no step forward [FIN7]."""
        if self.heads is not None:
            self.heads = self.heads.with_finalized(ref)

    def promote_cross(self, safe: L2BlockRef | None, unsafe: L2BlockRef | None) -> None:
        """Note what is safe, or unsafe and verified, across chains; the verified one is not behind the safe one."""
        if self.heads is None:
            return
        heads = self.heads if safe is None else msgspec.structs.replace(self.heads, cross_safe=safe)
        if unsafe is None and safe is not None and safe.number > (heads.cross_unsafe or safe).number:
            unsafe = safe
        self.heads = heads if unsafe is None else msgspec.structs.replace(heads, cross_unsafe=unsafe)
        self._moved()

    def follow(self, heads: Heads) -> None:
        """Note that the heads of a follow source are in force."""
        self.heads = heads
        self._moved()

    def _moved(self) -> None:
        """Announce moves for which the engine needs no update: those of the pending safe head."""
        if self.forkchoice_due() is None:
            self.announced = self.heads

    def forkchoice_due(self) -> engine_api.ForkchoiceUpdate | None:
        """Return the forkchoice update that the engine needs; None if it has accepted these heads."""
        if self.heads is None:
            return None
        wanted = self.heads.forkchoice()
        if self.restoring_backup and self.backup_unsafe_head is not None:
            return engine_api.ForkchoiceUpdate(msgspec.structs.replace(wanted, head=self.backup_unsafe_head.hash))
        return None if wanted == self.accepted else engine_api.ForkchoiceUpdate(wanted)

    def distrust(self) -> None:
        """Note that the engine may have lost the heads that it accepted: an update is due again [ENG38]."""
        self.accepted = None

    def accept(self, sent: Forkchoice) -> None:
        """Note that the engine has accepted an update, perhaps with attributes."""
        self.accepted = sent
        if self.heads is not None and self.heads.forkchoice() == sent:
            self.announced = self.heads

    def answer(self, call: engine_api.ForkchoiceUpdate, answer: object) -> None:
        """Take the answer to the update. Raises TemporaryError when it is due again, and ResetError."""
        if self.restoring_backup and self.backup_unsafe_head is not None:
            self._answer_restore(self.backup_unsafe_head, call.forkchoice, answer)
            return
        raise_unless_done(engine_api.forkchoice_result(answer))
        self.accept(call.forkchoice)
        self.promoted_from = None

    def _answer_restore(self, backup_unsafe_head: L2BlockRef, sent: Forkchoice, answer: object) -> None:
        """Note that the displaced tip is back or given up, unless the engine could not decide [ENG35]."""
        result = engine_api.forkchoice_result(answer)
        if result.status is engine_api.CallStatus.RETRY:
            raise TemporaryError(result.text, Code.ENGINE_ANSWER)
        self.backup_unsafe_head, self.restoring_backup = None, False
        if result.status is engine_api.CallStatus.DONE:
            self.advance(backup_unsafe_head)
            self.accept(sent)
        elif isinstance(answer, engine_api.ErrorAnswer):
            raise ResetError(result.text)


def raise_unless_done(result: engine_api.CallResult) -> None:
    """Raise ResetError where a reset follows from an answer, TemporaryError where another try does."""
    if result.status is engine_api.CallStatus.RESET:
        raise ResetError(result.text)
    if result.status is not engine_api.CallStatus.DONE:
        raise TemporaryError(result.text, Code.ENGINE_ANSWER)
