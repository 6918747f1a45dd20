"""Known answers for the rules of attributes, one test per id of attributes.jsonl [CST1 to CFG34]."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol import deposits, headers, l1_info, mpt, payloads, system_config
from rollup_node.stages.protocol.attributes import deposits_only, prepare_attributes
from rollup_node.stages.protocol.config import ChainOpConfig, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L1Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_chains import L1_CHAINS, blob_base_fee, l1_blob_base_fee
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.receipts import logs_of_receipts
from rollup_node.stages.protocol.rlp import encode
from rollup_node.stages.protocol.system_config import ExtraDataError, decode_extra_data
from rollup_node.stages.protocol.types import ZERO_HASH, L1Header, L2BlockRef, Log, MalformedLog
from rollup_node.stages.protocol.upgrade_bundle import parse_bundle
from rollup_node.stages.protocol.upgrade_transactions import (
    FUND,
    SET_FEATURE,
    bundle_of,
    carried_bundle,
    load_bundle,
    upgrade_gas,
    upgrade_gas_to_subtract,
    upgrade_transactions,
)
from rollup_node.tools.recorded.encoded_blocks import decode_header
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

LINES = [json.loads(line) for line in Path(__file__).with_name("attributes.jsonl").read_text().splitlines()]
VECTORS = LINES[1:]
OP_SEPOLIA_FORKS = {
    "regolith": 0,
    "canyon": 1699981200,
    "delta": 1703203200,
    "ecotone": 1708534800,
    "fjord": 1716998400,
    "granite": 1723478400,
}
OP_SEPOLIA = msgspec.structs.replace(
    PLAIN_ROLLUP,
    genesis=msgspec.structs.replace(PLAIN_ROLLUP.genesis, l2_time=1691802540),
    l1_chain_id=11155111,
    l2_chain_id=11155420,
    fork_times=OP_SEPOLIA_FORKS,
    deposit_contract=bytes.fromhex("16fc5058f25648194471939df75cf27a2fdc48bc"),
    chain_op_config=ChainOpConfig(6, 50, 250),
)
START = SystemConfig(
    batcher=b"\x22" * 20,
    overhead=(188).to_bytes(32, "big"),
    scalar=(684000).to_bytes(32, "big"),
    gas_limit=30_000_000,
)


def raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def values(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: raw(value) if isinstance(value, str) else value for name, value in fields.items()}


def layout_of(name: str) -> L1InfoFormat:
    return L1InfoFormat[name.upper()]


def topics(value: Any, want: Any) -> None:
    assert keccak256(value["deposit"].encode()) == raw(want["deposit"]) == deposits.DEPOSIT_TOPIC
    assert keccak256(value["config"].encode()) == raw(want["config"]) == system_config.CONFIG_UPDATE_TOPIC


def selectors(value: Any, want: Any) -> None:
    assert {layout.name.lower(): "0x" + item.hex() for layout, item in l1_info.SELECTORS.items()} == want


def empty_roots(value: Any, want: Any) -> None:
    assert headers.EMPTY_REQUESTS_HASH == hashlib.sha256(b"").digest() == raw(want["requests"])
    assert mpt.EMPTY_ROOT == mpt.ordered_root([]) == raw(want["trie"])
    assert keccak256(encode([])) == headers.EMPTY_UNCLES_HASH == raw(want["uncles"])


def user_source_hash(value: Any, want: Any) -> None:
    assert deposits.user_source_hash(raw(value[0]), value[1]) == raw(want)


def l1_info_source_hash(value: Any, want: Any) -> None:
    assert deposits.l1_info_source_hash(raw(value[0]), value[1]) == raw(want)


def upgrade_source_hash(value: Any, want: Any) -> None:
    assert deposits.upgrade_source_hash(value[0]) == raw(want)


def invalidated_source_hash(value: Any, want: Any) -> None:
    assert deposits.invalidated_source_hash(raw(value[0])) == raw(want)


DEPOSIT_CHECKS = {
    **{"topics": "expected 4 event topics", "selector": "event selector", "short": "incomplete opaqueData"},
    **{"align": "multiple of 32 bytes", "offset": "header offset", "length": "header length"},
    **{"version": "invalid deposit version", "opaque": "unexpected opaqueData length"},
}
"""What op-node's text of each failed check has."""


def deposit_log(value: Any, want: Any) -> None:
    log = Log(OP_SEPOLIA.deposit_contract, tuple(map(raw, value["topics"])), raw(value["data"]), value["index"])
    result = deposits.deposit_from_log(log, raw(value["block_hash"]))
    if "check" in want:
        assert isinstance(result, MalformedLog)
        assert DEPOSIT_CHECKS[want["check"]] in result.text and result.log_index == value["index"]
        return
    assert isinstance(result, deposits.DepositTransaction)
    encoded = deposits.encode_deposit(result)
    assert encoded == raw(want["tx"])
    assert deposits.decode_deposit(encoded) == result
    if "tx_hash" in want:
        assert keccak256(encoded) == raw(want["tx_hash"])
        assert result.source_hash == raw(want["source_hash"])


def deposit_receipts(value: Any, want: Any) -> None:
    portal = raw(value["portal"])
    encoded = [
        b"\x02" + encode([bytes([status] if status else []), b"\x01", bytes(256), _logs(logs)])
        for status, logs in value["receipts"]
    ]
    result = logs_of_receipts(encoded, {(portal, deposits.DEPOSIT_TOPIC)})
    assert [log.index for log in result] == want["indexes"]
    transactions, failures = deposits.user_deposits(result, raw(value["block_hash"]))
    assert (list(transactions), failures) == ([raw(item) for item in want["txs"]], ())


def _logs(logs: Any) -> Any:
    return [[raw(address), [raw(topic) for topic in topics], raw(data)] for address, topics, data in logs]


def l1_info_data(value: Any, want: Any) -> None:
    layout = layout_of(value["layout"])
    info = l1_info.parse_l1_info(raw(value["data"]), layout)
    assert info == l1_info.L1Info(**values(want))
    assert l1_info.encode_l1_info(info, layout) == raw(value["data"])


def l1_info_tx(value: Any, want: Any) -> None:
    layout = layout_of(value["layout"])
    info = l1_info.L1Info(**values(value["fields"]))
    encoded = l1_info.l1_info_deposit(info, layout, not value["regolith"])
    assert encoded == raw(want["tx"])
    assert keccak256(encoded) == raw(want["tx_hash"])
    deposit = deposits.decode_deposit(encoded)
    result = {
        "data": deposit.data,
        "source_hash": deposit.source_hash,
        "tx": encoded,
        "tx_hash": keccak256(encoded),
        "gas": deposit.gas,
        "is_system": deposit.is_system,
    }
    assert {name: result[name] for name in want} == values(want)
    assert l1_info.l1_info_of_block((encoded,), layout) == info


def attributes(value: Any, want: Any) -> None:
    parent, origin = value["parent"], value["origin"]
    schedule = OP_SEPOLIA.schedule()
    info = l1_info.l1_info_of_block((raw(parent["first"]),), schedule.l1_info_format(parent["timestamp"]))
    parent_ref = L2BlockRef(
        raw(parent["hash"]),
        parent["number"],
        ZERO_HASH,
        parent["timestamp"],
        info.origin,
        info.sequence_number,
    )
    epoch = L1Header(
        hash=raw(origin["hash"]),
        number=origin["number"],
        parent_hash=info.block_hash,
        timestamp=origin["timestamp"],
        mix_hash=raw(origin["mix_hash"]),
        base_fee=origin["base_fee"],
        excess_blob_gas=origin["excess_blob_gas"],
        parent_beacon_root=raw(origin["beacon_root"]),
    )
    built = prepare_attributes(OP_SEPOLIA, L1_CHAINS[11155111], parent_ref, config_at(parent), epoch, (), ()).attributes
    assert built == PayloadAttributes(
        timestamp=want["timestamp"],
        prev_randao=raw(want["prev_randao"]),
        fee_recipient=raw(want["fee_recipient"]),
        withdrawals=want["withdrawals"] == [],
        parent_beacon_root=raw(want["beacon_root"]),
        transactions=tuple(map(raw, want["deposits"])),
        no_tx_pool=want["no_tx_pool"],
        gas_limit=want["gas_limit"],
        eip1559_params=want["eip1559_params"],
        min_base_fee=want["min_base_fee"],
    )


def config_of_block(value: Any, want: Any) -> None:
    assert config_at(value) == SystemConfig(**values(want))


def config_at(block: Any) -> SystemConfig:
    """Return the system config that a block carries in its first transaction."""
    return system_config.system_config_of_block(
        OP_SEPOLIA,
        number=block["number"],
        block_hash=raw(block["hash"]),
        timestamp=block["timestamp"],
        gas_limit=block["gas_limit"],
        extra_data=b"",
        transactions=(raw(block["first"]),),
    )


def header_list(value: Any, want: Any) -> None:
    for number, encoded in value.items():
        header = decode_header(raw(encoded))
        assert header.number == int(number) - 1
        assert headers.encode_header(header) == raw(encoded)
        assert headers.header_hash(header) == raw(want[str(header.number + 1)])


def fee_scalars(value: Any, want: Any) -> None:
    if want is None:
        with pytest.raises(system_config.ScalarError):
            system_config.fee_scalars(raw(value))
    else:
        assert system_config.fee_scalars(raw(value)) == tuple(want)


def blob_fee(value: Any, want: Any) -> None:
    excess, fraction = value
    if excess is None:
        header = L1Header(ZERO_HASH, 1, ZERO_HASH, 1_800_000_000, ZERO_HASH, 7, None, None)
        assert l1_blob_base_fee(L1_CHAINS[1], header, None) == want
    else:
        assert blob_base_fee(excess, fraction) == want


CONFIG_CHECKS = {
    "type": "unknown SystemConfig event type",
    "short": "update data (ends in its (pointer|length)|cut off)",
    "pointer": "invalid pointer in update data",
    "length": "invalid length in update data",
    "long": "[0-9]+ bytes after the update data",
    "padding": "value has more than [0-9]+ bytes",
    "eip1559": "denominator and elasticity must both be zero or not",
}


def config_update(value: Any, want: Any) -> None:
    kind = value["type"]
    kind_topic = raw(kind) if isinstance(kind, str) else kind.to_bytes(32, "big")
    log = Log(b"\x05" * 20, (system_config.CONFIG_UPDATE_TOPIC, ZERO_HASH, kind_topic), raw(value["data"]), 4)
    result, skipped = system_config.apply_updates(START, [log], L1Rules(packed_fee_scalars=value["packed"]))
    if "check" in want:
        assert result == START
        (skip,) = skipped
        assert skip.log_index == 4
        assert re.match(CONFIG_CHECKS[want["check"]], skip.text)
    else:
        assert skipped == ()
        assert result == msgspec.structs.replace(START, **values(want["changed"]))


def extra_data(value: Any, want: Any) -> None:
    fork, text = value
    schedule = ForkSchedule({name: 0 for name in FORK_NAMES[: FORK_NAMES.index(fork) + 1]}, 2, 300, 600)
    if want is None:
        with pytest.raises(ExtraDataError):
            decode_extra_data(raw(text), schedule.l2(10))
    else:
        result = decode_extra_data(raw(text), schedule.l2(10))
        assert [result.denominator, result.elasticity, result.min_base_fee] == want


def with_lagoon_of_the_vectors(**changes: Any) -> RollupConfig:
    """Return a chain with the bundle that the vectors were made of, whichever one the package uses."""
    carried = next(item for item in BUNDLE_FORKS["lagoon"].carried if item.sha256.startswith("2124ce31"))
    bundles = {"lagoon": carried_bundle("lagoon", carried)}
    return msgspec.structs.replace(OP_SEPOLIA, bundles=bundles, **changes)


def activation(value: Any, want: Any) -> None:
    schedule = ForkSchedule(value["forks"], value["block_time"], 300, 600)
    activations = schedule.activations(value["timestamp"])
    config = with_lagoon_of_the_vectors(dependency_set_size=2 if value["linked"] else 1)
    transactions = upgrade_transactions(config, activations)
    assert schedule.l1_info_format(value["timestamp"]) is layout_of(want["layout"])
    assert len(transactions) == want["count"]
    assert keccak256(b"".join(transactions)) == raw(want["keccak"])
    assert upgrade_gas(config, activations) == want["gas"]


def upgrade_gas_taken_back(value: Any, want: Any) -> None:
    activations = ForkSchedule({"karst": 1000}, 2, 300, 600).activations(1000)
    config, keeping = OP_SEPOLIA, msgspec.structs.replace(OP_SEPOLIA, keep_karst_upgrade_gas=True)
    assert upgrade_gas(config, activations) == value["gas"]
    limit = value["base"] + upgrade_gas(config, activations)
    assert limit == want["activation"]
    assert limit - upgrade_gas_to_subtract(config, activations) == want["next"]
    assert limit - upgrade_gas_to_subtract(keeping, activations) == want["next_kept"]
    event = Log(
        b"\x05" * 20,
        (system_config.CONFIG_UPDATE_TOPIC, ZERO_HASH, (2).to_bytes(32, "big")),
        b"".join(number.to_bytes(32, "big") for number in (32, 32, want["next_with_event"])),
        0,
    )
    taken_back = msgspec.structs.replace(START, gas_limit=want["next"])
    assert system_config.apply_updates(taken_back, [event], L1Rules())[0].gas_limit == want["next_with_event"]


def upgrade_gas_of_lagoon(value: Any, want: Any) -> None:
    activations = ForkSchedule({"lagoon": 1000}, 2, 300, 600).activations(1000)
    config = with_lagoon_of_the_vectors(keep_karst_upgrade_gas=True)
    assert upgrade_gas(config, activations) == want == upgrade_gas_to_subtract(config, activations)


def upgrade_table(value: Any, want: Any) -> None:
    lagoon = with_lagoon_of_the_vectors()
    parts = {
        "lagoon_pre": (SET_FEATURE,),
        "lagoon_bundle": bundle_of(lagoon, "lagoon").transactions,
        "lagoon_post": (FUND,),
    }
    result: list[bytes] = []
    for fork in dict.fromkeys(row["fork"] for row in want):
        result += parts[fork] if fork in parts else load_bundle(fork).transactions
    assert len(result) == len(want) == 83
    for encoded, row in zip(result, want, strict=True):
        deposit = deposits.decode_deposit(encoded)
        assert keccak256(encoded) == raw(row["tx_hash"])
        assert deposit.source_hash == raw(row["source_hash"]) == deposits.upgrade_source_hash(row["intent"])
        assert (deposit.sender, deposit.to) == (raw(row["sender"]), row["to"] and raw(row["to"]))
        assert (deposit.mint, deposit.value, deposit.gas) == (int(row["mint"]), int(row["value"]), row["gas"])
        assert (len(deposit.data), hashlib.sha256(deposit.data).hexdigest()) == (row["size"], row["sha256"])
        assert not deposit.is_system
        if row["created"]:
            assert keccak256(encode([deposit.sender, b""]))[12:] == raw(row["created"])


def bundle(value: Any, want: Any) -> None:
    content = json.dumps({"metadata": {"version": "1.0.0"}, "transactions": value["transactions"]}).encode()
    result = parse_bundle(content).encode(value["label"])
    for transaction, (intent, source_hash, encoded) in zip(result, want, strict=True):
        assert transaction == raw(encoded)
        assert deposits.decode_deposit(transaction).source_hash == raw(source_hash)
        assert deposits.upgrade_source_hash(intent) == raw(source_hash)


def header_json(value: Any, want: Any) -> None:
    header = headers.header_from_json(value)
    assert headers.header_hash(header) == raw(want)
    assert decode_header(headers.encode_header(header)) == header


def payload_hash(value: Any, want: Any) -> None:
    root, block_hash = want
    assert mpt.ordered_root([raw(item) for item in value["transactions"]]) == raw(root)
    header = headers.header_from_json(value["header"])
    assert (header.transactions_root, headers.header_hash(header)) == (raw(root), raw(block_hash))


def output_root(value: Any, want: Any) -> None:
    assert payloads.output_root(*map(raw, value)) == raw(want)


def super_root(value: Any, want: Any) -> None:
    timestamp, chains = value
    pairs = [(chain_id, raw(output)) for chain_id, output in chains]
    assert payloads.super_root(timestamp, pairs) == raw(want[0])
    preimage = payloads.super_preimage(timestamp, pairs)
    assert len(preimage) == want[1]


def invalidated_block_deposit(value: Any, want: Any) -> None:
    assert deposits.invalidated_block_deposit(raw(value)) == raw(want)


def kept_deposits(value: Any, want: Any) -> None:
    transactions = tuple(bytes((first, place)) for place, first in enumerate(value))
    built = PayloadAttributes(1, ZERO_HASH, bytes(20), True, None, transactions, True, 30, None, None)
    assert [transaction[1] for transaction in deposits_only(built).transactions] == want


CHECKS: dict[str, Callable[[Any, Any], None]] = {
    check.__name__: check
    for check in (
        *(topics, selectors, empty_roots, user_source_hash, l1_info_source_hash, upgrade_source_hash),
        *(invalidated_source_hash, deposit_log, deposit_receipts, l1_info_data, l1_info_tx, attributes),
        *(config_of_block, fee_scalars, config_update, extra_data, activation, upgrade_gas_taken_back),
        *(upgrade_gas_of_lagoon, upgrade_table, bundle, header_json, payload_hash, output_root, super_root),
        invalidated_block_deposit,
    )
} | {"headers": header_list, "blob_base_fee": blob_fee, "deposits_only": kept_deposits}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_known_answer(vector: Any) -> None:
    CHECKS[vector["kind"]](vector["given"], vector["want"])


def test_all_known_answers_are_here() -> None:
    assert len({vector["id"] for vector in VECTORS}) == len(VECTORS) == 132
    assert {vector["kind"] for vector in VECTORS} == set(CHECKS)
