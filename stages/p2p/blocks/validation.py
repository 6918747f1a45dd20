"""Validation of gossiped blocks: the checks in op-node's order, each with its validation result [VAL1 to VAL12].

A block is validated by the rules of the topic it came on, whatever fork is active [VAL14]. A block that fails gets a
reason: the failure, its rule, and the values. Blocks of our own pass the same checks before they are published.
"""

from collections import OrderedDict
from enum import Enum
from typing import NamedTuple

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.block_message import DecodedPayload, SszError
from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners, payload_hash, signing_hash
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.gossipsub.validation_queue import ValidationResult
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.protocol.secp256k1 import recover_address
from rollup_node.stages.protocol.types import Hash

FUTURE_SECONDS = 5
MAX_HEIGHTS = 1000
MAX_BLOCKS_PER_HEIGHT = 5


class ValidationFailure(Enum):
    """Why a block is not accepted: the rule, the validation result, and a text with places for the values."""

    SNAPPY = ("VAL1", ValidationResult.REJECT, "{0}")
    TOO_SMALL = ("VAL1", ValidationResult.REJECT, "{0} bytes, too few for a signature and a block")
    NO_SIGNER = ("VAL2", ValidationResult.IGNORE, "no unsafe block signer is known")
    SIGNATURE = ("VAL3", ValidationResult.REJECT, "the signature is invalid")
    WRONG_SIGNER = ("VAL3", ValidationResult.REJECT, "signed by {0}")
    SSZ = ("VAL4", ValidationResult.REJECT, "{0}")
    TOO_OLD = ("VAL5", ValidationResult.REJECT, "{0} seconds old")
    FUTURE = ("VAL6", ValidationResult.REJECT, "{0} seconds in the future")
    BLOCK_HASH = ("VAL7", ValidationResult.REJECT, "the block hash is {0}, not {1}")
    WITHDRAWALS = ("VAL8", ValidationResult.REJECT, "{0} withdrawals")
    BLOB_GAS_USED = ("VAL9", ValidationResult.REJECT, "blobGasUsed is {0} before Jovian")
    EXCESS_BLOB_GAS = ("VAL9", ValidationResult.REJECT, "excessBlobGas is {0}")
    TOO_MANY_AT_HEIGHT = ("VAL11", ValidationResult.REJECT, "there are {0} other blocks of number {1}")
    SEEN = ("VAL11", ValidationResult.IGNORE, "seen before")

    def __init__(self, rule: str, result: ValidationResult, text: str) -> None:
        self.rule, self.result, self.text = rule, result, text


class BlockValidation(NamedTuple):
    """The outcome; `payload` is set whenever it was decoded, `failure` and `detail` unless it is accepted."""

    result: ValidationResult
    payload: ExecutionPayload | None = None
    failure: ValidationFailure | None = None
    detail: str = ""

    def __str__(self) -> str:
        if self.failure is None:
            return "accepted"
        return f"{self.failure.name.lower()}: {self.detail} [{self.failure.rule}]"


class SeenBlocks:
    """The hashes of valid blocks at each of the last 1000 heights that blocks came for [VAL11]."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[int, list[Hash]] = OrderedDict()

    def at(self, number: int) -> list[Hash]:
        """Return the hashes seen at a height; the caller appends to the list."""
        hashes = self._hashes.setdefault(number, [])
        self._hashes.move_to_end(number)
        if len(self._hashes) > MAX_HEIGHTS:
            self._hashes.popitem(last=False)
        return hashes


class BlockValidator:
    """Validates the blocks of all topics of a chain. Blocks older than `max_age` seconds are rejected [VAL5]."""

    def __init__(self, config: RollupConfig, signers: UnsafeBlockSigners, max_age: float = 60.0) -> None:
        self.signers, self._config = signers, config
        self._max_age = int(max_age)
        self._seen = {version: SeenBlocks() for version in block_message.VERSIONS}

    def validate(self, version: int, content: bytes | SnappyFailure, unix_time: float, now: float) -> BlockValidation:
        """Validate a decompressed message of a topic's version, at `unix_time` and `now` in monotonic seconds."""
        if isinstance(content, SnappyFailure):
            return _failed(ValidationFailure.SNAPPY, content.value)
        if len(content) < block_message.MIN_BYTES:
            return _failed(ValidationFailure.TOO_SMALL, len(content))
        signature, part = block_message.split_signature(content)
        invalid_signature = self._check_signer(signature, part, now)
        if invalid_signature:
            return invalid_signature
        try:
            read = block_message.decode_signed_part(part, version)
        except SszError as error:
            return _failed(ValidationFailure.SSZ, error)
        return (
            self._check_time(read.payload, int(unix_time))
            or self._check_content(read)
            or self._check_height(read.payload, version)
            or BlockValidation(ValidationResult.ACCEPT, read.payload)
        )

    def _check_signer(self, signature: bytes, part: bytes, now: float) -> BlockValidation | None:
        if self.signers.current is None:
            return _failed(ValidationFailure.NO_SIGNER)
        # As in op-node a high s is accepted: a block that was seen is recognized by its hash, not by the message id.
        signer = recover_address(signing_hash(self._config.l2_chain_id, payload_hash(part)), signature)
        if signer is None:
            return _failed(ValidationFailure.SIGNATURE)
        return (
            None if self.signers.accept(signer, now) else _failed(ValidationFailure.WRONG_SIGNER, f"0x{signer.hex()}")
        )

    def _check_time(self, payload: ExecutionPayload, unix_time: int) -> BlockValidation | None:
        if payload.timestamp < unix_time - self._max_age:
            return _failed(ValidationFailure.TOO_OLD, unix_time - payload.timestamp, payload=payload)
        if payload.timestamp > unix_time + FUTURE_SECONDS:
            return _failed(ValidationFailure.FUTURE, payload.timestamp - unix_time, payload=payload)
        return None

    def _check_content(self, read: DecodedPayload) -> BlockValidation | None:
        """Check VAL7 to VAL10; withdrawals before the hash, which is computed without them."""
        payload = read.payload
        if read.withdrawal_count:
            return _failed(ValidationFailure.WITHDRAWALS, read.withdrawal_count, payload=payload)
        actual = payload_block_hash(payload)
        if actual != payload.block_hash:
            return _failed(
                ValidationFailure.BLOCK_HASH, f"0x{actual.hex()}", f"0x{payload.block_hash.hex()}", payload=payload
            )
        if payload.blob_gas_used and not self._config.schedule().l2(payload.timestamp).da_footprint:
            return _failed(ValidationFailure.BLOB_GAS_USED, payload.blob_gas_used, payload=payload)
        if payload.excess_blob_gas:
            return _failed(ValidationFailure.EXCESS_BLOB_GAS, payload.excess_blob_gas, payload=payload)
        return None

    def _check_height(self, payload: ExecutionPayload, version: int) -> BlockValidation | None:
        """Return the last check: a block that passes it is remembered [VAL11]."""
        hashes = self._seen[version].at(payload.block_number)
        # op-node compares with `>`, so six hashes pass for each height and topic.
        if len(hashes) > MAX_BLOCKS_PER_HEIGHT:
            return _failed(ValidationFailure.TOO_MANY_AT_HEIGHT, len(hashes), payload.block_number, payload=payload)
        if payload.block_hash in hashes:
            return _failed(ValidationFailure.SEEN, payload=payload)
        hashes.append(payload.block_hash)
        return None


def _failed(failure: ValidationFailure, *values: object, payload: ExecutionPayload | None = None) -> BlockValidation:
    return BlockValidation(failure.result, payload, failure, failure.text.format(*values))
