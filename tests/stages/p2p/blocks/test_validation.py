"""Validation of gossiped blocks [VAL1 to VAL12]: each check, and their order."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.p2p.blocks import block_message, validation
from rollup_node.stages.p2p.blocks.signing import GRACE_SECONDS, LocalSigner, UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidation, BlockValidator
from rollup_node.stages.p2p.blocks.validation import ValidationFailure as Failure
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.gossipsub.validation_queue import ValidationResult
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.secp256k1 import ORDER
from tests.support.p2p.blocks import BLOCK_TIME, GENESIS_TIME, SIGNER, block, chain_config, signed

STRANGER = LocalSigner(b"\x33" * 32)


class ValidatorHarness:
    """A validator; blocks arrive `at` seconds after the timestamp of block 1."""

    def __init__(self, fork: str = "jovian", oldest: float = 60.0) -> None:
        signers = UnsafeBlockSigners()
        signers.update(SIGNER.address, 0.0)
        self.validator = BlockValidator(chain_config(fork), signers, oldest)

    def validate_content(
        self, content: bytes | SnappyFailure, version: int = 4, at: float = 0.0, now: float = 0.0
    ) -> BlockValidation:
        return self.validator.validate(version, content, GENESIS_TIME + BLOCK_TIME + at, now)

    def validate_block(self, payload: ExecutionPayload, version: int = 4, at: float = 0.0) -> BlockValidation:
        return self.validate_content(signed(payload, version), version, at)


def failure_of(validation: BlockValidation) -> Failure | None:
    assert (validation.failure is None) == (validation.result is ValidationResult.ACCEPT)
    if validation.failure is not None:
        assert validation.result is validation.failure.result and str(validation).startswith(
            validation.failure.name.lower()
        )
    return validation.failure


@pytest.fixture
def harness() -> ValidatorHarness:
    return ValidatorHarness()


@pytest.mark.parametrize("version", block_message.VERSIONS)
def test_valid_blocks_of_each_topic_are_accepted_whatever_fork_is_active(version: int) -> None:
    payload = block(version)
    for fork in ("jovian", "regolith"):
        accepted = BlockValidation(ValidationResult.ACCEPT, payload)
        assert ValidatorHarness(fork).validate_block(payload, version) == accepted


@pytest.mark.fault("F51")
def test_compression_and_size(harness: ValidatorHarness) -> None:
    for failure in SnappyFailure:
        result = harness.validate_content(failure)
        assert failure_of(result) is Failure.SNAPPY and failure.value in str(result)
    assert failure_of(harness.validate_content(bytes(65))) is Failure.TOO_SMALL
    assert failure_of(harness.validate_content(bytes(66))) is Failure.SIGNATURE


def test_without_a_signer_blocks_are_ignored(harness: ValidatorHarness) -> None:
    harness.validator.signers.update(bytes(20), 0.0)
    result = harness.validate_block(block())
    assert failure_of(result) is Failure.NO_SIGNER and result.result is ValidationResult.IGNORE
    assert failure_of(harness.validate_content(bytes(66))) is Failure.NO_SIGNER


def test_the_signature() -> None:
    harness, payload = ValidatorHarness(), block()
    assert failure_of(harness.validate_content(signed(payload, 4, STRANGER))) is Failure.WRONG_SIGNER
    assert failure_of(harness.validate_content(signed(payload, 4, SIGNER, chain_id=10))) is Failure.WRONG_SIGNER
    message = signed(payload)
    assert failure_of(harness.validate_content(message[:64] + b"\x1b" + message[65:])) is Failure.SIGNATURE
    assert failure_of(harness.validate_content(message[:-1] + b"\x07")) is Failure.WRONG_SIGNER


@pytest.mark.fault("F47")
def test_a_malleated_signature_does_not_pass_a_block_twice() -> None:
    harness, message = ValidatorHarness(), signed(block())
    high = ORDER - int.from_bytes(message[32:64], "big")
    other = message[:32] + high.to_bytes(32, "big") + bytes([1 - message[64]]) + message[65:]
    assert failure_of(harness.validate_content(message)) is None
    assert failure_of(harness.validate_content(other)) is Failure.SEEN


@pytest.mark.fault("F47")
def test_signer_change_between_blocks(harness: ValidatorHarness) -> None:
    harness.validator.signers.update(STRANGER.address, 50.0)
    assert failure_of(harness.validate_content(signed(block(number=1)), now=60.0)) is None
    assert failure_of(harness.validate_content(signed(block(number=2)), now=50.0 + GRACE_SECONDS)) is None
    late = harness.validate_content(signed(block(number=3)), now=51.0 + GRACE_SECONDS)
    assert failure_of(late) is Failure.WRONG_SIGNER
    assert failure_of(harness.validate_content(signed(block(number=3), 4, STRANGER), now=60.0)) is None
    assert failure_of(harness.validate_content(signed(block(number=4)), now=61.0)) is Failure.WRONG_SIGNER


def test_encoding() -> None:
    part = block_message.encode_signed_part(block(), 4)
    for bad in (part[:31], part[:-1], part + b"\0"):
        assert failure_of(ValidatorHarness().validate_content(SIGNER.sign(901, bad) + bad)) is Failure.SSZ
    assert failure_of(ValidatorHarness().validate_content(signed(block(3), 3), version=4)) is Failure.SSZ


@pytest.mark.fault("F47")
@pytest.mark.parametrize(("age", "expected"), [(60, None), (61, Failure.TOO_OLD), (-5, None), (-6, Failure.FUTURE)])
def test_timestamps(age: int, expected: Failure | None) -> None:
    assert failure_of(ValidatorHarness().validate_block(block(), at=age)) is expected
    assert failure_of(ValidatorHarness().validate_block(block(), at=age + 0.99)) is expected


@pytest.mark.parametrize(
    "changes",
    [{"state_root": b"\x0a" * 32}, {"block_hash": bytes(32)}, {"transactions": ()}, {"parent_beacon_root": bytes(32)}],
)
def test_the_block_hash_must_match(changes: dict[str, Any]) -> None:
    payload = msgspec.structs.replace(block(), **changes)
    assert failure_of(ValidatorHarness().validate_block(payload)) is Failure.BLOCK_HASH
    assert failure_of(ValidatorHarness().validate_block(payload, at=61)) is Failure.TOO_OLD, "the time comes first"


def test_withdrawals() -> None:
    part = block_message.encode_signed_part(block(), 4) + bytes(44)
    assert failure_of(ValidatorHarness().validate_content(SIGNER.sign(901, part) + part)) is Failure.WITHDRAWALS


def test_blob_gas() -> None:
    used = block(4, blob_gas_used=5)
    assert failure_of(ValidatorHarness("isthmus").validate_block(used)) is Failure.BLOB_GAS_USED
    assert failure_of(ValidatorHarness("jovian").validate_block(used)) is None, (
        "from Jovian on it is the data footprint"
    )
    assert failure_of(ValidatorHarness().validate_block(block(4, excess_blob_gas=1))) is Failure.EXCESS_BLOB_GAS


@pytest.mark.fault("F47")
def test_six_blocks_at_a_height_pass_but_not_seven(harness: ValidatorHarness) -> None:
    blocks = [block(state_root=bytes([n]) * 32) for n in range(7)]
    assert [failure_of(harness.validate_block(block)) for block in blocks[:5]] == [None] * 5
    again = harness.validate_block(blocks[0])
    assert failure_of(again) is Failure.SEEN and again.result is ValidationResult.IGNORE
    assert failure_of(harness.validate_block(blocks[5])) is None
    assert [failure_of(harness.validate_block(item)) for item in (blocks[6], blocks[0])] == [
        Failure.TOO_MANY_AT_HEIGHT
    ] * 2


def test_rejected_blocks_do_not_count_at_their_height(harness: ValidatorHarness) -> None:
    for number in range(20):
        assert failure_of(harness.validate_block(block(state_root=bytes([number]) * 32), at=61)) is Failure.TOO_OLD
    assert failure_of(harness.validate_block(block())) is None


def test_heights_are_kept_per_topic_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert validation.MAX_HEIGHTS == 1000
    heights = 30
    monkeypatch.setattr(validation, "MAX_HEIGHTS", heights)
    harness = ValidatorHarness(oldest=10_000.0)
    assert failure_of(harness.validate_block(block(3), 3)) is None
    assert failure_of(harness.validate_block(block(4), 4)) is None
    for number in range(2, heights + 1):
        assert failure_of(harness.validate_block(block(number=number), at=BLOCK_TIME * number)) is None
    assert failure_of(harness.validate_block(block(4), 4)) is Failure.SEEN
    assert failure_of(harness.validate_block(block(number=heights + 1), at=BLOCK_TIME * heights)) is None
    assert failure_of(harness.validate_block(block(number=2))) is None, "its height was the one not used for longest"
