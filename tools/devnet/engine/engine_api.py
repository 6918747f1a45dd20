"""The Engine API over a backend: forkchoiceUpdatedV1-3, getPayloadV1-5, newPayloadV1-4, exchangeCapabilities.

The node's side of these calls is stated in [ENG1 to ENG19]."""

import hashlib
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from rollup_node.stages.protocol.engine_json import (
    PayloadError,
    attributes_from_json,
    attributes_to_json,
    payload_from_json,
    payload_to_json,
)
from rollup_node.stages.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, SERVER_ERROR
from rollup_node.stages.protocol.forks.rules import L2Rules
from rollup_node.stages.protocol.hex_encoding import from_quantity, hash_from_hex, to_hex
from rollup_node.stages.protocol.payloads import PayloadAttributes, payload_block_hash
from rollup_node.stages.protocol.types import ZERO_HASH, Hash
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.chain.jsonrpc_server import Method
from rollup_node.tools.devnet.engine.backend import Journal, L2Backend, payload_of
from rollup_node.tools.devnet.engine.chain_sync import ChainSync
from rollup_node.tools.devnet.engine.execution import (
    BlobTransaction,
    InvalidBlock,
    InvalidBlockTransaction,
    L2Execution,
)
from rollup_node.tools.devnet.evm.transactions import MalformedTransaction, UnusableTransaction


class Trait(StrEnum):
    """A behaviour, by the name that `--like` takes."""

    SKIP = "op-reth-skip"
    """A transaction of the attributes that cannot be executed is left out of the block."""
    LOST_BUILD = "op-reth-lost-build"
    """A block whose transactions cannot even be read, or need more gas than it has, is started with an id; its payload
    is unknown afterwards."""


Traits = frozenset[Trait]
NO_TRAITS: Traits = frozenset()

UNKNOWN_PAYLOAD = -38001
INVALID_FORKCHOICE = -38002
INVALID_ATTRIBUTES = -38003
UNSUPPORTED_FORK = -38005

_MAX_JOBS = 16
_MAX_INVALID = 512
_FORKCHOICE_VERSIONS = (1, 2, 3)
_GET_VERSIONS = (1, 2, 3, 4, 5)
_NEW_VERSIONS = (1, 2, 3, 4)


class PayloadJob:
    """A payload of this timestamp in seconds that is being built.

    It is filled from the pool and sealed by the first getPayload. Without an `execution` the build has failed, and
    the error is not reported."""

    def __init__(self, time: int, execution: L2Execution | None) -> None:
        self.time = time
        self.is_lost = execution is None
        self.unsealed = execution
        self._block: Block | None = None

    def seal(self, backend: L2Backend, from_pool: bool) -> Block:
        """Return the sealed block, with transactions of the pool if `from_pool`. Raises InvalidBlock."""
        if self.unsealed is not None:
            if from_pool:
                backend.fill(self.unsealed)
            self._block, self.unsealed = self.unsealed.seal(), None
        assert self._block is not None
        return self._block


class ForkchoiceState(NamedTuple):
    """A forkchoice state; zero hashes for safe and finalized leave the labels."""

    head: Hash
    safe: Hash
    finalized: Hash


class EngineApi:
    """The engine_* methods; accepted payloads and forkchoice states go to the journal, where there is one.

    With `sync` a chain that is missing is fetched. Answers are those of op-geth, except where a trait makes them
    others."""

    def __init__(
        self,
        backend: L2Backend,
        journal: Journal | None = None,
        sync: ChainSync | None = None,
        traits: Traits = NO_TRAITS,
    ) -> None:
        self._backend = backend
        self._traits = traits
        self._journal = journal
        self._sync = sync
        self._jobs: dict[str, PayloadJob] = {}
        self._built: dict[Hash, Block] = {}
        self._invalid: dict[Hash, Hash] = {}
        if sync is not None:
            sync.on_invalid = self._reject

    def methods(self) -> dict[str, Method]:
        """Return the method table."""
        table: dict[str, Method] = {}
        for version in _FORKCHOICE_VERSIONS:
            table[f"engine_forkchoiceUpdatedV{version}"] = partial(self._forkchoice_updated, version)
        for version in _GET_VERSIONS:
            table[f"engine_getPayloadV{version}"] = partial(self._get_payload, version)
        for version in _NEW_VERSIONS:
            table[f"engine_newPayloadV{version}"] = partial(self._new_payload, version)
        names = sorted(table)
        return table | {"engine_exchangeCapabilities": lambda offered=None: names}

    # --- forkchoice ------------------------------------------------------------------------------------------------

    def _forkchoice_updated(self, version: int, state: Any, attributes: Any = None) -> dict[str, Any]:
        heads = _heads(state)
        if heads.head in self._invalid:
            return _forkchoice(_status("INVALID", self._invalid[heads.head], "links to a previously rejected block"))
        head = self._backend.chain.get(heads.head)
        if head is None:
            return _forkchoice(self._syncing(heads.head))
        safe, finalized = self._label(head, heads.safe), self._label(head, heads.finalized)
        self._backend.set_head(head)
        self._backend.chain.safe = safe or self._backend.chain.safe
        self._backend.chain.finalized = finalized or self._backend.chain.finalized
        if self._journal is not None:
            self._journal.follow(heads.head, heads.safe, heads.finalized)
        job = None if attributes is None else self._start_job(version, head, attributes)
        return _forkchoice(_status("VALID", head.hash), job)

    def _label(self, head: Block, label: Hash) -> Block | None:
        """Return the block of a label. Raises JsonRpcError unless it is an ancestor of the head."""
        if label == ZERO_HASH:
            return None
        chain = self._backend.chain
        block = chain.get(label)
        if block is None or block.number > head.number or chain.ancestor(head, block.number).hash != label:
            raise JsonRpcError(
                INVALID_FORKCHOICE, "Invalid forkchoice state", {"err": f"{to_hex(label)} is not on the chain"}
            )
        return block

    def _start_job(self, version: int, head: Block, value: Any) -> str:
        attributes = self._attributes(version, value)
        try:
            execution = self._backend.begin(head, attributes, Trait.SKIP in self._traits)
            job = PayloadJob(attributes.timestamp, execution)
            if attributes.no_tx_pool:
                job.seal(self._backend, from_pool=False)
        except InvalidBlock as error:
            if Trait.LOST_BUILD not in self._traits or not _is_unusable(error):
                raise _build_error(error) from None
            job = PayloadJob(attributes.timestamp, None)
        identity = _payload_id(head.hash, attributes)
        self._jobs.pop(identity, None)  # the same attributes again: the newest job is evicted last
        self._jobs[identity] = job
        while len(self._jobs) > _MAX_JOBS:
            self._jobs.pop(next(iter(self._jobs)))
        return identity

    def _attributes(self, version: int, raw: Any) -> PayloadAttributes:
        """Parse attributes. Raises JsonRpcError where fields or the method's version do not match their fork."""
        # op-node sends a plain number, the specs have a hex quantity [A10].
        if isinstance(raw, dict) and isinstance(raw.get("minBaseFee"), str):
            raw = raw | {"minBaseFee": from_quantity(raw["minBaseFee"])}
        try:
            attributes = attributes_from_json(raw)
        except PayloadError as error:
            raise _invalid_attributes(str(error)) from None
        rules = self._rules(attributes.timestamp)
        presence = (
            ("withdrawals", attributes.withdrawals, rules.withdrawals),
            ("parentBeaconBlockRoot", attributes.parent_beacon_root is not None, rules.beacon_root),
            ("eip1559Params", attributes.eip1559_params is not None, rules.eip1559_params),
            ("minBaseFee", attributes.min_base_fee is not None, rules.min_base_fee),
        )
        for name, value, wanted in presence:
            if value != wanted:
                raise _invalid_attributes(f"{name} {'is missing' if wanted else 'given before its fork'}")
        if version != rules.attributes_version:
            text = f"engine_forkchoiceUpdatedV{version} with attributes for V{rules.attributes_version}"
            raise JsonRpcError(UNSUPPORTED_FORK, "Unsupported fork", {"err": text})
        return attributes

    # --- payloads --------------------------------------------------------------------------------------------------

    def _get_payload(self, version: int, identity: Any) -> dict[str, Any]:
        job = self._jobs.get(identity) if isinstance(identity, str) else None
        if job is None or job.is_lost:
            raise JsonRpcError(UNKNOWN_PAYLOAD, "Unknown payload")
        wanted = self._rules(job.time).get_payload_version
        # V1 is valid for payloads without withdrawals, which V2 covers as well.
        if version != wanted and not (version == 1 and wanted == 2):
            text = f"engine_getPayloadV{version} for a payload of V{wanted}"
            raise JsonRpcError(UNSUPPORTED_FORK, "Unsupported fork", {"err": text})
        block = job.seal(self._backend, from_pool=True)
        self._built[block.hash] = block
        while len(self._built) > _MAX_JOBS:
            self._built.pop(next(iter(self._built)))
        return _envelope(version, block)

    def _new_payload(
        self, version: int, value: Any, blob_hashes: Any = None, beacon_root: Any = None, requests: Any = None
    ) -> dict[str, Any]:
        if blob_hashes or requests:
            raise JsonRpcError(INVALID_PARAMS, "an L2 block has neither blobs nor execution requests")
        try:
            payload = payload_from_json(value, None if beacon_root is None else hash_from_hex(beacon_root))
        except PayloadError as error:
            raise JsonRpcError(INVALID_PARAMS, f"invalid payload: {error}") from None
        wanted = self._rules(payload.timestamp).new_payload_version
        if version != wanted and not (version == 1 and wanted == 2):
            text = f"engine_newPayloadV{version} for a payload of V{wanted}"
            raise JsonRpcError(UNSUPPORTED_FORK, "Unsupported fork", {"err": text})
        if payload_block_hash(payload) != payload.block_hash:
            return _status(
                "INVALID", None, f"blockhash mismatch: the payload hashes to {to_hex(payload_block_hash(payload))}"
            )
        chain = self._backend.chain
        if chain.get(payload.block_hash) is not None:
            return _status("VALID", payload.block_hash)
        if payload.parent_hash in self._invalid:
            return self._reject(payload.block_hash, self._invalid[payload.parent_hash], "parent is invalid")
        parent = chain.get(payload.parent_hash)
        if parent is None:
            return self._syncing(payload.block_hash)
        # A block that this engine built needs no second execution.
        block = self._built.pop(payload.block_hash, None)
        try:
            block = block or self._backend.check(parent, payload)
        except InvalidBlock as error:
            return self._reject(payload.block_hash, parent.hash, str(error))
        chain.insert(block)
        if self._journal is not None:
            self._journal.insert(payload)
        return _status("VALID", block.hash)

    def _syncing(self, target: Hash) -> dict[str, Any]:
        """Return the answer where a block or its parent is missing.

        The chain to it is fetched, if there is a source and it has shown no invalid block."""
        if target in self._invalid:
            return _status("INVALID", self._invalid[target], "links to a previously rejected block")
        if self._sync is not None:
            self._sync.begin(target)
        return _status("SYNCING", None)

    def _reject(self, block_hash: Hash, valid: Hash, reason: str) -> dict[str, Any]:
        self._invalid[block_hash] = valid
        while len(self._invalid) > _MAX_INVALID:
            self._invalid.pop(next(iter(self._invalid)))
        return _status("INVALID", valid, reason)

    def _rules(self, timestamp: int) -> L2Rules:
        return self._backend.spec.schedule.l2(timestamp)


def _heads(state: Any) -> ForkchoiceState:
    if not isinstance(state, dict):
        raise JsonRpcError(INVALID_PARAMS, "expected a forkchoice state object")
    return ForkchoiceState(*(hash_from_hex(state.get(f"{name}BlockHash")) for name in ("head", "safe", "finalized")))


def _status(status: str, valid: Hash | None, error: str | None = None) -> dict[str, Any]:
    return {
        "status": status,
        "latestValidHash": None if valid is None else to_hex(valid),
        "validationError": error,
    }


def _forkchoice(status: dict[str, Any], job: str | None = None) -> dict[str, Any]:
    return {"payloadStatus": status, "payloadId": job}


def _is_unusable(error: InvalidBlock) -> bool:
    return isinstance(error, InvalidBlockTransaction) and isinstance(error.cause, UnusableTransaction)


def _build_error(error: InvalidBlock) -> JsonRpcError:
    """op-geth's error for attributes from which no block can be built."""
    if isinstance(error, InvalidBlockTransaction) and isinstance(error.cause, MalformedTransaction):
        return JsonRpcError(SERVER_ERROR, f"transaction {error.index} is not valid: {error.cause}")
    if isinstance(error, InvalidBlockTransaction) and isinstance(error.cause, BlobTransaction):
        return JsonRpcError(INTERNAL_ERROR, "method handler crashed")
    return _invalid_attributes(str(error))


def _invalid_attributes(reason: str) -> JsonRpcError:
    return JsonRpcError(INVALID_ATTRIBUTES, "Invalid payload attributes", {"err": reason})


def _payload_id(parent: Hash, attributes: PayloadAttributes) -> str:
    text = repr((parent, attributes_to_json(attributes))).encode()
    return "0x03" + hashlib.sha256(text).digest()[:7].hex()


def _envelope(version: int, block: Block) -> dict[str, Any]:
    """Return the response of getPayload in the format of its version."""
    payload = payload_of(block)
    if version == 1:
        return payload_to_json(payload)
    result: dict[str, Any] = {"executionPayload": payload_to_json(payload), "blockValue": "0x0"}
    if version >= 3:
        result["blobsBundle"] = {"commitments": [], "proofs": [], "blobs": []}
        result["shouldOverrideBuilder"] = False
        result["parentBeaconBlockRoot"] = to_hex(payload.parent_beacon_root or ZERO_HASH)
    if version >= 4:
        result["executionRequests"] = []
    return result
