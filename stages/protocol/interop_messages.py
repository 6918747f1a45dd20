"""Messages between chains in the logs of a block: hashes, checksums, executing messages [MS1 to MS5].

Every log is an initiating message. An executing message is a log of CrossL2Inbox that names one of them."""

from collections.abc import Iterable, Sequence

import msgspec

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.receipts import LogJson, ReceiptError
from rollup_node.stages.protocol.types import CROSS_L2_INBOX, Address, BlockRef, Hash

EXECUTING_MESSAGE = keccak256(b"ExecutingMessage(bytes32,(address,uint256,uint256,uint256,uint256))")
"""The first topic of an executing message."""
MESSAGE_EXPIRY_WINDOW = 604_800
"""Seconds for which a message can be executed, unless the dependency set says less [IOP25]."""

_CHECKSUM_TYPE = b"\x03"
_WORD = 32
_TOPIC_DIGITS = 2 + 2 * _WORD
_PADDING = ((0, 12), (32, 56), (64, 92), (96, 120))
"""Where the five words of an executing message have zeros: before address, block number, log index and timestamp."""


class ExecutingMessage(msgspec.Struct, frozen=True, array_like=True):
    """The initiating message that an executing one names: `log_hash` at this place of the chain `chain` (32 bytes).

    Whoever sends a transaction chooses these values. The id is bytes because messages between processes carry integers
    of 64 bits only."""

    chain: bytes
    block_number: int
    log_index: int
    timestamp: int
    log_hash: Hash

    @property
    def chain_id(self) -> int:
        """The chain that it names, which need not exist."""
        return int.from_bytes(self.chain, "big")

    def __str__(self) -> str:
        check = checksum(self.log_hash, self.chain_id, self.block_number, self.timestamp, self.log_index)
        place = f"chain {self.chain_id}, block {self.block_number}, log {self.log_index}, time {self.timestamp}"
        return f"message of {place}, checksum 0x{check.hex()}"


class BlockLogs(msgspec.Struct, frozen=True, array_like=True):
    """What verification needs of a block: the hashes of its logs in a row, and its executing messages by log index."""

    block: BlockRef
    log_hashes: bytes
    executing: tuple[tuple[int, ExecutingMessage], ...]

    def log_hash(self, index: int) -> Hash | None:
        """Return the hash of a log, None if the block does not have so many."""
        return log_hash_at(self.log_hashes, index)


def log_hash_at(log_hashes: bytes, index: int) -> Hash | None:
    """Return one of the hashes that stand in a row, None if there are not so many."""
    return log_hashes[_WORD * index : _WORD * (index + 1)] or None


def log_hash(address: Address, payload_hash: Hash) -> Hash:
    """Return the hash of a log of that address; its payload is its topics and its data in a row [MS2]."""
    return keccak256(address + payload_hash)


def checksum(log_hash: Hash, chain_id: int, number: int, timestamp: int, log_index: int) -> bytes:
    """Return the 32 bytes by which an access list names an initiating message [MS3]."""
    place = bytes(12) + number.to_bytes(8, "big") + timestamp.to_bytes(8, "big") + log_index.to_bytes(4, "big")
    return _CHECKSUM_TYPE + keccak256(keccak256(log_hash + place) + chain_id.to_bytes(_WORD, "big"))[1:]


def executing_message(topics: Sequence[bytes], data: bytes) -> ExecutingMessage | None:
    """Return what a log of CrossL2Inbox executes, None if it has not the form of an executing message [MS4, MS5]."""
    if len(topics) != 2 or topics[0] != EXECUTING_MESSAGE or len(data) != 5 * _WORD:
        return None
    if any(any(data[start:end]) for start, end in _PADDING):
        return None
    number, index, timestamp = (int.from_bytes(data[end - 8 : end], "big") for end in (64, 96, 128))
    return ExecutingMessage(data[128:], number, index, timestamp, log_hash(data[12:32], topics[1]))


def block_logs(block: BlockRef, logs: Iterable[LogJson]) -> BlockLogs:
    """Return what the logs of all receipts of a block say, in their order [MS1 to MS5]. Raises ReceiptError."""
    hashes: list[Hash] = []
    executing: list[tuple[int, ExecutingMessage]] = []
    try:
        for index, log in enumerate(logs):
            address, payload = _address_and_payload(log, index)
            hashes.append(log_hash(address, keccak256(payload)))
            if address == CROSS_L2_INBOX:
                end = _WORD * len(log.topics)
                topics = [payload[start : start + _WORD] for start in range(0, end, _WORD)]
                if (message := executing_message(topics, payload[end:])) is not None:
                    executing.append((index, message))
    except ValueError as error:
        raise ReceiptError(f"malformed log of block {block}: {error}"[:200]) from None
    return BlockLogs(block, b"".join(hashes), tuple(executing))


def _address_and_payload(log: LogJson, index: int) -> tuple[Address, bytes]:
    if log.log_index is not None and int(log.log_index, 16) != index:
        raise ReceiptError(f"log {index} in the order of the receipts has the index {log.log_index}")
    address = bytes.fromhex(log.address[2:])
    if len(address) != 20 or any(len(topic) != _TOPIC_DIGITS for topic in log.topics):
        raise ReceiptError("an address or a topic of another size")
    return address, bytes.fromhex("".join([topic[2:] for topic in log.topics]) + log.data[2:])
