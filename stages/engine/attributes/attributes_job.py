"""Derived attributes on their way into the engine, and why an engine loses a build.

An engine that loses builds is asked for the first transactions of the attributes alone, fewer or more of them, until it
is known how many it builds. Their block says how much gas they use; if the transaction behind them wants more than is
left, that is the proof that the attributes are invalid [ATT49].
"""

from enum import Enum

import msgspec

from rollup_node.stages.engine.attributes.activation_hold import ActivationHold
from rollup_node.stages.engine.calls.heads import L2BlockInfo
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.deposits import DepositError, decode_deposit, is_deposit
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.transactions import TransactionError, decode_transaction
from rollup_node.stages.protocol.types import Hash

LOST_BUILDS = 2
"""The builds that an engine must have lost before it is asked."""


class BuildProbe:
    """The engine builds the first `_built` transactions, which use `_gas`, and does not build the first `_lost`."""

    def __init__(self, attributes: PayloadAttributes) -> None:
        self._whole = attributes
        deposits = sum(map(is_deposit, attributes.transactions))
        self._built, self._lost, self._gas = deposits - 1, len(attributes.transactions), 0

    @property
    def attributes(self) -> PayloadAttributes:
        """The attributes that are to be built."""
        return msgspec.structs.replace(self._whole, transactions=self._whole.transactions[: self._count])

    @property
    def done(self) -> bool:
        """Whether it is known which transaction the engine does not build."""
        return self._lost - self._built == 1

    def built(self, gas_used: int) -> None:
        """Note that the engine has built these attributes."""
        self._built, self._gas = self._count, gas_used

    def lost(self) -> None:
        """Note that the engine has lost their build."""
        self._lost = self._count

    def proof(self) -> str | None:
        """Return why no engine builds the block; None if the gas is no reason."""
        wanted = _gas_limit(self._whole.transactions[self._built])
        left = self._whole.gas_limit - self._gas
        if self._gas == 0 or wanted <= left:
            return None
        return f"transaction {self._built} has a gas limit of {wanted}, and those before it leave {left}"

    @property
    def _count(self) -> int:
        return (self._built + self._lost) // 2


def may_lack_gas(attributes: PayloadAttributes) -> bool:
    """Return whether the transactions of derived attributes together want more gas than their block has."""
    return sum(map(_gas_limit, attributes.transactions)) > attributes.gas_limit


def _gas_limit(raw: bytes) -> int:
    """Return the gas limit; 0 of a transaction that an engine may know and the node does not."""
    try:
        return decode_deposit(raw).gas if is_deposit(raw) else decode_transaction(raw).gas
    except (DepositError, TransactionError):
        return 0


class AttributesStep(Enum):
    """How far a job is."""

    CONSOLIDATE = "consolidate"
    HOLD = "hold"
    COMPARE = "compare"
    START = "start"
    SEAL = "seal"
    INSERT = "insert"
    CHOOSE = "choose"


class AttributesJob(msgspec.Struct):
    """Attributes on their way into the engine; `attributes` are those of `derived` or their deposits only.

    `sealed` is what is known of `payload` before the engine has taken it, and `inserted` after that; `following` are
    the attributes that the update to their block carries, unless the two are asked `apart`. `failed`: the engine
    neither built the block nor said that it is invalid; `lost` counts the builds that it began and did not return,
    until it is asked by a `probe` why. `suspects` are denied blocks that may be that of the attributes, and `present`
    is the block in its place."""

    derived: AttributesReady
    attributes: PayloadAttributes
    step: AttributesStep
    payload_id: bytes = b""
    payload: ExecutionPayload | None = None
    sealed: L2BlockInfo | None = None
    inserted: L2BlockInfo | None = None
    following: AttributesReady | None = None
    apart: bool = False
    failed: bool = False
    lost: int = 0
    probe: BuildProbe | None = None
    replaced: bool = False
    reason: Problem | None = None
    hold: ActivationHold | None = None
    suspects: tuple[Hash, ...] = ()
    present: ExecutionPayload | None = None

    @property
    def block(self) -> str:
        """The block that is to be built, for people."""
        content = " of deposits alone" if self.replaced else ""
        return f"block {self.derived.parent.number + 1}{content} on {self.derived.parent}"

    @property
    def asked(self) -> PayloadAttributes:
        """The attributes that the engine is to build."""
        return self.attributes if self.probe is None else self.probe.attributes
