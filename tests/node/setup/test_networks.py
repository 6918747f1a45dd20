"""The built-in networks."""

import json
import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.setup.networks import (
    LEFT,
    NETWORKS_FILE,
    find_network,
    network_names,
    network_of_config,
    new_name,
    with_departure,
)
from rollup_node.stages.protocol.config import ChainOpConfig, ConfigError, ForeignFork, RollupConfig, check_config
from rollup_node.stages.protocol.config_json import parse_rollup_config, rollup_config_object

NAMES = network_names()
WITHOUT_PRIOR_FORKS = {"rehearsal-0-bn-0-rehearsal-0-bn", "rehearsal-0-bn-1-rehearsal-0-bn"}


def test_op_sepolia() -> None:
    network = find_network("op-sepolia")
    config = network.config
    assert (config.l1_chain_id, config.l2_chain_id, config.block_time) == (11155111, 11155420, 2)
    assert config.genesis.l2_time == 1691802540
    assert config.genesis.system_config.batcher.hex() == "8f23bb38f531600e5d8fddaaec41f13fab46e98c"
    assert config.channel_timeout == 300
    assert config.fork_times["regolith"] == 0
    assert config.fork_times["granite"] == 1723478400
    assert config.pectra_blob_schedule_time == 1742486400
    assert config.chain_op_config == ChainOpConfig(6, 50, 250)
    assert config.protocol_versions.hex() == "79add5713b383daa0a138d3c4780c7a1804a8090"


def test_there_are_all_networks_and_every_configuration_is_valid() -> None:
    assert len(NAMES) == 68
    for name in NAMES:
        config = find_network(name).config
        file = parse_rollup_config(json.dumps(rollup_config_object(config)).encode()).config
        assert with_departure(file).fork_times == config.fork_times
        if name not in WITHOUT_PRIOR_FORKS:
            check_config(config)


@pytest.mark.parametrize("name", sorted(WITHOUT_PRIOR_FORKS))
def test_the_rehearsals_skipped_forks(name: str) -> None:
    with pytest.raises(ConfigError, match="prior fork karst missing"):
        check_config(find_network(name).config)


def test_names_in_any_case_and_aliases() -> None:
    assert find_network("OP-Mainnet") == find_network("mainnet")
    assert find_network("SEPOLIA").name == "op-sepolia"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("op-seplia", 'invalid network: "op-seplia"; did you mean op-sepolia?'),
        ("x", 'invalid network: "x"; rollup-node networks lists them'),
        ("a\nb", 'invalid network: "a\\nb"'),
    ],
)
def test_an_unknown_network_gives_the_nearest_names(name: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        find_network(name)
    assert str(caught.value).startswith(text)


LAGOON = {
    1_796_918_401: ("op-sepolia", "unichain-sepolia", "ink-sepolia", "soneium-minato-sepolia"),
    1_799_683_201: ("op-mainnet", "unichain-mainnet", "ink-mainnet", "soneium-mainnet"),
}


def test_lagoon_is_scheduled_on_the_networks_that_announced_it() -> None:
    """[OPT81]"""
    expected = {name: time for time, names in LAGOON.items() for name in names}
    times = {name: find_network(name).config.fork_times.get("lagoon") for name in NAMES}
    scheduled = {name: time for name, time in times.items() if time is not None and not name.startswith("rehearsal")}
    assert scheduled == expected
    sizes = {name: find_network(name).config.dependency_set_size for name in expected}
    assert {name for name, size in sizes.items() if size == 2} == {
        *("op-sepolia", "unichain-sepolia", "op-mainnet", "unichain-mainnet")
    }


def test_giwa_sepolia() -> None:
    config = find_network("giwa-sepolia").config
    assert (config.l2_chain_id, config.block_time, config.fork_times["karst"]) == (91342, 1, 1_783_317_600)
    assert config.genesis.l2.hash.hex() == "ca1b5fee64a196abfca007b3a4d4e3ec2b37be83a452d452bf4e45937004cab2"
    assert config.protocol_versions.hex() == "8b44f83a06049441b4de3eeab8ca2305a5c2360a"


def test_old_names_are_those_of_present_networks() -> None:
    """[OPT22]"""
    assert new_name("Minato-Sepolia") == "soneium-minato-sepolia" and new_name("op-sepolia") is None
    assert find_network("minato-sepolia") == find_network("soneium-minato-sepolia")
    for old, present in json.loads(NETWORKS_FILE.read_text())["renamed"].items():
        assert old not in NAMES and present in NAMES


def test_a_network_that_is_not_carried_is_refused_with_the_option_to_use() -> None:
    """[OPT23]"""
    with pytest.raises(OptionError) as caught:
        find_network("sepolia-devnet-4-sepolia-devnet-4-5")
    assert str(caught.value) == (
        "invalid network: sepolia-devnet-4-sepolia-devnet-4-5: op-node 1.21.0 has its configuration and this node does"
        " not: give it with --rollup.config, instead of --network"
    )


def test_each_addition_has_its_date_and_source() -> None:
    """[OPT81]"""
    load = json.loads(NETWORKS_FILE.read_text())["networks"]
    added = {name: entry["additions"] for name, entry in load.items() if "additions" in entry}
    assert {"giwa-sepolia", "worldchain-mainnet", *(name for names in LAGOON.values() for name in names)} <= set(added)
    for additions in added.values():
        for day, source, *changes in additions:
            assert date.fromisoformat(day) and source and changes


def chains(registry: Path) -> dict[str, dict[str, Any]]:
    files = [file for file in registry.glob("configs*/*/*.toml") if file.name != "superchain.toml"]
    return {f"{file.stem}-{file.parent.name}": tomllib.loads(file.read_text()) for file in files}


def test_every_network_is_the_registry_s_chain(shared_data: Path) -> None:
    """But for the additions."""
    result = chains(shared_data / "registry")
    entries = json.loads(NETWORKS_FILE.read_text())["networks"]
    added = {
        name: {key for _, _, *keys in entry.get("additions", ()) for key in keys} for name, entry in entries.items()
    }
    assert sorted(result) == [name for name in NAMES if "all" not in added[name]]
    for name, chain in result.items():
        config, genesis, system = find_network(name).config, chain["genesis"], chain["genesis"]["system_config"]
        assert config.l2_chain_id == chain["chain_id"]
        assert (config.block_time, config.seq_window_size) == (chain["block_time"], chain["seq_window_size"])
        assert config.max_sequencer_drift == chain["max_sequencer_drift"]
        assert f"0x{config.genesis.l1.hash.hex()}" == genesis["l1"]["hash"].lower()
        assert f"0x{config.genesis.l2.hash.hex()}" == genesis["l2"]["hash"].lower()
        assert (config.genesis.l1.number, config.genesis.l2.number) == (
            genesis["l1"]["number"],
            genesis["l2"]["number"],
        )
        assert f"0x{config.genesis.system_config.scalar.hex()}" == system["scalar"].lower()
        assert config.genesis.system_config.gas_limit == system["gasLimit"]
        assert f"0x{config.deposit_contract.hex()}" == chain["addresses"]["OptimismPortalProxy"].lower()
        assert f"0x{config.l1_system_config.hex()}" == chain["addresses"]["SystemConfigProxy"].lower()
        times = {key.removesuffix("_time"): time for key, time in chain["hardforks"].items() if key.endswith("_time")}
        assert config.pectra_blob_schedule_time == times.pop("pectra_blob_schedule", None)
        own = with_departure(msgspec.structs.replace(config, fork_times={"regolith": 0} | times))
        assert {fork: time for fork, time in config.fork_times.items() if fork not in added[name]} == own.fork_times
        assert config.keep_karst_upgrade_gas is chain["hardforks"].get("keep_karst_upgrade_gas", False)
        assert (config.alt_da is not None) is ("alt_da" in chain)


def test_inherited_fork_times_stand_in_the_chain_s_own_file(shared_data: Path) -> None:
    """A chain that joined its superchain at some time has every later fork of it, unless it has left since."""
    registry = shared_data / "registry"
    for file in registry.glob("configs/*/superchain.toml"):
        shared = tomllib.loads(file.read_text())["hardforks"]
        for chain_file in file.parent.glob("*.toml"):
            chain = tomllib.loads(chain_file.read_text())
            joined = chain.get("superchain_time")
            if chain_file == file or joined is None:
                continue
            later = {key: time for key, time in shared.items() if time >= max(joined, chain["genesis"]["l2_time"])}
            own = {key: chain["hardforks"].get(key) for key in later}
            assert own == later, chain_file.name


def test_a_chain_left_only_if_chain_id_and_genesis_block_are_those_of_a_network_that_did() -> None:
    """[LFT6]"""
    left, stays = find_network("base-mainnet").config, find_network("op-mainnet").config
    times = {fork: time for fork, time in left.fork_times.items() if fork != "azul"}
    base = msgspec.structs.replace(left, fork_times=times, foreign_fork=None)
    assert with_departure(base) == left
    genesis = msgspec.structs.replace(base.genesis, l2=stays.genesis.l2)
    others: list[RollupConfig] = [
        msgspec.structs.replace(base, genesis=genesis),
        msgspec.structs.replace(base, l2_chain_id=901),
        stays,
    ]
    for other in others:
        assert with_departure(other) is other
    assert network_of_config(others[0]) is None and network_of_config(stays) == find_network("op-mainnet")


OPERATIONS = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


@pytest.mark.parametrize("name", LEFT)
def test_each_is_a_built_in_network_with_an_end_after_its_last_fork(name: str) -> None:
    config, left = find_network(name).config, LEFT[name]
    assert config.foreign_fork == ForeignFork(left.fork, left.time)
    assert left.time > max(config.fork_times.values())


@pytest.mark.parametrize(("name", "last"), [("base-mainnet", 53_556_126), ("base-sepolia", 48_418_655)])
def test_the_last_blocks_of_base(name: str, last: int) -> None:
    """The block after it has the time of Denim, or is the first one later [LFT2]."""
    config = find_network(name).config
    assert config.last_block == last
    assert config.foreign_fork is not None
    after = config.genesis.l2_time + config.block_time * (last + 1)
    assert f"`{name}` up to block {last}" in OPERATIONS.read_text()
    assert 0 <= after - config.foreign_fork.time < config.block_time


@pytest.mark.parametrize(("name", "first"), [("base-mainnet", 46_600_927), ("base-sepolia", 40_469_856)])
def test_azul_changes_one_method_of_the_engine_and_no_rule_of_derivation(name: str, first: int) -> None:
    """[LFT10]"""
    config = find_network(name).config
    schedule = config.schedule()
    time = config.genesis.l2_time + config.block_time * first
    before, after = (schedule.l2(at) for at in (time - config.block_time, time))
    assert (before.get_payload_version, after.get_payload_version) == (4, 5)
    assert after == replace(before, get_payload_version=5)
    assert schedule.activations(time) == ()
    assert (schedule.l1(time), schedule.epoch(time)) == (schedule.l1(time - 2), schedule.epoch(time - 2))
    assert schedule.l1_info_format(time) == schedule.l1_info_format(time - 2)
    assert not schedule.switches_stages(time - 2, time)
