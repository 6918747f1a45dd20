"""Light client objects as the Beacon API returns them in JSON."""

from typing import Any

from rollup_node.stages.l1.light_client.containers import (
    BeaconBlockHeader,
    Branch,
    ExecutionPayloadHeader,
    LightClientBootstrap,
    LightClientHeader,
    LightClientUpdate,
    SyncAggregate,
    SyncCommittee,
)
from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.protocol.hex_encoding import to_hex

Json = dict[str, Any]


def header_json(
    header: LightClientHeader, execution: ExecutionPayloadHeader | None = None, payload_branch: Branch = ()
) -> Json:
    """Return a header in the form of Gloas, or that before it with the payload's header and branch."""
    if execution is None:
        hashes = {"execution_block_hash": to_hex(header.execution_block_hash)}
        return {"beacon": _json(header.beacon), **hashes, "execution_branch": _branch(header.execution_branch)}
    return {
        "beacon": _json(header.beacon),
        "execution": _json(execution),
        "execution_branch": _branch(payload_branch),
    }


def committee_json(committee: SyncCommittee) -> Json:
    """Return a sync committee."""
    keys = [to_hex(key) for key in committee.pubkeys]
    return {"pubkeys": keys, "aggregate_pubkey": to_hex(committee.aggregate_pubkey)}


def aggregate_json(aggregate: SyncAggregate) -> Json:
    """Return a sync aggregate."""
    value = sum(1 << index for index, bit in enumerate(aggregate.bits) if bit)
    bits = value.to_bytes(-(-len(aggregate.bits) // 8), "little")
    return {"sync_committee_bits": to_hex(bits), "sync_committee_signature": to_hex(aggregate.signature)}


def bootstrap_json(bootstrap: LightClientBootstrap, header: Json, version: str) -> Json:
    """Return the answer of `light_client/bootstrap/{root}`; `header` is what `header_json` returned."""
    data = {
        "header": header,
        "current_sync_committee": committee_json(bootstrap.current_sync_committee),
        "current_sync_committee_branch": _branch(bootstrap.current_sync_committee_branch),
    }
    return {"version": version, "data": data}


def update_json(update: LightClientUpdate, attested: Json, finalized: Json | None, version: str) -> Json:
    """Return the answer of an update route, or one item of `light_client/updates`; members that are None are absent."""
    data = {
        "attested_header": attested,
        "sync_aggregate": aggregate_json(update.sync_aggregate),
        "signature_slot": str(update.signature_slot),
    }
    if finalized is not None:
        data |= {"finalized_header": finalized, "finality_branch": _branch(update.finality_branch)}
    if update.next_sync_committee is not None:
        data |= {
            "next_sync_committee": committee_json(update.next_sync_committee),
            "next_sync_committee_branch": _branch(update.next_sync_committee_branch),
        }
    return {"version": version, "data": data}


def spec_json(network: BeaconNetwork) -> Json:
    """Return what `config/spec` says of a network."""
    preset = network.preset
    values = {
        "CONFIG_NAME": network.name,
        "SECONDS_PER_SLOT": network.slot_ms // 1000,
        "SLOT_DURATION_MS": network.slot_ms,
        "SLOTS_PER_EPOCH": preset.slots_per_epoch,
        "EPOCHS_PER_SYNC_COMMITTEE_PERIOD": preset.epochs_per_period,
        "SYNC_COMMITTEE_SIZE": preset.sync_committee_size,
    }
    result = {name: str(value) for name, value in values.items()}
    for fork in network.forks:
        result[f"{fork.name.upper()}_FORK_VERSION"] = to_hex(fork.version)
        result |= {f"{fork.name.upper()}_FORK_EPOCH": str(fork.epoch)} if fork.name != "genesis" else {}
    return result


def genesis_json(network: BeaconNetwork) -> Json:
    """Return what `beacon/genesis` says of a network."""
    return {
        "genesis_time": str(network.genesis_time),
        "genesis_validators_root": to_hex(network.genesis_validators_root),
        "genesis_fork_version": to_hex(network.forks[0].version),
    }


def block_header_json(header: BeaconBlockHeader, signature: str) -> Json:
    """Return the signed header of a beacon block with its root."""
    return {
        "root": to_hex(header.root),
        "canonical": True,
        "header": {"message": _json(header), "signature": signature},
    }


def _json(value: BeaconBlockHeader | ExecutionPayloadHeader) -> Json:
    """Return numbers in decimal and bytes in hex; without members that are None."""
    members = {name: getattr(value, name) for name in value.__struct_fields__}
    return {
        name: str(member) if isinstance(member, int) else to_hex(member)
        for name, member in members.items()
        if member is not None
    }


def _branch(branch: Branch) -> list[str]:
    return [to_hex(node) for node in branch]
