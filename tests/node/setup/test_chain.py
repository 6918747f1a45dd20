"""Which chain the options choose."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import ChosenChain, choose_chain
from rollup_node.node.setup.networks import find_network
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.rpc.config import DependencySet
from tests.node.setup.planning import rollup_file

SEPOLIA = find_network("op-sepolia").config
OWN = msgspec.structs.replace(
    SEPOLIA,
    l2_chain_id=901,
    fork_times={fork: time for fork, time in SEPOLIA.fork_times.items() if fork != "lagoon"},
    dependency_set_size=1,
)
"""OP Sepolia's pattern with a chain id of our own and without Lagoon."""
OWN_L1 = {"chainId": 900, "cancunTime": 0, "blobSchedule": {"cancun": {"baseFeeUpdateFraction": 3338477}}}


def choose(*words: str, lines: list[str] | None = None) -> ChosenChain:
    """Return the chain; `lines` gets those to log."""
    words = ("--l1.beacon=http://b", *words)
    lines = [] if lines is None else lines
    return choose_chain(parse_options(words, {}).values, lines.append)


def error_of(*words: str) -> str:
    with pytest.raises(OptionError) as caught:
        choose(*words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def own_file(folder: Path, **changes: Any) -> str:
    return rollup_file(folder, OWN, **changes)


@pytest.mark.option("network")
def test_a_network() -> None:
    chain = choose("--network=OP-Sepolia")
    assert (chain.name, chain.config, chain.l1_chain.chain_id) == ("op-sepolia", SEPOLIA, 11155111)


def test_a_file(tmp_path: Path) -> None:
    lines: list[str] = []
    chain = choose(own_file(tmp_path, colour="red"), lines=lines)
    assert chain.config == OWN
    assert chain.name == f"file {tmp_path}/rollup.json"
    assert lines == [f'file {tmp_path}/rollup.json has an unknown key, which is ignored: "colour"']


def test_constants_come_from_the_registry_where_the_file_has_none(tmp_path: Path) -> None:
    lagoon = SEPOLIA.fork_times["lagoon"]
    known = own_file(tmp_path, chain_op_config=None, l2_chain_id=SEPOLIA.l2_chain_id, lagoon_time=lagoon)
    assert choose(known).config == SEPOLIA
    assert error_of(own_file(tmp_path, chain_op_config=None)).startswith("cfg.Rollup.ChainOpConfig is nil")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"block_time": 0}, "rollup config error: block time cannot be 0 (file "),
        ({"block_time": "2"}, "rollup config error: block_time must be a whole number of at most 64 bits, got '2'"),
        ({"canyon_time": None}, "rollup config error: fork delta set (to 1703203200), but prior fork canyon missing"),
        ({"l1_chain_id": None}, "rollup config error: L1 chain ID must not be nil"),
        ({"l1_chain_id": 900}, "failed to read chain spec: L1 chain 900 is not built in"),
    ],
)
def test_an_invalid_file_is_named(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    assert error_of(own_file(tmp_path, **changes)).startswith(text)


@pytest.mark.option("rollup.config")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    assert error_of(f"--rollup.config={tmp_path}/none") == (
        f"failed to read rollup config: {tmp_path}/none: No such file or directory"
    )
    assert error_of(f"--rollup.config={tmp_path}").endswith("Is a directory")
    (tmp_path / "half").write_text(json.dumps(rollup_config_object(SEPOLIA))[:100])
    assert error_of(f"--rollup.config={tmp_path}/half").startswith("rollup config error: not JSON: ")
    (tmp_path / "long").write_bytes(b" " * (5 << 20))
    assert "longer than" in error_of(f"--rollup.config={tmp_path}/long")


@pytest.mark.option("override.pectrablobschedule", "override.keep-karst-upgrade-gas")
def test_overrides_act_when_given() -> None:
    config = choose(
        "--network=op-sepolia",
        "--override.karst=1790000000",
        "--override.pectrablobschedule=5",
        "--override.keep-karst-upgrade-gas=false",
        "--override.canyon=0",
    ).config
    assert config.fork_times == SEPOLIA.fork_times | {"karst": 1790000000, "canyon": 0}
    assert config.pectra_blob_schedule_time == 5
    assert config.keep_karst_upgrade_gas is False


@pytest.mark.option(
    "override.canyon",
    "override.delta",
    "override.ecotone",
    "override.fjord",
    "override.granite",
    "override.holocene",
    "override.isthmus",
    "override.jovian",
    "override.karst",
    "override.lagoon",
)
@pytest.mark.parametrize("fork", FORK_NAMES[2:])
def test_each_fork_can_be_overridden(fork: str) -> None:
    time = SEPOLIA.fork_times.get(fork, 1_900_000_000) + 2
    config = choose("--network=op-sepolia", f"--override.{fork}={time}").config
    assert config.fork_times == SEPOLIA.fork_times | {fork: time}


def test_overrides_are_checked() -> None:
    """[OPT41]"""
    text = "rollup config error: fork delta set to 1, but prior fork canyon has higher offset 1699981200"
    assert error_of("--network=op-sepolia", "--override.delta=1") == f"{text} (op-sepolia, flag --override.delta)"


@pytest.mark.option("l1.beacon.ignore")
def test_blobs_need_a_beacon(tmp_path: Path) -> None:
    def choose_without(*words: str) -> ChosenChain:
        return choose_chain(parse_options(words, {}).values, print)

    with pytest.raises(OptionError, match=r"^misconfigured L1 Beacon API endpoint: expected L1 Beacon API"):
        choose_without("--network=op-sepolia")
    choose_without("--network=op-sepolia", "--l1.beacon.ignore")
    early = own_file(
        tmp_path,
        **{key: None for key in rollup_config_object(SEPOLIA) if key.endswith("_time") and key[0] in "efghijkl"},
    )
    assert "ecotone" not in choose_without(early).config.fork_times


@pytest.mark.option("ignore-missing-pectra-blob-schedule")
def test_a_chain_older_than_prague_needs_its_pectra_time() -> None:
    assert error_of("--network=shape-sepolia").startswith("probably missing Pectra blob schedule")
    choose("--network=shape-sepolia", "--ignore-missing-pectra-blob-schedule")
    choose("--network=shape-sepolia", "--override.pectrablobschedule=1742486400")


@pytest.mark.option("altda.enabled", "altda.da-server")
def test_a_chain_with_alt_da_needs_a_da_server(tmp_path: Path) -> None:
    enabled = ("--altda.enabled", "--altda.da-server=http://da")
    assert error_of("--network=redstone-mainnet") == (
        "altDA config error: the batches of redstone-mainnet are kept by a DA server: give --altda.enabled and"
        " --altda.da-server"
    )
    assert choose("--network=redstone-mainnet", *enabled).config.alt_da is not None
    assert error_of("--network=op-sepolia", *enabled).startswith("failed to get altDA config: no altDA config (op-")
    windows = {"da_commitment_type": "GenericCommitment", "da_challenge_window": 7, "da_resolve_window": 0}
    without = own_file(tmp_path, l2_chain_id=SEPOLIA.l2_chain_id, alt_da=windows)
    assert error_of(without, *enabled).startswith("failed to get altDA config: missing DAResolveWindow (file ")


@pytest.mark.option("rollup.l1-chain-config")
def test_an_l1_of_our_own(tmp_path: Path) -> None:
    rollup = own_file(tmp_path, l1_chain_id=900)
    spec = tmp_path / "l1.json"
    option = f"--rollup.l1-chain-config={spec}"
    spec.write_text(json.dumps({"config": OWN_L1}))
    chain = choose(rollup, option)
    assert [fork.name for fork in chain.l1_chain.blob_forks] == ["cancun"]
    spec.write_text(json.dumps(OWN_L1 | {"chainId": 5}))
    assert error_of(rollup, option).startswith("l1 chain config chain ID mismatch")
    spec.write_text(json.dumps({"chainId": 900}))
    assert error_of(rollup, option).startswith("L1 chain config does not have a blob schedule config")
    spec.unlink()
    assert error_of(rollup, option) == f"failed to read chain spec: {spec}: No such file or directory"


def test_members_of_the_l1_chain_config_that_op_node_refuses_are_warned_of(tmp_path: Path) -> None:
    """[OPT34]"""
    rollup, spec = own_file(tmp_path, l1_chain_id=900), tmp_path / "l1.json"
    option = f"--rollup.l1-chain-config={spec}"
    for changes, warned in (({}, False), ({"verkleTime": 7}, True)):
        lines: list[str] = []
        spec.write_text(json.dumps(OWN_L1 | changes))
        assert choose(rollup, option, lines=lines).l1_chain.chain_id == 900
        expected = (
            f"flag --rollup.l1-chain-config: {spec} has verkleTime: no longer used (Osaka has the entry of prague),"
        )
        assert [line.startswith(expected) for line in lines] == [True] * warned


@pytest.mark.option("interop.dependency-set")
def test_lagoon_needs_a_dependency_set(tmp_path: Path) -> None:
    """[UPG20]"""
    rollup = own_file(tmp_path, lagoon_time=1900000000)
    assert error_of(rollup).startswith("the Lagoon upgrade is scheduled (2030-03-17T17:46:40Z)")
    assert error_of(rollup).endswith('FILE, which for a chain on its own is {"dependencies": {"901": {}}}')
    file = tmp_path / "set.json"
    option = f"--interop.dependency-set={file}"
    for window in (7, 604800):
        file.write_text(f'{{"dependencies":{{"901":{{}},"902":{{}}}},"overrideMessageExpiryWindow":{window}}}')
        chosen = choose(rollup, option)
        assert chosen.config.dependency_set_size == 2
        assert chosen.dependencies == DependencySet((901, 902), window)
    long = "9" * 5000
    broken = (
        f'{{"dependencies":{{"{long}":{{}}}}}}',
        '{"dependencies":{"1":{}},"overrideMessageExpiryWindow":-1}',
        "{}",
        '{"dependencies":{}}',
        '{"dependencies":{"x":{}}}',
        "[",
        '{"dependencies":[901]}',
        '{"depen\xd3":1}',
    )
    for text in broken:
        file.write_text(text, encoding="latin-1")
        assert error_of(rollup, option).startswith("failed to read dependency set")


def test_a_registry_chain_depends_on_itself_or_on_its_set(tmp_path: Path) -> None:
    """Also with a rollup.json of its chain id."""
    for network, size in (("op-sepolia", 2), ("ink-sepolia", 1), ("zora-sepolia", 1)):
        for option in ("--override.lagoon", "--override.interop"):
            config = choose(f"--network={network}", f"{option}=1900000000").config
            assert (config.dependency_set_size, config.fork_times["lagoon"]) == (size, 1900000000)
    for network in ("op-sepolia", "unichain-sepolia"):
        assert choose(f"--network={network}").dependencies == DependencySet((1301, 11155420))
    for network in ("op-mainnet", "unichain-mainnet"):
        assert choose(f"--network={network}").dependencies == DependencySet((10, 130))
    assert choose("--network=soneium-mainnet").dependencies == DependencySet((1868,))
    assert choose("--network=rehearsal-0-bn-0-rehearsal-0-bn").config.dependency_set_size == 2
    (tmp_path / "set.json").write_text('{"dependencies":{"11155420":{}}}')
    option = f"--interop.dependency-set={tmp_path}/set.json"
    assert choose("--network=op-sepolia", option).config.dependency_set_size == 1
    assert choose(own_file(tmp_path, l2_chain_id=1301, lagoon_time=1900000000)).config.dependency_set_size == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"902":{},"903":{}}', 'it must have chain 901 itself, and has "902, 903"'),
        ('{"901":{},"0901":{}}', 'it has a chain twice: "901, 901"'),
        (
            '{"901":{}},"overrideMessageExpiryWindow":604801',
            "overrideMessageExpiryWindow is 604801 s, at most 604800: ",
        ),
        ('{"901":7}', "Expected `object`, got `int`"),
    ],
)
def test_a_dependency_set_that_does_not_fit_names_the_option(tmp_path: Path, text: str, reason: str) -> None:
    """[IOP25]"""
    (tmp_path / "set.json").write_text(f'{{"dependencies":{text}}}')
    result = error_of(own_file(tmp_path), f"--interop.dependency-set={tmp_path}/set.json")
    start = f"failed to read dependency set (--interop.dependency-set): {tmp_path}/"
    assert result.startswith(f"{start}set.json: {reason}")
    missing = error_of(own_file(tmp_path), f"--interop.dependency-set={tmp_path}/none.json")
    assert missing == f"{start}none.json: No such file or directory"


def test_names_and_ends_of_networks_are_said() -> None:
    """[OPT22]"""
    lines: list[str] = []
    assert choose("--network=Minato-Sepolia", lines=lines).name == "soneium-minato-sepolia"
    assert lines == ['flag --network: "Minato-Sepolia" is an old name of soneium-minato-sepolia']
    lines = []
    choose("--network=lisk-mainnet", lines=lines)
    (line,) = lines
    assert line.startswith(
        "flag --network: op-node 1.21.0 no longer has lisk-mainnet: its fork times are those of 2026-"
    )
    assert line.endswith("give its rollup.json with --rollup.config")
    for network in ("op-sepolia", "base-mainnet"):
        lines = []
        choose(f"--network={network}", lines=lines)
        assert lines == []


def test_the_forks_of_a_network_that_left_come_with_its_file(tmp_path: Path) -> None:
    """[LFT6, LFT10]"""
    base = find_network("base-mainnet").config
    assert choose(rollup_file(tmp_path, base)).config == base
    assert "azul_time" not in rollup_config_object(base)
