"""Compares the chain's activation block of a fork with this node's upgrade transactions [UPG24 to UPG26]."""

import hashlib

import msgspec

from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import BatchParent
from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.consolidation import ComparedField, mismatches
from rollup_node.stages.protocol.deposits import DepositError
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, SELECTABLE, CarriedBundle
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, Hash
from rollup_node.stages.protocol.upgrade_bundle import entries_of_deposits, first_difference, write_bundle

_FOLLOW_FROM_THE_BUNDLE = frozenset(
    {ComparedField.TRANSACTION_COUNT, ComparedField.TRANSACTION, ComparedField.GAS_LIMIT}
)

MAX_TRANSACTIONS = 256
"""Upgrade transactions of a block that are looked at; bundles have 30."""


class OtherUpgrade(msgspec.Struct, frozen=True):
    """A block at the activation of `fork` that has other upgrade transactions than ours.

    `file` is their bundle as the option takes it, `carried` the bundle of this package that has the same transactions.
    `same_bundle`: it is ours, and only the transactions around it differ, which follow from the dependency set
    [UPG18]."""

    fork: str
    number: int
    hash: Hash
    difference: str
    used: str
    file: bytes
    sha256: str
    carried: CarriedBundle | None = None
    same_bundle: bool = False

    @property
    def text(self) -> str:
        """What is wrong, for an operator."""
        where = f"; its bundle is in --rollup.bundle-dir: {self.file_name} (--rollup.{self.fork}-bundle)"
        if self.same_bundle:
            where = " (--interop.dependency-set)"
        return (
            f"derivation waits before block {self.block}, which activates {self.fork} with other upgrade transactions"
            f" than bundle {self.used[:8]}: {self.difference}{where}"
        )

    @property
    def block(self) -> BlockId:
        """The block that has them."""
        return BlockId(self.number, self.hash)

    @property
    def file_name(self) -> str:
        """The name of the file to which its bundle is written [UPG25]."""
        return f"{self.fork}_bundle_{self.sha256[:8]}.json"


def has_selectable_bundle(rollup: RollupConfig, time: int) -> bool:
    """Return whether a block of this time activates a fork whose bundle can be chosen."""
    return any(item.bundle in SELECTABLE for item in rollup.schedule().activations(time))


def other_upgrade(
    rollup: RollupConfig, attributes: PayloadAttributes, parent_hash: Hash, block: ExecutionPayload
) -> OtherUpgrade | None:
    """Return the other upgrade of a block of the chain, if it differs in a bundle alone; else None [UPG24]."""
    activations = rollup.schedule().activations(attributes.timestamp)
    forks = [activation.bundle for activation in activations if activation.bundle is not None]
    if len(forks) != 1 or forks[0] not in SELECTABLE:
        return None
    fork, ours = forks[0], upgrades.upgrade_transactions(rollup, activations)
    before = attributes.transactions[: len(attributes.transactions) - len(ours)]
    theirs = block.transactions[len(before) :]
    if block.transactions[: len(before)] != before or not 0 < len(theirs) <= MAX_TRANSACTIONS:
        return None
    fields = {item.field for item in mismatches(rollup, attributes, parent_hash, block)}
    if not fields or fields - _FOLLOW_FROM_THE_BUNDLE:
        return None
    gas = block.gas_limit - attributes.gas_limit + upgrades.upgrade_gas(rollup, activations)
    return _described(rollup, fork, block, theirs, gas)


def _described(
    rollup: RollupConfig, fork: str, block: ExecutionPayload, theirs: tuple[bytes, ...], gas: int
) -> OtherUpgrade | None:
    """`gas` is the gas that the block adds to its limit."""
    used, rules = upgrades.bundle_of(rollup, fork), BUNDLE_FORKS[fork]
    linked = rollup.dependency_set_size > 1
    wrapped = len(theirs) > 2 and (theirs[0], theirs[-1]) == (upgrades.SET_FEATURE, upgrades.FUND)
    bundle = theirs[1:-1] if wrapped else theirs
    intents = [entry.intent for item in rules.carried for entry in upgrades.carried_file(fork, item).entries]
    try:
        entries = entries_of_deposits(bundle, rules.label, intents)
    except DepositError:
        return None
    extra_gas = gas - sum(entry.gas for entry in entries)
    file = write_bundle(entries, None if extra_gas == rules.reserved_gas else max(0, extra_gas))
    difference = first_difference(used.transactions, bundle)
    same_bundle = not difference and gas == used.gas
    if same_bundle:
        difference = f"it {'has' if wrapped else 'lacks'} the transactions of a chain with others in its dependency set"
        if wrapped is linked:
            return None
    others = [] if same_bundle else rules.carried
    carried = (other for other in others if upgrades.carried_bundle(fork, other).transactions == bundle)
    return OtherUpgrade(
        fork,
        block.block_number,
        block.block_hash,
        difference or f"the gas limit leaves {gas} for them instead of {used.gas}",
        used.sha256,
        file,
        hashlib.sha256(file).hexdigest(),
        next((item for item in carried if upgrades.carried_bundle(fork, item).gas == gas), None),
        same_bundle,
    )


class ActivationHold:
    """Derivation waits before the block `other`, which is looked at again each time that derivation asks.

    What later batches name as their parents is compared with the chain: it is `confirmed` when one names a block of it
    from `other` on, and contradicted when none does and one names another block of the height of `other`.

    `own`: the block was safe when the engine process started, so this node has derived it before. Another block of any
    later height contradicts it as well then: what was derived after it came from the batches that now name another."""

    def __init__(self, other: OtherUpgrade, own: bool = False) -> None:
        self.other, self.own = other, own
        self.confirmed = self.look_again = False
        self._later: list[BatchParent] = []
        self._matched = self._denied = False

    def add(self, parents: tuple[BatchParent, ...]) -> None:
        """Note that derivation asks again, with what L1 says by now."""
        self.look_again, self._denied = True, False
        self._compare([parent.hash for parent in parents if parent.number == self.other.number], self.other.hash)
        self._later = [parent for parent in parents if parent.number > self.other.number]

    def due(self, unsafe: int) -> int | None:
        """Return the number of the block that a parent is to be compared with; None if none can be."""
        if self._matched:
            return None
        return next((item.number for item in self._later if item.number <= unsafe), None)

    def compare(self, number: int, value: Hash | None) -> None:
        """Take the hash of the chain's block of that number; None if the engine lacks it."""
        named = [item.hash for item in self._later if item.number == number]
        self._later = [item for item in self._later if item.number != number]
        if value is not None:
            self._compare(named, value)

    def _compare(self, named: list[Hash], value: Hash) -> None:
        """L1 keeps batches on blocks that the sequencer has replaced: only without one on this chain do they count."""
        if any(map(value.startswith, named)):
            self._matched = self.look_again = True
        elif named and (self.own or value == self.other.hash):
            self._denied = True

    def seen_again(self) -> None:
        """Note that the chain still has the block: what was compared before counts."""
        self.look_again = False
        self.confirmed = self._matched

    def contradicted(self, unsafe: int) -> bool:
        """Return whether what L1 names is not on this chain, which goes up to `unsafe`."""
        return self._denied and not self._matched and self.due(unsafe) is None

    @property
    def problem(self) -> Problem:
        """The health problem [UPG24]."""
        by_l1 = "; a later batch on L1 builds on that block" if self.confirmed else ""
        return Problem(Code.BUNDLE_DIFFERS, "", f"{self.other.text}{by_l1}")
