"""Results of the `optimism` and `superroot` namespaces as JSON: references with plain numbers, and zeros instead of
null for an unknown one [RPC21, RPC24]."""

from typing import Any

from rollup_node.stages.messages.control import OutputResponse
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.output_root import super_root
from rollup_node.stages.protocol.types import ZERO_HASH, ZERO_L1_REF, ZERO_L2_REF, BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import DependencySet


def block_id(block: BlockId) -> dict[str, Any]:
    """A BlockID [RPC21]."""
    return {"hash": to_hex(block.hash), "number": block.number}


def dependency_set(found: DependencySet) -> dict[str, Any]:
    """The result of optimism_dependencySet [IOP25]; the window only where it is not the default."""
    window = {"overrideMessageExpiryWindow": found.message_expiry_window} if found.message_expiry_window else {}
    return {"dependencies": {str(chain): {} for chain in found.chains}, **window}


def l1_ref(ref: L1BlockRef | None) -> dict[str, Any]:
    """An L1BlockRef; the zero reference for None [RPC21, RPC24]."""
    ref = ref or ZERO_L1_REF
    return {
        "hash": to_hex(ref.hash),
        "number": ref.number,
        "parentHash": to_hex(ref.parent_hash),
        "timestamp": ref.timestamp,
    }


def l2_ref(ref: L2BlockRef | None) -> dict[str, Any]:
    """An L2BlockRef; the zero reference for None [RPC21, RPC24]."""
    ref = ref or ZERO_L2_REF
    return {
        "hash": to_hex(ref.hash),
        "number": ref.number,
        "parentHash": to_hex(ref.parent_hash),
        "timestamp": ref.timestamp,
        "l1origin": block_id(ref.l1_origin),
        "sequenceNumber": ref.sequence_number,
    }


def sync_status(l1: L1Heads | None, engine: EngineStatus | None, derivation: DerivationStatus | None) -> dict[str, Any]:
    """The result of optimism_syncStatus [RPC36 to RPC40]. `current_l1` is zero unless derivation runs on the engine's
    last reset; without derivation it is that of the follow source."""
    l1 = l1 or L1Heads(None, None, None)
    engine = engine or EngineStatus(0, None, None, None, None, None, False, False)
    deriving = derivation is not None and engine.unsafe is not None and derivation.reset == engine.reset
    return {
        "current_l1": l1_ref(derivation.current_l1 if derivation is not None and deriving else engine.current_l1),
        "current_l1_finalized": l1_ref(l1.finalized),
        "head_l1": l1_ref(l1.head),
        "safe_l1": l1_ref(l1.safe),
        "finalized_l1": l1_ref(l1.finalized),
        "unsafe_l2": l2_ref(engine.unsafe),
        "safe_l2": l2_ref(engine.safe),
        "finalized_l2": l2_ref(engine.finalized),
        "pending_safe_l2": l2_ref(engine.pending_safe),
        "cross_unsafe_l2": l2_ref(engine.cross_unsafe or engine.unsafe),
        "local_safe_l2": l2_ref(engine.local_safe),
    }


def output(found: OutputResponse, status: dict[str, Any]) -> dict[str, Any]:
    """The result of optimism_outputAtBlock [RPC31], with the sync status of the same moment [RPC33]."""
    return {
        "version": to_hex(ZERO_HASH),
        "outputRoot": to_hex(found.output_root),
        "blockRef": l2_ref(found.block),
        "withdrawalStorageRoot": to_hex(found.withdrawal_storage_root),
        "stateRoot": to_hex(found.state_root),
        "syncStatus": status,
    }


def superroot(
    chain_id: int,
    status: dict[str, Any],
    timestamp: int = 0,
    found: OutputResponse | None = None,
    required_l1: BlockId | None = None,
) -> dict[str, Any]:
    """The result of superroot_atTimestamp [RPC41, RPC42]; without an output it has no `data` [RPC43]."""
    result = {
        "current_l1": {name: status["current_l1"][name] for name in ("hash", "number")},
        "safe_timestamp": status["safe_l2"]["timestamp"],
        "local_safe_timestamp": status["local_safe_l2"]["timestamp"],
        "finalized_timestamp": status["finalized_l2"]["timestamp"],
        "optimistic_at_timestamp": {},
        "chain_ids": [str(chain_id)],
    }
    if found is None or found.block is None or required_l1 is None:
        return result
    root, l1 = to_hex(found.output_root), block_id(required_l1)
    preimage = {
        "stateRoot": to_hex(found.state_root),
        "messagePasserStorageRoot": to_hex(found.withdrawal_storage_root),
        "blockHash": to_hex(found.block.hash),
    }
    outputs = {str(chain_id): {"output": preimage, "output_root": root, "required_l1": l1}}
    data = {
        "verified_required_l1": l1,
        "super": {"timestamp": hex(timestamp), "chains": [{"ChainID": str(chain_id), "Output": root}]},
        "super_root": to_hex(super_root(timestamp, [(chain_id, found.output_root)])),
    }
    return {**result, "optimistic_at_timestamp": outputs, "data": data}
