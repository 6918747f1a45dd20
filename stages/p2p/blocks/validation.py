"""What becomes of a gossiped block: the checks of node-behaviour 13.5 in their order, each with its verdict.

Blocks are judged by the rules of the topic they came on, whatever fork is active. A block that fails says why: a
fault, its number in the rules, and the values. Own blocks pass the same checks before they are published.
"""

from collections import OrderedDict
from enum import Enum
from typing import NamedTuple

from rollup_node.stages.p2p.blocks import message as block_message
from rollup_node.stages.p2p.blocks.signing import Signers, recover_signer, signing_hash
from rollup_node.stages.p2p.blocks.ssz import SszError, SszPayload
from rollup_node.stages.p2p.encoding.snappy import SnappyFault
from rollup_node.stages.p2p.gossipsub.message import Verdict
from rollup_node.stages.protocol.block_hash import payload_block_hash
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

FUTURE_SECONDS = 5
MOST_HEIGHTS = 1000
MOST_BLOCKS_PER_HEIGHT = 5


class Fault(Enum):
    """Why a block goes no further: the number of the check, the verdict, and a text with the values."""

    SNAPPY = (1, Verdict.REJECT, "{0}")
    TOO_SMALL = (1, Verdict.REJECT, "{0} bytes, too few for a signature and a block")
    NO_SIGNER = (2, Verdict.IGNORE, "no signer is known")
    SIGNATURE = (3, Verdict.REJECT, "the signature is not valid")
    WRONG_SIGNER = (3, Verdict.REJECT, "signed by {0}")
    SSZ = (4, Verdict.REJECT, "{0}")
    TOO_OLD = (5, Verdict.REJECT, "{0} seconds old")
    FUTURE = (6, Verdict.REJECT, "{0} seconds in the future")
    BLOCK_HASH = (7, Verdict.REJECT, "the content has the hash {0}, not {1}")
    WITHDRAWALS = (8, Verdict.REJECT, "{0} withdrawals")
    BLOB_GAS_USED = (9, Verdict.REJECT, "blob gas of {0} is used before it counts the data footprint")
    EXCESS_BLOB_GAS = (9, Verdict.REJECT, "excess blob gas of {0}")
    TOO_MANY_AT_HEIGHT = (11, Verdict.REJECT, "there are {0} other blocks of number {1}")
    SEEN = (11, Verdict.IGNORE, "seen before")

    @property
    def rule(self) -> int:
        """The number in the list of checks."""
        return self.value[0]

    @property
    def verdict(self) -> Verdict:
        """What follows for the message."""
        return self.value[1]

    @property
    def text(self) -> str:
        """What to say, with places for the values."""
        return self.value[2]


class Judgement(NamedTuple):
    """The verdict on a message; `payload` is there whenever it could be read, `fault` unless it is accepted."""

    verdict: Verdict
    payload: ExecutionPayload | None = None
    fault: Fault | None = None
    detail: str = ""

    def __str__(self) -> str:
        return "accepted" if self.fault is None else f"{self.fault.name.lower()}: {self.detail}"


class SeenHeights:
    """The hashes accepted at each of the last 1000 heights that blocks came for."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[int, list[Hash]] = OrderedDict()

    def at(self, number: int) -> list[Hash]:
        """Hashes seen at a height, to be added to."""
        hashes = self._hashes.setdefault(number, [])
        self._hashes.move_to_end(number)
        if len(self._hashes) > MOST_HEIGHTS:
            self._hashes.popitem(last=False)
        return hashes


class BlockValidator:
    """Judges the blocks of all topics of a chain. `oldest` is the age in seconds beyond which blocks are refused."""

    def __init__(self, config: RollupConfig, signers: Signers, oldest: float = 60.0) -> None:
        self.signers = signers
        self._config = config
        self._oldest = int(oldest)
        self._seen = {version: SeenHeights() for version in block_message.VERSIONS}

    def judge(self, version: int, content: bytes | SnappyFault, unix_time: float, now: float) -> Judgement:
        """The verdict on a decompressed message of a topic's version. `unix_time` is the time of day in seconds,
        `now` that of the clock that signer rotations are timed by."""
        if isinstance(content, SnappyFault):
            return _refused(Fault.SNAPPY, content.value)
        if len(content) < block_message.SMALLEST:
            return _refused(Fault.TOO_SMALL, len(content))
        block = block_message.take_apart(content)
        bad_signature = self._check_signer(block, now)
        if bad_signature:
            return bad_signature
        try:
            read = block_message.read_signed_part(block.signed_part, version)
        except SszError as error:
            return _refused(Fault.SSZ, error)
        return (
            self._check_time(read.payload, int(unix_time))
            or self._check_content(read)
            or self._check_height(read.payload, version)
            or Judgement(Verdict.ACCEPT, read.payload)
        )

    def _check_signer(self, block: block_message.SignedBlock, now: float) -> Judgement | None:
        if self.signers.current is None:
            return _refused(Fault.NO_SIGNER)
        signer = recover_signer(signing_hash(self._config.l2_chain_id, block.signed_part), block.signature)
        if signer is None:
            return _refused(Fault.SIGNATURE)
        return None if self.signers.accept(signer, now) else _refused(Fault.WRONG_SIGNER, f"0x{signer.hex()}")

    def _check_time(self, payload: ExecutionPayload, unix_time: int) -> Judgement | None:
        if payload.timestamp < unix_time - self._oldest:
            return _refused(Fault.TOO_OLD, unix_time - payload.timestamp, payload=payload)
        if payload.timestamp > unix_time + FUTURE_SECONDS:
            return _refused(Fault.FUTURE, payload.timestamp - unix_time, payload=payload)
        return None

    def _check_content(self, read: SszPayload) -> Judgement | None:
        """Checks 7 to 10. Which fields there are follows from the version, so that values are left to check; the hash
        is that of a block without withdrawals, so these are looked at before it."""
        payload = read.payload
        if read.withdrawals:
            return _refused(Fault.WITHDRAWALS, read.withdrawals, payload=payload)
        actual = payload_block_hash(payload)
        if actual != payload.block_hash:
            return _refused(Fault.BLOCK_HASH, f"0x{actual.hex()}", f"0x{payload.block_hash.hex()}", payload=payload)
        if payload.blob_gas_used and not self._config.schedule().l2(payload.timestamp).da_footprint:
            return _refused(Fault.BLOB_GAS_USED, payload.blob_gas_used, payload=payload)
        if payload.excess_blob_gas:
            return _refused(Fault.EXCESS_BLOB_GAS, payload.excess_blob_gas, payload=payload)
        return None

    def _check_height(self, payload: ExecutionPayload, version: int) -> Judgement | None:
        """The last check: a block that passes it is remembered."""
        hashes = self._seen[version].at(payload.block_number)
        if len(hashes) > MOST_BLOCKS_PER_HEIGHT:
            return _refused(Fault.TOO_MANY_AT_HEIGHT, len(hashes), payload.block_number, payload=payload)
        if payload.block_hash in hashes:
            return _refused(Fault.SEEN, payload=payload)
        hashes.append(payload.block_hash)
        return None


def _refused(fault: Fault, *values: object, payload: ExecutionPayload | None = None) -> Judgement:
    return Judgement(fault.verdict, payload, fault, fault.text.format(*values))
