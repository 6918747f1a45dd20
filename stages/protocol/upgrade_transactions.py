"""Upgrade transactions, which an activation block has after its deposits [UPG1 to UPG20, ATT9].

They are data in the files `forks/upgrades_<fork>.json`, written by `tools/importers/upgrades.py` and locked by a hash
here.
"""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import msgspec

from rollup_node.stages.protocol import forks
from rollup_node.stages.protocol.deposits import DepositTransaction, encode_deposit, upgrade_source_hash
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.rules import Activation
from rollup_node.stages.protocol.hex_encoding import HexError, address_from_hex, from_hex
from rollup_node.stages.protocol.keccak import keccak256

LOCKS: dict[str, str] = {
    "ecotone": "ec1aa4d001fc132699a0ec68aa25b5872a0be9308195745f06e9db6859ab95a3",
    "fjord": "edcf6d86f081abac7efed96df33ed2119e8385d44067a2ef6b821607f523ff24",
    "isthmus": "10c8653dea3e4a54503143c2b2a83869425eaf540ca470352ed71eba40929671",
    "jovian": "d498d96826b3d1bbb48b56346a26e018f3638bad34f723e5356396eef83cdadd",
    "karst": "2f47d1bd06afb3ebf55140cc3e21eb064ede47f4c1c0f4be80469a4ed5c325cb",
    "lagoon": "4dcf9cc6843b543ecdcbcc8324e80dca92d57331b5530f8b474f0034137a9032",
}
"""By bundle: the keccak of all its encoded transactions, joined."""


class UpgradeEntry(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """An upgrade transaction in a file: hex strings for bytes, decimal strings for amounts of more than 64 bits."""

    intent: str
    sender: str
    to: str | None
    gas: int
    data: str
    mint: str = "0"
    value: str = "0"


class UpgradeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bundle file. `linked_before` and `linked_after` are for chains whose dependency set has other chains [UPG18];
    `reserved_gas` makes room for them in any case [ATT32]."""

    fork: str
    source: str
    transactions: tuple[UpgradeEntry, ...]
    linked_before: tuple[UpgradeEntry, ...] = ()
    linked_after: tuple[UpgradeEntry, ...] = ()
    reserved_gas: int = 0


class Bundle(msgspec.Struct, frozen=True):
    """A fork's encoded upgrade transactions; `gas` is the sum of their gas and the reserved gas [UPG13]."""

    linked_before: tuple[bytes, ...]
    transactions: tuple[bytes, ...]
    linked_after: tuple[bytes, ...]
    gas: int


def upgrade_transactions(activations: Iterable[Activation], linked: bool = False) -> tuple[bytes, ...]:
    """The upgrade transactions of an activation block, in fork order; `linked`: the dependency set has other chains."""
    found: list[bytes] = []
    for activation in activations:
        if activation.bundle is None:
            continue
        bundle = load_bundle(activation.bundle)
        if linked:
            found += (*bundle.linked_before, *bundle.transactions, *bundle.linked_after)
        else:
            found += bundle.transactions
    return tuple(found)


def upgrade_gas(activations: Iterable[Activation]) -> int:
    """The gas that is added to an activation block's limit [ATT25]."""
    return sum(load_bundle(each.bundle).gas for each in activations if each.bundle is not None and each.extra_gas)


def upgrade_gas_to_subtract(activations: Iterable[Activation], keep: bool) -> int:
    """The gas to subtract from an activation block's limit when its system config is read back [ATT26, ATT28]; `keep`
    is the chain's keep_karst_upgrade_gas [ATT27]."""
    return upgrade_gas(each for each in activations if not (keep and each.extra_gas_may_be_kept))


@cache
def load_bundle(name: str) -> Bundle:
    """A bundle, read once. Raises CriticalError if its file is unreadable or does not match the lock."""
    content = files(forks).joinpath(f"upgrades_{name}.json").read_bytes()
    try:
        file = msgspec.json.decode(content, type=UpgradeFile)
        bundle = encode_bundle(file)
    except (msgspec.DecodeError, HexError, ValueError) as error:
        raise CriticalError(f"the file of {name}'s upgrade transactions cannot be read: {error}") from None
    # A changed file would fork the node off the chain at the upgrade.
    if bundle_lock(bundle) != LOCKS[name]:
        raise CriticalError(f"the file of {name}'s upgrade transactions was changed: install the package again")
    return bundle


def encode_bundle(file: UpgradeFile) -> Bundle:
    """The encoded bundle of a file. Raises HexError and ValueError for a malformed entry."""
    return Bundle(
        linked_before=tuple(map(encode_entry, file.linked_before)),
        transactions=tuple(map(encode_entry, file.transactions)),
        linked_after=tuple(map(encode_entry, file.linked_after)),
        gas=sum(entry.gas for entry in file.transactions) + file.reserved_gas,
    )


def encode_entry(entry: UpgradeEntry) -> bytes:
    """One upgrade transaction; its source hash follows from its intent [UPG1]."""
    return encode_deposit(
        DepositTransaction(
            source_hash=upgrade_source_hash(entry.intent),
            sender=address_from_hex(entry.sender),
            to=None if entry.to is None else address_from_hex(entry.to),
            mint=int(entry.mint),
            value=int(entry.value),
            gas=entry.gas,
            is_system=False,
            data=from_hex(entry.data),
        )
    )


def bundle_lock(bundle: Bundle) -> str:
    """The keccak of all transactions of a bundle, joined, in hex."""
    return keccak256(b"".join((*bundle.linked_before, *bundle.transactions, *bundle.linked_after))).hex()
