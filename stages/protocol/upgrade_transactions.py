"""Upgrade transactions: what an activation block carries besides its deposits (attributes-rules 5).

They are data in files beside this module, written by `tools/importers/upgrades.py` and locked by a hash here.
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
"""Keccak of all encoded transactions of each bundle in a row."""


class UpgradeEntry(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """An upgrade transaction as the file holds it: hex for bytes, decimal text for amounts beyond 64 bits."""

    intent: str
    sender: str
    to: str | None
    gas: int
    data: str
    mint: str = "0"
    value: str = "0"


class UpgradeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bundle file. `linked_before` and `linked_after` are sent by chains of a larger dependency set only, but room
    for them is made (`reserved_gas`) in any case."""

    fork: str
    source: str
    transactions: tuple[UpgradeEntry, ...]
    linked_before: tuple[UpgradeEntry, ...] = ()
    linked_after: tuple[UpgradeEntry, ...] = ()
    reserved_gas: int = 0


class Bundle(msgspec.Struct, frozen=True):
    """A fork's encoded upgrade transactions; `gas` is what they need together."""

    linked_before: tuple[bytes, ...]
    transactions: tuple[bytes, ...]
    linked_after: tuple[bytes, ...]
    gas: int


def upgrade_transactions(activations: Iterable[Activation], linked: bool = False) -> tuple[bytes, ...]:
    """The upgrade transactions of an activation block in order; `linked` when the dependency set has other chains."""
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
    """Gas added to an activation block's limit (4.4)."""
    return sum(load_bundle(each.bundle).gas for each in activations if each.bundle is not None and each.extra_gas)


def upgrade_gas_to_subtract(activations: Iterable[Activation], keep: bool) -> int:
    """Gas to take from an activation block's limit when its system config is read back; `keep` is the chain's
    keep_karst_upgrade_gas."""
    return upgrade_gas(each for each in activations if not (keep and each.extra_gas_may_be_kept))


@cache
def load_bundle(name: str) -> Bundle:
    """Reads a bundle and checks it against its lock."""
    content = files(forks).joinpath(f"upgrades_{name}.json").read_bytes()
    try:
        file = msgspec.json.decode(content, type=UpgradeFile)
        bundle = encode_bundle(file)
    except (msgspec.DecodeError, HexError, ValueError) as error:
        raise CriticalError(f"the file of {name}'s upgrade transactions cannot be read: {error}") from None
    if bundle_lock(bundle) != LOCKS[name]:
        raise CriticalError(f"the file of {name}'s upgrade transactions was changed: install the package again")
    return bundle


def encode_bundle(file: UpgradeFile) -> Bundle:
    """The deposit transactions of a bundle file."""
    return Bundle(
        linked_before=tuple(map(encode_entry, file.linked_before)),
        transactions=tuple(map(encode_entry, file.transactions)),
        linked_after=tuple(map(encode_entry, file.linked_after)),
        gas=sum(entry.gas for entry in file.transactions) + file.reserved_gas,
    )


def encode_entry(entry: UpgradeEntry) -> bytes:
    """One upgrade transaction; its source hash follows from its intent."""
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
    """Keccak of all transactions of a bundle in a row, in hex."""
    return keccak256(b"".join((*bundle.linked_before, *bundle.transactions, *bundle.linked_after))).hex()
