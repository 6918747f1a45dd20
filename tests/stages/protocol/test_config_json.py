"""Reading and writing rollup.json [OPT28, OPT29, OPT30]."""

import functools
import json
from typing import Any

import pytest

from rollup_node.stages.protocol.config import (
    ConfigError,
    RollupConfig,
)
from rollup_node.stages.protocol.config_json import parse_rollup_config, rollup_config_object
from rollup_node.stages.protocol.forks.table import TIMED_FORKS

FULL: dict[str, Any] = {
    "genesis": {
        "l1": {"hash": "0x" + "11" * 32, "number": 10},
        "l2": {"hash": "0x" + "22" * 32, "number": 0},
        "l2_time": 1_700_000_000,
        "system_config": {
            "batcherAddr": "0x" + "33" * 20,
            "overhead": "0x" + "00" * 31 + "bc",
            "scalar": "0x" + "44" * 32,
            "gasLimit": 30_000_000,
            "eip1559Params": "0x000000fa00000006",
            "operatorFeeParams": "0x" + "00" * 32,
            "minBaseFee": 7,
            "daFootprintGasScalar": 400,
        },
    },
    "block_time": 2,
    "max_sequencer_drift": 600,
    "seq_window_size": 3600,
    "channel_timeout": 300,
    "l1_chain_id": 900,
    "l2_chain_id": 901,
    **{f"{fork}_time": index for index, fork in enumerate(TIMED_FORKS)},
    "batch_inbox_address": "0x" + "55" * 20,
    "deposit_contract_address": "0x" + "66" * 20,
    "l1_system_config_address": "0x" + "77" * 20,
    "protocol_versions_address": "0x" + "88" * 20,
    "chain_op_config": {"eip1559Elasticity": 6, "eip1559Denominator": 50, "eip1559DenominatorCanyon": 250},
    "alt_da": {
        "da_challenge_contract_address": "0x" + "99" * 20,
        "da_commitment_type": "KeccakCommitment",
        "da_challenge_window": 160,
        "da_resolve_window": 161,
    },
    "pectra_blob_schedule_time": 1_742_486_400,
    "keep_karst_upgrade_gas": True,
}


def parse(values: Any) -> RollupConfig:
    return parse_rollup_config(json.dumps(values).encode()).config


ABSENT = object()


def with_value(path: str, value: Any = ABSENT) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(FULL))
    *tables, last = path.split(".")
    table = functools.reduce(dict.__getitem__, tables, copy)
    table[last] = value
    if value is ABSENT:
        del table[last]
    return copy


def without(path: str) -> dict[str, Any]:
    return with_value(path)


def test_a_full_file_round_trips_in_order() -> None:
    written = rollup_config_object(parse(FULL))
    assert written == FULL
    assert list(written) == list(FULL)


def test_unset_fields_are_left_out() -> None:
    unset = {f"{fork}_time": None for fork in TIMED_FORKS} | {
        "chain_op_config": None,
        "alt_da": None,
        "pectra_blob_schedule_time": None,
        "keep_karst_upgrade_gas": None,
        "max_sequencer_drift": 0,
    }
    written = rollup_config_object(parse(FULL | unset))
    assert not set(unset) & set(written)
    assert parse(written) == parse(FULL | unset)
    assert written["genesis"]["system_config"]["minBaseFee"] == 7


def test_an_old_file_reads_with_zero_values() -> None:
    old = without("protocol_versions_address")
    for key in ("eip1559Params", "operatorFeeParams", "minBaseFee", "daFootprintGasScalar"):
        del old["genesis"]["system_config"][key]
    config = parse(old)
    assert config.protocol_versions == bytes(20)
    assert rollup_config_object(config)["protocol_versions_address"] == "0x" + "00" * 20
    assert config.genesis.system_config.eip1559_params == bytes(8)


def test_interop_time_is_lagoon_time_if_that_is_absent() -> None:
    assert parse(without("lagoon_time") | {"interop_time": 99}).fork_times["lagoon"] == 99
    assert parse(FULL | {"interop_time": 99}).fork_times["lagoon"] == FULL["lagoon_time"]


def test_unknown_keys_are_named_and_ignored() -> None:
    unknown = {"colour": 5, "other_time": 0, "use_plasma": False, "da_challenge_address": "0x" + "00" * 20}
    file = parse_rollup_config(json.dumps(with_value("genesis.l1.colour", "red") | unknown).encode())
    assert sorted(file.unknown_keys) == sorted(["genesis.l1.colour", *unknown])
    assert file.config == parse(FULL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("future_time", 5),
        ("use_plasma", True),
        ("da_challenge_address", "0x" + "ab" * 20),
        ("da_challenge_window", 3600),
        ("plasma_config", {"da_challenge_window": 5}),
    ],
)
def test_keys_of_another_chain_are_refused(key: str, value: object) -> None:
    """[OPT30]"""
    with pytest.raises(ConfigError, match=f"^{key}: this node derives no chain"):
        parse(FULL | {key: value})


def test_the_last_of_two_equal_keys_counts() -> None:
    text = json.dumps(FULL)
    twice = text[:-1] + ', "block_time": 7}'
    assert parse_rollup_config(twice.encode()).config == parse(FULL | {"block_time": 7})


@pytest.mark.parametrize(
    "path", ["genesis", "genesis.l1", "genesis.l2.hash", "genesis.system_config", "l1_system_config_address"]
)
def test_a_missing_key_is_named_by_its_path(path: str) -> None:
    with pytest.raises(ConfigError, match=f"^{path} is missing$"):
        parse(without(path))


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("block_time", "2", "block_time must be a whole number of at most 64 bits, got '2'"),
        ("block_time", True, "block_time must be a whole number of at most 64 bits, got true"),
        ("block_time", 2.5, "block_time must be a whole number of at most 64 bits, got 2.5"),
        ("seq_window_size", -1, "seq_window_size must be a whole number of at most 64 bits, got -1"),
        ("delta_time", 1 << 64, "delta_time must be a whole number of at most 64 bits"),
        ("genesis", [], "genesis must be a JSON object, got list"),
        ("genesis.l1.hash", "0x12", "genesis.l1.hash: expected 32 bytes of hex, got 1: '0x12'"),
        ("genesis.l1.hash", 5, "genesis.l1.hash: expected 0x-prefixed hex, got 5"),
        ("batch_inbox_address", "0x" + "zz" * 20, "batch_inbox_address: not hex digits"),
        ("alt_da.da_commitment_type", 1, "alt_da.da_commitment_type must be a text, got 1"),
        ("keep_karst_upgrade_gas", 1, "keep_karst_upgrade_gas must be true or false, got 1"),
        ("genesis.system_config.daFootprintGasScalar", 65536, "must be a whole number of at most 16 bits"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(path: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(with_value(path, value))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["l1_chain_id", "l2_chain_id"])
def test_a_missing_chain_id_has_its_own_text(key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key[:2].upper()} chain ID must not be nil$"):
        parse(without(key))


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"{", b"[1]", b"3", b"[" * 100_000, b'{"a":1,"a":2}'])
def test_other_files_than_json_objects_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_rollup_config(data)
