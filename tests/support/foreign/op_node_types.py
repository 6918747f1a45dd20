"""The results of op-node's RPC methods as its Go types encode them, and a strict check of an answer against them: no
field more, none less, each in its encoding. From the JSON tags of op-service/eth, op-node/rollup, op-node/p2p and
op-node/node at op-node/v1.16.1."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any, str], None]
"""Raises MismatchError for a value; the text is its path."""


class MismatchError(AssertionError):
    """A value that op-node's clients would refuse, or that op-node never sends."""


def _must(condition: bool, value: Any, path: str, wanted: str) -> None:
    if not condition:
        raise MismatchError(f"{path}: {value!r} is not {wanted}")


def _that(holds: Callable[[Any], bool], what: str) -> Check:
    return lambda value, path: _must(holds(value), value, path, what)


number = _that(lambda value: type(value) is int and 0 <= value < 1 << 64, "a number")
"""An unsigned integer as a plain JSON number."""
decimal = _that(lambda value: type(value) in (int, float), "a decimal number")
"""A floating-point number; Go writes whole ones without a fraction."""
boolean = _that(lambda value: type(value) is bool, "a boolean")
text = _that(lambda value: type(value) is str, "a string")
null = _that(lambda value: value is None, "null")
"""The result of a method that returns only an error."""


def matching(pattern: str, what: str) -> Check:
    """Return a string of a form."""
    compiled = re.compile(pattern)
    return _that(lambda value: type(value) is str and compiled.fullmatch(value) is not None, what)


def listed(item: Check, *, nullable: bool = False) -> Check:
    """Return a slice; one that is nil in Go is null."""

    def check(value: Any, path: str) -> None:
        if value is None and nullable:
            return
        _must(type(value) is list, value, path, "a list")
        for position, entry in enumerate(value):
            item(entry, f"{path}[{position}]")

    return check


def mapped(key: Check, item: Check) -> Check:
    """Return a map."""

    def check(value: Any, path: str) -> None:
        _must(type(value) is dict, value, path, "a map")
        for name, entry in value.items():
            key(name, f"{path} key")
            item(entry, f"{path}.{name}")

    return check


def record(fields: Mapping[str, Check], omitted_if_empty: Mapping[str, Check] | None = None) -> Check:
    """Return a struct with these members, and those that Go leaves out when they are empty."""
    optional = omitted_if_empty or {}

    def check(value: Any, path: str) -> None:
        _must(type(value) is dict, value, path, "an object")
        unknown, missing = set(value) - set(fields) - set(optional), set(fields) - set(value)
        _must(not unknown and not missing, sorted(value), path, f"without {sorted(unknown)} and with {sorted(missing)}")
        for name, item in value.items():
            (fields.get(name) or optional[name])(item, f"{path}.{name}")

    return check


HASH = matching("0x[0-9a-f]{64}", "32 bytes in hex")
ADDRESS = matching("0x[0-9a-f]{40}", "an address in hex")
BYTES_8 = matching("0x[0-9a-f]{16}", "8 bytes in hex")
PEER_ID = matching("16Uiu2HA[0-9A-Za-z]{45}", "a peer id")
BLOCK_ID = record({"hash": HASH, "number": number})
L1_REF = record({"hash": HASH, "number": number, "parentHash": HASH, "timestamp": number})
L2_REF = record(
    {
        "hash": HASH,
        "number": number,
        "parentHash": HASH,
        "timestamp": number,
        "l1origin": BLOCK_ID,
        "sequenceNumber": number,
    }
)
SYNC_STATUS = record(
    {
        **dict.fromkeys(("current_l1", "current_l1_finalized", "head_l1", "safe_l1", "finalized_l1"), L1_REF),
        **dict.fromkeys(("unsafe_l2", "safe_l2", "finalized_l2", "pending_safe_l2"), L2_REF),
        **dict.fromkeys(("cross_unsafe_l2", "local_safe_l2"), L2_REF),
    }
)
OUTPUT = record(
    {
        "version": HASH,
        "outputRoot": HASH,
        "blockRef": L2_REF,
        "withdrawalStorageRoot": HASH,
        "stateRoot": HASH,
        "syncStatus": SYNC_STATUS,
    }
)
FORKS = (
    *("regolith", "canyon", "delta", "ecotone", "fjord", "granite", "holocene", "pectra_blob_schedule", "isthmus"),
    *("jovian", "karst", "lagoon", "interop"),
)
SYSTEM_CONFIG = record(
    {
        "batcherAddr": ADDRESS,
        "overhead": HASH,
        "scalar": HASH,
        "gasLimit": number,
        "eip1559Params": BYTES_8,
        "operatorFeeParams": HASH,
        "minBaseFee": number,
        "daFootprintGasScalar": number,
    }
)
ROLLUP_CONFIG = record(
    {
        "genesis": record({"l1": BLOCK_ID, "l2": BLOCK_ID, "l2_time": number, "system_config": SYSTEM_CONFIG}),
        **dict.fromkeys(("block_time", "seq_window_size", "channel_timeout", "l1_chain_id", "l2_chain_id"), number),
        **dict.fromkeys(("batch_inbox_address", "deposit_contract_address", "l1_system_config_address"), ADDRESS),
        "protocol_versions_address": ADDRESS,
    },
    {
        "max_sequencer_drift": number,
        **{f"{fork}_time": number for fork in FORKS},
        "chain_op_config": record(
            {"eip1559Elasticity": number, "eip1559Denominator": number}, {"eip1559DenominatorCanyon": number}
        ),
        "alt_da": record(
            {
                "da_challenge_contract_address": ADDRESS,
                "da_commitment_type": matching("(Keccak|Generic)Commitment", "a commitment type"),
                "da_challenge_window": number,
                "da_resolve_window": number,
            }
        ),
    },
)
PEER_INFO = record(
    {
        "peerID": PEER_ID,
        "nodeID": matching("[0-9a-f]{64}", "a node id"),
        "userAgent": text,
        "protocolVersion": text,
        "ENR": text,
        "addresses": listed(matching("/.*/p2p/16Uiu2HA.*", "a multiaddr with peer id"), nullable=True),
        "protocols": listed(text, nullable=True),
        "connectedness": number,
        "direction": number,
        "protected": boolean,
        "chainID": number,
        "latency": number,
        "gossipBlocks": boolean,
        "scores": record(
            {
                "gossip": record(
                    {
                        "total": decimal,
                        "blocks": record(
                            dict.fromkeys(
                                (
                                    *("timeInMesh", "firstMessageDeliveries", "meshMessageDeliveries"),
                                    "invalidMessageDeliveries",
                                ),
                                decimal,
                            )
                        ),
                        "IPColocationFactor": decimal,
                        "behavioralPenalty": decimal,
                    }
                ),
                "reqResp": record(dict.fromkeys(("validResponses", "errorResponses", "rejectedPayloads"), decimal)),
            }
        ),
    }
)
PEERS = record(
    {
        "totalConnected": number,
        "peers": mapped(PEER_ID, PEER_INFO),
        "bannedPeers": listed(PEER_ID, nullable=True),
        "bannedIPS": listed(text, nullable=True),
        "bannedSubnets": listed(record({"IP": text, "Mask": text}), nullable=True),
    }
)
QUANTITY = matching("0x(0|[1-9a-f][0-9a-f]*)", "a quantity in hex")
DATA = matching("0x([0-9a-f]{2})*", "bytes in hex")
ENVELOPE = record(
    {
        "executionPayload": record(
            {
                **dict.fromkeys(("parentHash", "stateRoot", "receiptsRoot", "prevRandao", "blockHash"), HASH),
                **dict.fromkeys(("blockNumber", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas"), QUANTITY),
                "feeRecipient": ADDRESS,
                "logsBloom": matching("0x[0-9a-f]{512}", "256 bytes in hex"),
                "extraData": DATA,
                "transactions": listed(DATA),
            },
            {
                "withdrawals": listed(record({})),
                "withdrawalsRoot": HASH,
                **dict.fromkeys(("blobGasUsed", "excessBlobGas"), QUANTITY),
            },
        )
    },
    {"parentBeaconBlockRoot": HASH},
)
TOPICS = ("blocksTopic", "blocksTopicV2", "blocksTopicV3", "blocksTopicV4")

RESULTS: Mapping[str, Check] = {
    "optimism_syncStatus": SYNC_STATUS,
    "optimism_outputAtBlock": OUTPUT,
    "optimism_safeHeadAtL1Block": record({"l1Block": BLOCK_ID, "safeHead": BLOCK_ID}),
    "optimism_rollupConfig": ROLLUP_CONFIG,
    "optimism_dependencySet": record({"dependencies": mapped(matching("[0-9]+", "a chain id"), record({}))}),
    "optimism_version": text,
    "health_status": text,
    "rpc_modules": mapped(text, matching("1[.]0", "a version")),
    "admin_startSequencer": null,
    "admin_stopSequencer": HASH,
    "admin_sequencerActive": boolean,
    "admin_resetDerivationPipeline": null,
    "admin_postUnsafePayload": null,
    "admin_setRecoverMode": null,
    "admin_setLogLevel": null,
    "admin_overrideLeader": null,
    "admin_conductorEnabled": boolean,
    "opp2p_self": PEER_INFO,
    "opp2p_peers": PEERS,
    "opp2p_peerStats": record(dict.fromkeys((*TOPICS, "connected", "table", "banned", "known"), number)),
    "opp2p_discoveryTable": listed(matching("enr:.*", "a node record")),
    "opp2p_blockPeer": null,
    "opp2p_unblockPeer": null,
    "opp2p_listBlockedPeers": listed(PEER_ID),
    "opp2p_blockAddr": null,
    "opp2p_unblockAddr": null,
    "opp2p_listBlockedAddrs": listed(text),
    "opp2p_blockSubnet": null,
    "opp2p_unblockSubnet": null,
    "opp2p_listBlockedSubnets": listed(record({"IP": text, "Mask": text})),
    "opp2p_protectPeer": null,
    "opp2p_unprotectPeer": null,
    "opp2p_connectPeer": null,
    "opp2p_disconnectPeer": null,
    "opstack_openBlockV1": record({"id": BYTES_8, "timestamp": number}),
    "opstack_cancelBlockV1": null,
    "opstack_sealBlockV1": ENVELOPE,
    "opstack_commitBlockV1": null,
    "opstack_publishBlockV1": null,
}
TEST_SEQUENCER = tuple(method for method in RESULTS if method.startswith("opstack_"))
"""The methods that are served with `experimental.sequencer-api` alone."""


def check_result(method: str, result: Any) -> None:
    """Raise MismatchError unless the result is one that op-node's type for this method encodes to."""
    RESULTS[method](result, method)
