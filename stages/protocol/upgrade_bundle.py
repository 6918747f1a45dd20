"""Upgrade bundles: op-node's files of a fork's upgrade transactions [UPG10 to UPG12], checked by themselves [UPG21]."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from rollup_node.stages.protocol.deposits import DepositTransaction, decode_deposit, encode_deposit, upgrade_source_hash
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.hex_encoding import HexError, address_from_hex, from_hex, from_hex_sized, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import CONDITIONAL_DEPLOYER, L1_ATTRIBUTES_DEPOSITOR, PROXY_ADMIN, Address, Hash

MAX_BUNDLE_BYTES = 4 << 20
VERSION, VERSION_WITH_EXTRA_GAS = "1.0.0", "1.1.0"
U64_LIMIT = 1 << 64
MAX_GAS = (1 << 62) - 1
"""Engines take block gas limits below 2^63; the chain's own limit comes on top."""

CREATE2_FACTORY: Address = bytes.fromhex("4e59b44847b379578588920ca78fbf26c0b4956c")
DEPLOY_SELECTOR = bytes.fromhex("cdcb760a")
"""`deploy(bytes32,bytes)` of the ConditionalDeployer: salt, offset and length of the init code, init code."""
UPGRADE_SELECTOR = bytes.fromhex("7c36f37e")
"""`upgradePredeploys(address)` of the L2 ProxyAdmin."""
_HEAD = 4 + 3 * 32
_INTENT = "Deploy ", " Implementation"


class BundleError(ValueError):
    """The file is no bundle, or breaks a rule."""


class _Metadata(msgspec.Struct, frozen=True, omit_defaults=True, rename={"extra_gas": "extraGas"}):
    version: str
    extra_gas: int | None = None


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A transaction in the file, with its keys in the order of the file.

    `sourceHash` is no part of op-node's format: a bundle that was read out of a block has it where the intent is not
    known [UPG25]."""

    data: str
    sender: str = msgspec.field(name="from")
    gas: int = msgspec.field(name="gasLimit")
    intent: str = ""
    source_hash: str | None = msgspec.field(name="sourceHash", default=None)
    to: str | None = None


class _File(msgspec.Struct, frozen=True):
    metadata: _Metadata
    transactions: tuple[_Entry, ...]


class BundleEntry(NamedTuple):
    """A transaction of a bundle; `source_hash` is None where it follows from the intent."""

    intent: str
    sender: Address
    to: Address | None
    gas: int
    data: bytes
    source_hash: Hash | None = None

    def encode(self, label: str, index: int) -> bytes:
        """Return the deposit [UPG11]."""
        source = self.source_hash or upgrade_source_hash(f"{label} {index}: {self.intent}")
        return encode_deposit(DepositTransaction(source, self.sender, self.to, 0, 0, self.gas, False, self.data))


class Deployment(NamedTuple):
    """A contract that an entry deploys. `name` is that in the intent, empty where the intent says none."""

    name: str
    salt: Hash
    init_code: bytes

    @property
    def address(self) -> Address:
        """Where CREATE2 puts it [UPG21]."""
        return keccak256(b"\xff" + CREATE2_FACTORY + self.salt + keccak256(self.init_code))[12:]


class BundleFile(NamedTuple):
    """A bundle as its file says it. `extra_gas` is None where the version of the format has none [ATT32]."""

    sha256: str
    entries: tuple[BundleEntry, ...]
    extra_gas: int | None = None

    @property
    def gas(self) -> int:
        """The sum of the transactions' gas limits."""
        return sum(entry.gas for entry in self.entries)

    def encode(self, label: str) -> tuple[bytes, ...]:
        """Return the deposits, in the order of the file [UPG11]."""
        return tuple(entry.encode(label, index) for index, entry in enumerate(self.entries))


def parse_bundle(content: bytes) -> BundleFile:
    """Return the bundle in a file. Raises BundleError for anything else [UPG10, UPG11]."""
    if len(content) > MAX_BUNDLE_BYTES:
        raise BundleError(f"longer than {MAX_BUNDLE_BYTES} bytes [UPG10]")
    try:
        file = msgspec.json.decode(content, type=_File)
    except DECODE_ERRORS as error:
        raise BundleError(f"not a bundle of upgrade transactions: {error} [UPG10]") from None
    version, extra_gas = file.metadata.version, file.metadata.extra_gas
    if version not in (VERSION, VERSION_WITH_EXTRA_GAS):
        raise BundleError(f"its version is {version[:40]!r}, not {VERSION} or {VERSION_WITH_EXTRA_GAS} [UPG10]")
    if version == VERSION and extra_gas:
        raise BundleError(f"version {VERSION} has no extraGas [UPG10]")
    if extra_gas is not None and not 0 <= extra_gas < U64_LIMIT:
        raise BundleError(f"its extraGas is {extra_gas}, which has more than 64 bits [UPG10]")
    if not file.transactions:
        raise BundleError("it has no transactions [UPG10]")
    entries = tuple(_entry(index, entry) for index, entry in enumerate(file.transactions))
    bundle = BundleFile(hashlib.sha256(content).hexdigest(), entries, None if version == VERSION else extra_gas or 0)
    if bundle.gas + (extra_gas or 0) > MAX_GAS:
        raise BundleError("its gas is more than any block's limit can be [UPG10]")
    return bundle


def _entry(index: int, entry: _Entry) -> BundleEntry:
    if not entry.intent:
        raise BundleError(f"transaction {index} has no intent [UPG11]")
    if not 0 <= entry.gas < U64_LIMIT:
        raise BundleError(f"the gas limit of transaction {index} has more than 64 bits [UPG10]")
    try:
        return BundleEntry(
            entry.intent,
            address_from_hex(entry.sender),
            address_from_hex(entry.to) if entry.to else None,
            entry.gas,
            from_hex(entry.data),
            None if entry.source_hash is None else from_hex_sized(entry.source_hash, 32),
        )
    except HexError as error:
        raise BundleError(f"transaction {index} ({entry.intent[:80]}): {error} [UPG10]") from None


def write_bundle(entries: tuple[BundleEntry, ...], extra_gas: int | None = None) -> bytes:
    """Return the file of these transactions, in the form of op-node's generator.

    Equal transactions give an equal SHA-256. With `extra_gas` it is of the version that has it."""
    metadata = _Metadata(VERSION) if extra_gas is None else _Metadata(VERSION_WITH_EXTRA_GAS, extra_gas)
    rows = [
        _Entry(
            to_hex(entry.data),
            checksum_address(entry.sender),
            entry.gas,
            entry.intent,
            None if entry.source_hash is None else to_hex(entry.source_hash),
            None if entry.to is None else checksum_address(entry.to),
        )
        for entry in entries
    ]
    # The generator sorts its keys: extraGas comes before version.
    result = {"metadata": dict(sorted(msgspec.to_builtins(metadata).items())), "transactions": rows}
    return msgspec.json.format(msgspec.json.encode(result), indent=2)


def checksum_address(address: Address) -> str:
    """Return an address in mixed case [EIP-55]."""
    digits = address.hex()
    digest = keccak256(digits.encode()).hex()
    return "0x" + "".join(c.upper() if int(d, 16) > 7 else c for c, d in zip(digits, digest, strict=False))


def deployments(file: BundleFile) -> Iterator[tuple[int, Deployment]]:
    """Return the contracts that the bundle deploys, each with its entry's index. Raises BundleError."""
    for index, entry in enumerate(file.entries):
        if entry.data.startswith(DEPLOY_SELECTOR):
            yield index, _deployment(index, entry)


def _deployment(index: int, entry: BundleEntry) -> Deployment:
    data = entry.data
    offset, length = (int.from_bytes(data[start : start + 32], "big") for start in (36, 68))
    padded = _HEAD + -(-length // 32) * 32
    if offset != 64 or len(data) != padded or any(data[_HEAD + length :]):
        raise BundleError(
            f"transaction {index} ({entry.intent}) is not a call of deploy(bytes32,bytes) with one init code and"
            f" its padding [UPG21.1]"
        )
    before, after = _INTENT
    named = entry.intent.startswith(before) and entry.intent.endswith(after)
    name = entry.intent[len(before) : -len(after)] if named else ""
    return Deployment(name, data[4:36], data[_HEAD : _HEAD + length])


def check_bundle(file: BundleFile) -> None:
    """Raise BundleError with the first rule that the bundle breaks.

    A slip in any contract's code breaks one; gas limits, order and intents are proven by the hash of the file alone
    [UPG21]."""
    result = dict(deployments(file))
    last, entry = len(file.entries) - 1, file.entries[-1]
    for index in result:
        _check_call(index, file.entries[index], CONDITIONAL_DEPLOYER, "UPG21.1")
    _check_call(last, entry, PROXY_ADMIN, "UPG21.3")
    if len(entry.data) != 36 or not entry.data.startswith(UPGRADE_SELECTOR) or any(entry.data[4:16]):
        raise BundleError(f"transaction {last} ({entry.intent}) does not call upgradePredeploys(address) [UPG21.3]")
    named = entry.data[16:]
    managers = [(index, item) for index, item in result.items() if item.address == named]
    if not managers:
        raise BundleError(
            f"transaction {last} ({entry.intent}) names {to_hex(named)}, which no transaction deploys: the init code of"
            " L2ContractsManager or this call was changed [UPG21.3]"
        )
    manager_index, manager = managers[-1]
    names = manager_names(manager)
    for index, item in result.items():
        if index == manager_index:
            continue
        if bytes(12) + item.address not in manager.init_code:
            raise BundleError(
                f"transaction {index} ({file.entries[index].intent}) deploys {to_hex(item.address)}, which the"
                " arguments of L2ContractsManager do not name: its init code was changed [UPG21.2]"
            )
        known = names.get(item.address, ())
        if known and item.name not in known:
            raise BundleError(
                f"transaction {index} ({file.entries[index].intent}) deploys what L2ContractsManager calls"
                f" {' or '.join(known)} [UPG21.2]"
            )


def _check_call(index: int, entry: BundleEntry, to: Address, rule: str) -> None:
    if (entry.sender, entry.to) != (L1_ATTRIBUTES_DEPOSITOR, to):
        wanted = f"{to_hex(L1_ATTRIBUTES_DEPOSITOR)} to {to_hex(to)}"
        raise BundleError(f"transaction {index} ({entry.intent}) is not from {wanted} [{rule}]")


_NAME_OFFSET = (64).to_bytes(32, "big")
MAX_NAME = 64


def manager_names(manager: Deployment) -> dict[Address, tuple[str, ...]]:
    """Return the contracts that the arguments of L2ContractsManager name, by address.

    An argument is the offset of the name, the address, and the name. Two contracts of the same code share an address.
    Empty for a manager without names."""
    result: dict[Address, tuple[str, ...]] = {}
    code = manager.init_code
    at = code.find(_NAME_OFFSET)
    while at >= 0:
        head = code[at + 32 : at + 96]
        length = int.from_bytes(head[32:], "big")
        name = code[at + 96 : at + 96 + length] if 0 < length <= MAX_NAME else b""
        if len(head) == 64 and not any(head[:12]) and len(name) == length and name.isalnum():
            result[head[12:32]] = (*result.get(head[12:32], ()), name.decode())
        at = code.find(_NAME_OFFSET, at + 1)
    return result


def entries_of_deposits(deposits: Iterable[bytes], label: str, intents: Iterable[str]) -> tuple[BundleEntry, ...]:
    """Return the entries of a bundle whose deposits a block has.

    A block has no intents: each is the one of `intents`, or of the names in the manager's arguments, that gives the
    source hash; where none does, the entry keeps the source hash [UPG25]. Raises DepositError for another
    transaction."""
    decoded = [decode_deposit(raw) for raw in deposits]
    plain = tuple(BundleEntry("", item.sender, item.to, item.gas, item.data, item.source_hash) for item in decoded)
    before, after = _INTENT
    names: set[str] = set()
    with suppress(BundleError):
        for _, item in deployments(BundleFile("", plain)):
            names.update(*manager_names(item).values())
    known = [*dict.fromkeys(intents), *(f"{before}{name}{after}" for name in sorted(names))]
    return tuple(_with_intent(entry, label, index, known) for index, entry in enumerate(plain))


def _with_intent(entry: BundleEntry, label: str, index: int, known: Iterable[str]) -> BundleEntry:
    for intent in known:
        if upgrade_source_hash(f"{label} {index}: {intent}") == entry.source_hash:
            return entry._replace(intent=intent, source_hash=None)
    return entry._replace(intent=f"unknown intent {index}")


def first_difference(ours: tuple[bytes, ...], theirs: tuple[bytes, ...]) -> str:
    """Return the first transaction in which two bundles differ, in an operator's words; empty if equal."""
    for index, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            return f"transaction {index}: {_difference(decode_deposit(our), decode_deposit(their))}"
    if len(ours) != len(theirs):
        return f"{len(theirs)} transactions instead of {len(ours)}"
    return ""


def _difference(our: DepositTransaction, their: DepositTransaction) -> str:
    for name in ("data", "gas", "to", "sender", "mint", "value", "source_hash"):
        mine, other = getattr(our, name), getattr(their, name)
        if mine == other:
            continue
        if name == "data":
            at = next(
                (i for i, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]),
                min(len(mine), len(other)),
            )
            return f"its data has {len(other)} bytes instead of {len(mine)}, and differs from byte {at}"
        shown = [to_hex(item) if isinstance(item, bytes) else str(item) for item in (other, mine)]
        return f"its {name.replace('_', ' ')} is {shown[0]} instead of {shown[1]}"
    return "its encoding differs"
