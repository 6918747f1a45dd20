"""Deposit transactions: encoding, source hashes, and user deposits out of the portal's logs [DEP1 to DEP33]."""

from collections.abc import Iterable

import msgspec

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import RlpError, encode_bytes, encode_int
from rollup_node.stages.protocol.types import (
    OPTIMISTIC_BLOCK_DEPOSITOR,
    ZERO_ADDRESS,
    ZERO_HASH,
    Address,
    Hash,
    Log,
    MalformedLog,
)

DEPOSIT_TYPE = 0x7E
DEPOSIT_PREFIX = b"\x7e"
DEPOSIT_TOPIC: Hash = bytes.fromhex("b3813568d9991fc951961fcb4c784893574240a28925604d09fc577c55bb7c32")

_WORD_1 = (1).to_bytes(32, "big")
_WORD_2 = (2).to_bytes(32, "big")
_WORD_4 = (4).to_bytes(32, "big")
_MIN_OPAQUE_DATA = 73
_INVALIDATED_BLOCK_GAS = 36_000


class DepositError(ValueError):
    """The bytes are not a deposit transaction."""


class DepositTransaction(msgspec.Struct, frozen=True):
    """A deposit transaction [DEP1 to DEP5]. `to` is None for a contract creation; `mint` and `value` in wei."""

    source_hash: Hash
    sender: Address
    to: Address | None
    mint: int
    value: int
    gas: int
    is_system: bool
    data: bytes


def user_source_hash(l1_block_hash: Hash, log_index: int) -> Hash:
    """Return the source hash of a user deposit; `log_index` counts over the whole L1 block [DEP6, DEP11]."""
    return keccak256(ZERO_HASH + keccak256(l1_block_hash + log_index.to_bytes(32, "big")))


def l1_info_source_hash(l1_block_hash: Hash, sequence_number: int) -> Hash:
    """Return the source hash of the L1 attributes transaction [DEP7]."""
    return keccak256(_WORD_1 + keccak256(l1_block_hash + sequence_number.to_bytes(32, "big")))


def upgrade_source_hash(intent: str) -> Hash:
    """Return the source hash of an upgrade transaction [DEP8]."""
    return keccak256(_WORD_2 + keccak256(intent.encode()))


def invalidated_source_hash(output_root: Hash) -> Hash:
    """Return the source hash of the deposit that replaces an invalidated block, which has no inner hash [DEP10]."""
    return keccak256(_WORD_4 + output_root)


def encode_deposit(deposit: DepositTransaction) -> bytes:
    """Return the transaction's bytes; their keccak is its hash [DEP5]."""
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
    """Return the inverse of `encode_deposit`. Raises DepositError for anything that is not a canonical encoding."""
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
    """Whether an encoded transaction has the deposit type; an empty one has not."""
    return raw[:1] == DEPOSIT_PREFIX


def user_deposits(logs: Iterable[Log], l1_block_hash: Hash) -> tuple[tuple[bytes, ...], tuple[MalformedLog, ...]]:
    """Return the encoded deposits of a block's portal logs, and the logs that do not decode [DEP12, DEP15]."""
    encoded: list[bytes] = []
    failures: list[MalformedLog] = []
    for log in logs:
        result = deposit_from_log(log, l1_block_hash)
        if isinstance(result, MalformedLog):
            failures.append(result)
        else:
            encoded.append(encode_deposit(result))
    return tuple(encoded), tuple(failures)


def deposit_from_log(log: Log, l1_block_hash: Hash) -> DepositTransaction | MalformedLog:
    """Return the deposit of a portal log [DEP25 to DEP29], or the first check that it fails [DEP16 to DEP23]."""
    data, topics = log.data, log.topics
    failed = _frame_failure(topics, data)
    if failed is not None:
        return MalformedLog(log.index, failed)
    size = int.from_bytes(data[32:64], "big")
    opaque = data[64 : 64 + size]
    if topics[3] != ZERO_HASH:
        return MalformedLog(log.index, f"invalid deposit version, got 0x{topics[3].hex()}")
    if size < _MIN_OPAQUE_DATA:
        text = f"failed to decode deposit (version 0): unexpected opaqueData length: {size}"
        return MalformedLog(log.index, text)
    return DepositTransaction(
        source_hash=user_source_hash(l1_block_hash, log.index),
        # The upper bytes of both topics are not checked [DEP25], the mint keeps its 256 bits [A7].
        sender=topics[1][12:],
        to=topics[2][12:] if opaque[72] == 0 else None,  # any other value is a creation
        mint=int.from_bytes(opaque[:32], "big"),
        value=int.from_bytes(opaque[32:64], "big"),
        gas=int.from_bytes(opaque[64:72], "big"),
        is_system=False,
        data=opaque[73:],
    )


def _frame_failure(topics: tuple[bytes, ...], data: bytes) -> str | None:
    """Return the failed check of the topics or of the ABI encoding around the opaque data [DEP16 to DEP21]."""
    if len(topics) != 4:
        text = "expected 4 event topics (event identity, indexed from, indexed to, indexed version)"
        return f"{text}, got {len(topics)}"
    if topics[0] != DEPOSIT_TOPIC:
        return f"invalid deposit event selector: 0x{topics[0].hex()}, expected 0x{DEPOSIT_TOPIC.hex()}"
    if len(data) < 64:
        return f"incomplete opaqueData slice header ({len(data)} bytes): {data.hex()}"
    if len(data) % 32:
        return f"expected log data to be multiple of 32 bytes: got {len(data)} bytes"
    offset = int.from_bytes(data[:32], "big")
    if offset != 32:
        return f"invalid opaqueData slice header offset: {offset}"
    size = int.from_bytes(data[32:64], "big")
    available = len(data) - 64
    if not available - 32 < size <= available:  # no spare word after the opaque data [DEP24]
        return f"invalid opaqueData slice header length: {size}"
    return None


def invalidated_block_deposit(output_preimage: bytes) -> bytes:
    """Return the deposit that replaces a block interop invalidates, of its output preimage [DEP33, IOP24]."""
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
