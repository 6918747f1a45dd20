"""Results of the `optimism` and `superroot` namespaces as JSON, with zeros for what is unknown [RPC21, RPC24]."""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from rollup_node.stages.messages.control import OutputResponse
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.interop import DeniedOutput, RoundResponse
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.block_refs import block_id_object, l2_ref_object, output_object, ref_object
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.schedule import lagoon_from
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import output_root, super_root
from rollup_node.stages.protocol.types import ZERO_HASH, ZERO_L1_REF, ZERO_L2_REF, BlockId, Hash, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import DependencySet


def dependency_set(dependency_set: DependencySet) -> dict[str, Any]:
    """Return the result of optimism_dependencySet [IOP25]; the window only where it is not the default."""
    window = (
        {"overrideMessageExpiryWindow": dependency_set.message_expiry_window}
        if dependency_set.message_expiry_window
        else {}
    )
    return {"dependencies": {str(chain): {} for chain in dependency_set.chains}, **window}


def l1_ref(ref: L1BlockRef | None) -> dict[str, Any]:
    """Return an L1BlockRef; the zero reference for None [RPC21, RPC24]."""
    return ref_object(ref or ZERO_L1_REF)


def sdm_status(rollup: RollupConfig, engine: EngineStatus) -> dict[str, Any]:
    """Return the SDM opt-in, and whether the block after the unsafe head may have a post-exec transaction [RPC56]."""
    next_time = (0 if engine.unsafe is None else engine.unsafe.timestamp) + rollup.block_time
    is_active = rollup.schedule().l2(next_time).post_exec_transactions
    result: dict[str, Any] = {
        "postExecOptIn": engine.sdm_opt_in,
        "protocolActive": is_active,
        "effective": engine.sdm_opt_in and is_active,
    }
    start = lagoon_from(rollup.fork_times)
    return result if start is None else result | {"activationTime": start}


def l2_ref(ref: L2BlockRef | None) -> dict[str, Any]:
    """Return an L2BlockRef; the zero reference for None [RPC21, RPC24]."""
    return l2_ref_object(ref or ZERO_L2_REF)


def sync_status(l1: L1Heads | None, engine: EngineStatus | None, derivation: DerivationStatus | None) -> dict[str, Any]:
    """Return optimism_syncStatus; `current_l1` is zero unless derivation is on the last reset [RPC36 to RPC40]."""
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


def output(output_response: OutputResponse, status: dict[str, Any]) -> dict[str, Any]:
    """Return the result of optimism_outputAtBlock [RPC31], with the sync status of the same moment [RPC33]."""
    return {
        "version": to_hex(ZERO_HASH),
        "outputRoot": to_hex(output_response.output_root),
        "blockRef": l2_ref(output_response.block),
        "withdrawalStorageRoot": to_hex(output_response.withdrawal_storage_root),
        "stateRoot": to_hex(output_response.state_root),
        "syncStatus": status,
    }


class SafeOutput(NamedTuple):
    """A chain's safe block at a time, what its output root `root` is made of, and the L1 block that it requires."""

    block: BlockId
    state_root: Hash
    storage_root: Hash
    root: Hash
    required_l1: BlockId


def superroot(
    timestamp: int,
    status: dict[str, Any],
    chains: Sequence[int],
    outputs: Mapping[int, SafeOutput],
    verified: RoundResponse | None = None,
) -> dict[str, Any]:
    """Return the result of superroot_atTimestamp [RPC41, RPC42] for these chains, with the sync status of the slowest.

    `outputs` are those of the chains that have a safe block at that time in seconds. Without one of them the result has
    no `data` [RPC43, RPC44, LB7]. Where blocks are verified, `verified` is what the interop process knows of that time:
    `data` is that of the round [LB10], and the optimistic block is the denied one if there is one [LB8]."""
    chains = sorted(chains)
    denied = {} if verified is None else verified.denied
    optimistic = {chain: _optimistic(outputs[chain], denied.get(chain)) for chain in chains if chain in outputs}
    result = {
        **_progress(status),
        "optimistic_at_timestamp": {str(chain): output for chain, output in optimistic.items()},
        "chain_ids": [str(chain) for chain in chains],
    }
    if outputs.keys() < set(chains) or (verified is not None and not _has_round(outputs, verified)):
        return result
    required = max((output.required_l1 for output in outputs.values()), key=attrgetter("number"))
    if verified is not None and verified.l1 is not None:
        required = verified.l1
    roots = [(chain, outputs[chain].root) for chain in chains]
    data = {
        "verified_required_l1": block_id_object(required),
        "super": {
            "timestamp": hex(timestamp),
            "chains": [{"ChainID": str(chain), "Output": to_hex(root)} for chain, root in roots],
        },
        "super_root": to_hex(super_root(timestamp, roots)),
    }
    return {**result, "data": data}


def slowest(statuses: Collection[Mapping[str, Any]], verified: BlockId | None) -> dict[str, Any]:
    """Return the lowest L1 block and the lowest timestamps of the sync statuses of several chains [LB7, VR9].

    `verified` is the L1 block of the last round, None where nothing has to be verified."""
    l1 = [status["current_l1"] for status in statuses] + ([] if verified is None else [block_id_object(verified)])
    heads = {name: min((status[name] for status in statuses), key=_time) for name in _HEADS}
    return {"current_l1": min(l1, key=lambda block: block["number"]), **heads}


_HEADS = ("safe_l2", "local_safe_l2", "finalized_l2")
_time = itemgetter("timestamp")


def supernode_sync_status(statuses: Mapping[int, dict[str, Any]], slowest: dict[str, Any]) -> dict[str, Any]:
    """Return the result of supernode_syncStatus [SNO9] from the statuses of the chains and that of the slowest."""
    return {
        "chains": {str(chain_id): status for chain_id, status in statuses.items()},
        "chain_ids": [str(chain_id) for chain_id in statuses],
        **_progress(slowest),
    }


def _progress(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the L1 block and the times of the heads in a sync status."""
    return {
        "current_l1": {name: status["current_l1"][name] for name in ("hash", "number")},
        "safe_timestamp": status["safe_l2"]["timestamp"],
        "local_safe_timestamp": status["local_safe_l2"]["timestamp"],
        "finalized_timestamp": status["finalized_l2"]["timestamp"],
    }


def _has_round(outputs: Mapping[int, SafeOutput], verified: RoundResponse) -> bool:
    """Return whether the second is verified, and the chains have the heads of its round, as far as these are stored."""
    heads, removed = verified.heads, verified.removed
    are_heads = (chain in removed or heads.get(chain) == output.block for chain, output in outputs.items())
    return verified.l1 is not None and all(are_heads)


def _optimistic(output: SafeOutput, denied: DeniedOutput | None) -> dict[str, Any]:
    """Return the output of one chain's safe block, which may not be verified yet, or of the one denied there [LB8]."""
    roots, root = (output.state_root, output.storage_root, output.block.hash), output.root
    if denied is not None:
        roots = denied.state_root, denied.storage_root, denied.hash
        root = output_root(*roots)
    return {
        "output": output_object(*roots),
        "output_root": to_hex(root),
        "required_l1": block_id_object(output.required_l1),
    }
