"""Upgrade transactions, which an activation block has after its deposits [UPG1 to UPG22, ATT9].

They are bundles in the files of `forks`, each locked by its SHA-256: up to Jovian `upgrades_<fork>.json`, written by
`tools/importers/upgrades.py`; then those of op-node's repository."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from rollup_node.stages.protocol import forks
from rollup_node.stages.protocol.config import RollupConfig, UpgradeBundle
from rollup_node.stages.protocol.deposits import DepositTransaction, encode_deposit, upgrade_source_hash
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, SELECTABLE, CarriedBundle
from rollup_node.stages.protocol.forks.rules import Activation
from rollup_node.stages.protocol.types import ETH_LIQUIDITY, L1_ATTRIBUTES_DEPOSITOR, L1_BLOCK
from rollup_node.stages.protocol.upgrade_bundle import BundleError, BundleFile, parse_bundle

LOCKS: dict[str, str] = {
    "ecotone": "f09dbf109ff91c5bdca66ad5516d1d497f0023ff34e50c2324894aeb44ab586e",
    "fjord": "10fa139de1fe21673034be4fc8c3bb27e6c4afbe19b4ed58a31526209c40d79f",
    "isthmus": "0857468135b0b66132e557de23d16f9bd7d62ffa09aa0e0cc77f44da7e7565be",
    "jovian": "ae927e15c188fa6f45d3931e505b3e62e0e7ec6c31ce9b189de5bb2af41332ba",
}
"""The SHA-256 of the files of forks that have no bundle of op-node's."""


def upgrade_transactions(config: RollupConfig, activations: Iterable[Activation]) -> tuple[bytes, ...]:
    """Return an activation block's upgrade transactions in fork order, wrapped if chains are linked [UPG18]."""
    result: list[bytes] = []
    for activation in activations:
        if activation.bundle is None:
            continue
        transactions = bundle_of(config, activation.bundle).transactions
        if config.dependency_set_size > 1 and activation.wrapped_if_linked:
            transactions = (SET_FEATURE, *transactions, FUND)
        result += transactions
    return tuple(result)


def upgrade_gas(config: RollupConfig, activations: Iterable[Activation]) -> int:
    """Return the gas that is added to an activation block's limit [ATT25]."""
    return sum(
        bundle_of(config, activation.bundle).gas
        for activation in activations
        if activation.bundle is not None and activation.extra_gas
    )


def upgrade_gas_to_subtract(config: RollupConfig, activations: Iterable[Activation]) -> int:
    """Return the gas to subtract from an activation block's limit when its config is read back [ATT26 to ATT28]."""
    keep = config.keep_karst_upgrade_gas
    return upgrade_gas(
        config, (activation for activation in activations if not (keep and activation.extra_gas_may_be_kept))
    )


def bundle_of(config: RollupConfig, fork: str) -> UpgradeBundle:
    """Return the upgrade transactions of a fork: those that were chosen for the chain, or the package's."""
    return config.bundles.get(fork) or load_bundle(fork)


PROVEN_SECONDS = 86_400
"""A safe head so long after a fork comes from batches that build on the activation block: the blocks of one batch lie
in one sequencing window."""


class ForkBundle(NamedTuple):
    """The bundle of a fork that may be wrong, and the time in seconds at which the chain's fork activates."""

    fork: str
    time: int
    bundle: UpgradeBundle

    def is_proven(self, safe_time: int) -> bool:
        """Whether a chain with a safe head of this time has a right bundle, or has left the network long ago."""
        return safe_time >= self.time + PROVEN_SECONDS


def selectable_bundles(config: RollupConfig) -> tuple[ForkBundle, ...]:
    """Return the bundles with which this chain would leave the network if they were wrong [UPG22].

    They are those of forks that activate after its genesis, where another one can be chosen."""
    times = {fork: config.fork_times.get(fork, 0) for fork in SELECTABLE}
    return tuple(
        ForkBundle(fork, time, bundle_of(config, fork)) for fork, time in times.items() if time > config.genesis.l2_time
    )


def unconfirmed_bundles(config: RollupConfig) -> tuple[ForkBundle, ...]:
    """Those of them that neither a release nor the operator confirms."""
    return tuple(
        selectable_bundle
        for selectable_bundle in selectable_bundles(config)
        if not selectable_bundle.bundle.confirmed_by
    )


@cache
def load_bundle(fork: str) -> UpgradeBundle:
    """Return the package's upgrade transactions of a fork, read once. Raises CriticalError if they fail their lock."""
    if fork in BUNDLE_FORKS:
        return carried_bundle(fork, BUNDLE_FORKS[fork].carried[0])
    file = _file(fork, f"upgrades_{fork}.json", LOCKS[fork])
    return UpgradeBundle(file.encode(""), file.gas)


@cache
def carried_bundle(fork: str, carried: CarriedBundle) -> UpgradeBundle:
    """Return a bundle that the package carries. Raises CriticalError if its file is not that of the table."""
    return encode_bundle(fork, carried_file(fork, carried), carried.origin, carried.confirmed_by)


def carried_file(fork: str, carried: CarriedBundle) -> BundleFile:
    """Return the file of a bundle that the package carries. Raises CriticalError if it is not that of the table."""
    return _file(fork, carried.file, carried.sha256)


def _file(fork: str, name: str, sha256: str) -> BundleFile:
    try:
        file = parse_bundle(_content(name))
    except BundleError as error:
        raise CriticalError(f"the file of {fork}'s upgrade transactions cannot be read: {error}") from None
    # A changed file would fork the node off the chain at the upgrade.
    if file.sha256 != sha256:
        raise CriticalError(f"the file of {fork}'s upgrade transactions was changed: install the package again")
    return file


def encode_bundle(fork: str, file: BundleFile, text: str, confirmed_by: str) -> UpgradeBundle:
    """Return the upgrade transactions of a bundle, for a fork that has one."""
    rules = BUNDLE_FORKS[fork]
    gas = file.gas + (rules.reserved_gas if file.extra_gas is None else file.extra_gas)
    return UpgradeBundle(file.encode(rules.label), gas, file.sha256, text, confirmed_by)


def _content(name: str) -> bytes:
    return files(forks).joinpath(name).read_bytes()


def _wrapper(intent: str, to: bytes, gas: int, data: bytes, amount: int = 0) -> bytes:
    source = upgrade_source_hash(intent)
    return encode_deposit(DepositTransaction(source, L1_ATTRIBUTES_DEPOSITOR, to, amount, amount, gas, False, data))


SET_FEATURE = _wrapper(
    "Interop pre: setFeature(INTEROP)", L1_BLOCK, 100_000, bytes.fromhex("46a4d780") + b"INTEROP".ljust(32, b"\0")
)
FUND = _wrapper("Interop post: ETHLiquidity Funding", ETH_LIQUIDITY, 50_000, bytes.fromhex("b60d4288"), (1 << 128) - 1)
"""The transactions before and after Lagoon's bundle on a chain whose dependency set has other chains [UPG18]."""
