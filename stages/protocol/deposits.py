"""Deposit transactions: their encoding, source hashes, and the portal's logs they are derived from
(attributes-rules 1)."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.addresses import OPTIMISTIC_BLOCK_DEPOSITOR
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import RlpError, encode_bytes, encode_int
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, Address, Hash, Log

DEPOSIT_TYPE = 0x7E
DEPOSIT_PREFIX = b"\x7e"
DEPOSIT_TOPIC: Hash = bytes.fromhex("b3813568d9991fc951961fcb4c784893574240a28925604d09fc577c55bb7c32")

_WORD_1 = (1).to_bytes(32, "big")
_WORD_2 = (2).to_bytes(32, "big")
_WORD_4 = (4).to_bytes(32, "big")
_MIN_OPAQUE = 73
_INVALIDATED_BLOCK_GAS = 36_000


class DepositError(ValueError):
    """The bytes are not a deposit transaction."""


class DepositTransaction(msgspec.Struct, frozen=True):
    """A transaction that L1 imposes on L2. `to` is None for a creation; `mint` and `value` in wei."""

    source_hash: Hash
    sender: Address
    to: Address | None
    mint: int
    value: int
    gas: int
    is_system: bool
    data: bytes


# --- source hashes (1.2) -------------------------------------------------------------------------------------------


def user_source_hash(l1_block_hash: Hash, log_index: int) -> Hash:
    """Of a user's deposit; `log_index` counts over the whole L1 block."""
    return keccak256(ZERO_HASH + keccak256(l1_block_hash + log_index.to_bytes(32, "big")))


def l1_info_source_hash(l1_block_hash: Hash, sequence_number: int) -> Hash:
    """Of the L1 attributes transaction."""
    return keccak256(_WORD_1 + keccak256(l1_block_hash + sequence_number.to_bytes(32, "big")))


def upgrade_source_hash(intent: str) -> Hash:
    """Of an upgrade transaction."""
    return keccak256(_WORD_2 + keccak256(intent.encode()))


def invalidated_source_hash(output_root: Hash) -> Hash:
    """Of the deposit that marks a replaced block; this one has no inner hash."""
    return keccak256(_WORD_4 + output_root)


# --- encoding (1.1) ------------------------------------------------------------------------------------------------


def encode_deposit(deposit: DepositTransaction) -> bytes:
    """The transaction's bytes; their keccak is its hash."""
    body = b"".join(
        (
            b"\xa0",
            deposit.source_hash,
            b"\x94",
            deposit.sender,
            b"\x80" if deposit.to is None else b"\x94" + deposit.to,
            encode_int(deposit.mint),
            encode_int(deposit.value),
            encode_int(deposit.gas),
            b"\x01" if deposit.is_system else b"\x80",
            encode_bytes(deposit.data),
        )
    )
    return DEPOSIT_PREFIX + rlp.wrap_list(body)


def decode_deposit(raw: bytes) -> DepositTransaction:
    """The inverse of `encode_deposit`; takes canonical encodings only."""
    if raw[:1] != DEPOSIT_PREFIX:
        raise DepositError("not a deposit transaction: its type is not 0x7e")
    try:
        source, sender, to, mint, value, gas, is_system, data = rlp.decode_list(raw[1:], 8)
        if is_system not in (b"", b"\x01"):
            raise RlpError("the system flag is neither 0 nor 1")
        if type(data) is not bytes:
            raise RlpError("the call data is a list")
        return DepositTransaction(
            source_hash=rlp.decode_sized(source, 32),
            sender=rlp.decode_sized(sender, 20),
            to=None if to == b"" else rlp.decode_sized(to, 20),
            mint=rlp.decode_int(mint),
            value=rlp.decode_int(value),
            gas=rlp.decode_int(gas, 64),
            is_system=is_system == b"\x01",
            data=data,
        )
    except RlpError as error:
        raise DepositError(f"malformed deposit transaction: {error}") from None


def is_deposit(raw: bytes) -> bool:
    """Whether an encoded transaction is of the deposit type; an empty one is not."""
    return raw[:1] == DEPOSIT_PREFIX


# --- the portal's logs (1.3) ---------------------------------------------------------------------------------------


class DepositCheck(StrEnum):
    """What a portal log can fail at, in the order of the checks."""

    TOPICS = "topics"
    SELECTOR = "selector"
    SHORT = "short"
    ALIGNMENT = "align"
    OFFSET = "offset"
    LENGTH = "length"
    VERSION = "version"
    OPAQUE = "opaque"


class DepositFailure(msgspec.Struct, frozen=True):
    """A portal log that is no deposit although it says so."""

    log_index: int
    check: DepositCheck
    text: str


def user_deposits(logs: Iterable[Log], l1_block_hash: Hash) -> tuple[tuple[bytes, ...], tuple[DepositFailure, ...]]:
    """The encoded deposits of an L1 block's portal logs in order, and the logs that do not decode."""
    encoded: list[bytes] = []
    failures: list[DepositFailure] = []
    for log in logs:
        result = deposit_from_log(log, l1_block_hash)
        if isinstance(result, DepositFailure):
            failures.append(result)
        else:
            encoded.append(encode_deposit(result))
    return tuple(encoded), tuple(failures)


def deposit_from_log(log: Log, l1_block_hash: Hash) -> DepositTransaction | DepositFailure:
    """One portal log as a deposit, or the first check it fails."""
    data, topics = log.data, log.topics
    failed = _shape_failure(topics, data)
    if failed is not None:
        return DepositFailure(log.index, *failed)
    size = int.from_bytes(data[32:64], "big")
    opaque = data[64 : 64 + size]
    if topics[3] != ZERO_HASH:
        return DepositFailure(log.index, DepositCheck.VERSION, f"invalid deposit version, got 0x{topics[3].hex()}")
    if size < _MIN_OPAQUE:
        text = f"failed to decode deposit (version 0): unexpected opaqueData length: {size}"
        return DepositFailure(log.index, DepositCheck.OPAQUE, text)
    return DepositTransaction(
        source_hash=user_source_hash(l1_block_hash, log.index),
        sender=topics[1][12:],
        to=topics[2][12:] if opaque[72] == 0 else None,
        mint=int.from_bytes(opaque[:32], "big"),
        value=int.from_bytes(opaque[32:64], "big"),
        gas=int.from_bytes(opaque[64:72], "big"),
        is_system=False,
        data=opaque[73:],
    )


def _shape_failure(topics: tuple[bytes, ...], data: bytes) -> tuple[DepositCheck, str] | None:
    """Checks 1 to 6: the topics and the ABI frame around the opaque bytes."""
    if len(topics) != 4:
        text = "expected 4 event topics (event identity, indexed from, indexed to, indexed version)"
        return DepositCheck.TOPICS, f"{text}, got {len(topics)}"
    if topics[0] != DEPOSIT_TOPIC:
        text = f"invalid deposit event selector: 0x{topics[0].hex()}, expected 0x{DEPOSIT_TOPIC.hex()}"
        return DepositCheck.SELECTOR, text
    if len(data) < 64:
        return DepositCheck.SHORT, f"incomplete opaqueData slice header ({len(data)} bytes): {data.hex()}"
    if len(data) % 32:
        return DepositCheck.ALIGNMENT, f"expected log data to be multiple of 32 bytes: got {len(data)} bytes"
    offset = int.from_bytes(data[:32], "big")
    if offset != 32:
        return DepositCheck.OFFSET, f"invalid opaqueData slice header offset: {offset}"
    size = int.from_bytes(data[32:64], "big")
    room = len(data) - 64
    if not room - 32 < size <= room:
        return DepositCheck.LENGTH, f"invalid opaqueData slice header length: {size}"
    return None


# --- interop (1.5) -------------------------------------------------------------------------------------------------


def invalidated_block_deposit(output_preimage: bytes) -> bytes:
    """The deposit that marks a block replaced by interop rules, from the 128-byte preimage of its output root."""
    return encode_deposit(
        DepositTransaction(
            source_hash=invalidated_source_hash(keccak256(output_preimage)),
            sender=OPTIMISTIC_BLOCK_DEPOSITOR,
            to=ZERO_ADDRESS,
            mint=0,
            value=0,
            gas=_INVALIDATED_BLOCK_GAS,
            is_system=False,
            data=output_preimage,
        )
    )
