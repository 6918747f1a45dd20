"""Notices in the log at the start."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.setup.networks import find_network, network_names, registry_version
from rollup_node.node.setup.notices import Notice, introduction, log_notices, schedule_notices
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.resources import usable_cores
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.forks import bundles
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.stages.protocol.forks.table import FORKS
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.stages.rpc.config import DependencySet
from tests.node.setup.planning import rollup_file

NOTICES = (Notice(Level.WARN, "a variable is unknown"), Notice(Level.INFO, "a key is new"))


@pytest.mark.parametrize(
    ("level", "texts"),
    [
        (Level.INFO, ["a variable is unknown", "a key is new"]),
        (Level.WARN, ["a variable is unknown"]),
        (Level.ERROR, []),
    ],
)
def test_notices_are_logged_at_their_level(
    capfdbinary: pytest.CaptureFixture[bytes], level: Level, texts: list[str]
) -> None:
    log_notices(NOTICES, NodeSettings("v1", LogSettings(level)))
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.partition('msg="')[2].partition('"')[0] for line in lines] == texts
    assert all(("code=OPTIONS" in line) == (" lvl=warn " in line) for line in lines)
    assert all(" process=supervisor component=options " in line for line in lines)


NOW = 1_800_000_000.0
FRESH = datetime.fromisoformat(registry_version().checked).replace(tzinfo=UTC).timestamp()
GIVEN = (
    "--l1=https://user:pa55@l1.example/v2/k3y?token=t0ken,http://127.0.0.1:8545",
    "--l1.beacon=https://beacon.example:5052/k3y",
    "--l1.beacon-header=X-Key: k3y",
    "--l2=http://127.0.0.1:8551",
    "--network=op-sepolia",
)


def lines(*words: str, **times: int) -> list[Notice]:
    values = parse_options((*GIVEN, *words), {}).values
    chain = choose_chain(values, print)
    if times:
        chain = chain._replace(config=msgspec.structs.replace(chain.config, fork_times=times))
    return introduction(values, chain, NOW)


@pytest.mark.condition("C13")
def test_the_chain_and_its_next_fork() -> None:
    chain, *_ = lines(canyon=5, ecotone=10, karst=int(NOW) + 90_000, lagoon=int(NOW) + 200_000)
    assert chain == Notice(
        Level.INFO,
        "chain",
        {
            "network": "op-sepolia",
            "l1_chain": 11155111,
            "l2_chain": 11155420,
            "fork": "ecotone",
            "next_fork": "karst in 1d1h, at 2027-01-16T09:00:00Z",
        },
    )
    last, *_ = lines(**{FORKS[-1].name: 5})
    assert last.fields["fork"] == FORKS[-1].name and last.fields["next_fork"] == "none is scheduled"


def test_neither_keys_nor_secrets_are_shown() -> None:
    said = lines()
    assert said[1].fields == {
        "l1": "l1.example:443, 127.0.0.1:8545",
        "beacon": "beacon.example:5052",
        "engine": "127.0.0.1:8551",
        "workers": max(1, usable_cores() - 1),
    }
    assert said[2].fields == {
        "l1": "l1.example:443,127.0.0.1:8545",
        "l1.beacon": "beacon.example:5052",
        "l1.beacon-header": "(set)",
        "l2": "127.0.0.1:8551",
        "network": "op-sepolia",
    }
    assert not any(word in str(said) for word in ("k3y", "pa55", "t0ken", "user"))


def test_the_proxies_of_the_environment_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD31] Without their logins; none for this host and for the engine."""
    text = "endpoints that are asked through a proxy of the environment"
    monkeypatch.setenv("NO_PROXY", "direct.example")
    assert not [notice for notice in lines() if notice.text == text]
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pa55@proxy.example:3128")
    monkeypatch.setenv("HTTP_PROXY", "nonsense://x")
    more = "--l1.beacon-fallbacks=http://other.example:5052,https://direct.example"
    said = [notice for notice in lines(more, "--l2=http://engine.example:8551") if notice.text == text]
    assert said == [
        Notice(
            Level.INFO,
            text,
            {
                "l1": "l1.example:443 through proxy.example:3128",
                "l1.beacon": "beacon.example:5052 through proxy.example:3128",
                "l1.beacon-fallbacks": "other.example:5052 through no URL of HTTP",
            },
        )
    ]


def test_long_values_are_cut() -> None:
    shown = lines("--rpc.vhosts=" + "a" * 300)[2].fields["rpc.vhosts"]
    assert shown == "a" * 100 + "..."


def introduced(chain: str, *words: str, now: float = FRESH) -> list[Notice]:
    """Return the warnings of a start on a built-in network, or on the chain that an option names."""
    option = chain if chain.startswith("--") else f"--network={chain}"
    values = parse_options((*GIVEN[:-1], option, *words), {}).values
    notices = introduction(values, choose_chain(values, print), now)
    return [notice for notice in notices if notice.level is Level.WARN]


def test_the_end_of_a_network_that_left() -> None:
    """[LFT7]"""
    (end,) = introduced("base-mainnet")
    assert end.text == "the network left the OP Stack's rules: it is derived up to the last block before"
    assert end.fields == {
        "code": "NETWORK-LEFT",
        "fork": "Denim",
        "since": "2026-11-05T18:00:00Z",
        "last_block": 53_556_126,
        "engine_needs_azul_since": "2026-05-28T18:00:00Z",
    }
    assert introduced("zora-mainnet") == []


@pytest.mark.condition("C13")
def test_bundles_of_forks_to_come(tmp_path: Path) -> None:
    """[UPG22, UPG23]"""
    crossing = (*GIVEN, f"--override.lagoon={int(NOW) + 86_400}")
    bundle, warning, _ = lines(*crossing[len(GIVEN) :])[3:]
    assert (bundle.level, bundle.text) == (Level.INFO, "upgrade bundle")
    assert bundle.fields["sha256"] == load_bundle("lagoon").sha256 and bundle.fields["fork"] == "lagoon"
    assert warning.level is Level.WARN and warning.fields["code"] == "BUNDLE-UNCONFIRMED"
    assert warning.text.startswith("lagoon activates in 1d0h (2027-01-16T08:00:00Z), and its upgrade bundle ")
    value = Path(bundles.__file__).parent / BUNDLE_FORKS["lagoon"].carried[1].file
    bundle, _ = lines(*crossing[len(GIVEN) :], f"--rollup.lagoon-bundle={value}")[3:]
    assert (bundle.fields["found"], bundle.fields["confirmed_by"]) == (f"file {value}", "the operator")


def test_a_node_that_follows_another_one_and_does_not_sequence_needs_no_bundle() -> None:
    for words, said in (((), False), (("--sequencer.enabled", "--sequencer.stopped"), True)):
        notices = introduced("op-sepolia", "--l2.follow.source=http://supernode:8545/11155420/", *words)
        assert any(notice.fields.get("code") == "BUNDLE-UNCONFIRMED" for notice in notices) == said


@pytest.mark.condition("C13")
def test_fork_times_are_old_after_180_days() -> None:
    """[LFT8]"""
    assert introduced("zora-mainnet", now=FRESH + 180 * 86_400) == []
    (old,) = introduced("zora-mainnet", now=FRESH + 181 * 86_400)
    assert old.text == "the fork times of built-in networks are old"
    assert (old.fields["registry"], old.fields["days"]) == (registry_version().checked, 181)
    assert "--override.FORK" in str(old.fields["remedy"])


@pytest.mark.parametrize(
    ("network", "words", "said"),
    [
        ("op-sepolia", (), True),
        ("op-sepolia", ("--l2.follow.source=http://supernode:8545/11155420/",), False),
        ("op-sepolia", ("--interop.dependency-set={alone}",), False),
        ("soneium-minato-sepolia", (), False),
        ("zora-mainnet", (), False),
    ],
)
def test_a_node_of_several_chains_that_follows_none_has_local_safe_heads(
    network: str, words: tuple[str, ...], said: bool, tmp_path: Path
) -> None:
    """[FSR13]"""
    alone = tmp_path / "set.json"
    alone.write_text(json.dumps({"dependencies": {"11155420": {}}}))
    notices = introduced(network, *(word.format(alone=alone) for word in words))
    result = [notice for notice in notices if notice.fields.get("code") == "LOCAL-SAFE"]
    assert len(result) == said
    if result:
        assert result[0].text == "safe heads are not verified across chains"
        assert result[0].fields["since"] == "2026-12-10T16:00:01Z"
        assert result[0].fields["dependency_set"] == "1301, 11155420"


def test_a_rollup_json_has_its_own_fork_times(tmp_path: Path) -> None:
    (end,) = introduced(file_of(tmp_path, "base-sepolia"), now=FRESH + 1000 * 86_400)
    assert end.fields["last_block"] == 48_418_655


LAGOON = 1_796_918_401
BEFORE_LAGOON = float(LAGOON - 12 * 86_400)


def warned(*words: str, now: float = BEFORE_LAGOON) -> list[tuple[str, str]]:
    """Text and option of each warning."""
    chain = choose_chain(parse_options(("--l1.beacon=http://b", *words), {}).values, print)
    result = schedule_notices(chain, now)
    assert all(notice.fields["code"] == "FORK-SCHEDULE" for notice in result)
    return [(notice.text, str(notice.fields["option"])) for notice in result]


def file_of(folder: Path, network: str = "op-sepolia", **changes: Any) -> str:
    return rollup_file(folder, find_network(network).config, **changes)


@pytest.mark.parametrize("name", [name for name in network_names() if not name.startswith(("rehearsal", "shape"))])
def test_a_network_is_itself(name: str) -> None:
    words = ("--altda.enabled", "--altda.da-server=http://d") if find_network(name).config.alt_da is not None else ()
    assert warned(f"--network={name}", "--ignore-missing-pectra-blob-schedule", *words) == []


@pytest.mark.condition("C13")
def test_a_file_without_the_next_fork_is_warned_of_with_the_option(tmp_path: Path) -> None:
    file = file_of(tmp_path, lagoon_time=None)
    text = "lagoon is not scheduled here, and on op-sepolia at 2026-12-10T16:00:01Z"
    option = f"--override.lagoon={LAGOON}"
    member = (
        "lagoon is not scheduled here, and on unichain-sepolia of the dependency set at 2026-12-10T16:00:01Z",
        option,
    )
    assert warned(file) == [(f"{text}, in 12d0h", option), member]
    assert warned(file, now=LAGOON + 1.0) == [(text, option), member]
    assert warned(file, option) == []
    assert warned(file_of(tmp_path)) == []


def test_another_time_and_a_missing_flag_are_warned_of(tmp_path: Path) -> None:
    file = file_of(tmp_path, "ink-sepolia", karst_time=1_781_712_003, keep_karst_upgrade_gas=None)
    assert warned(file) == [
        (
            "karst begins at 2026-06-17T16:00:03Z here, and on ink-sepolia at 2026-06-17T16:00:01Z",
            "--override.karst=1781712001",
        ),
        ("keep_karst_upgrade_gas is false here, and true on ink-sepolia", "--override.keep-karst-upgrade-gas=true"),
    ]


def test_a_fork_that_only_the_file_has_is_newer_than_the_built_in_network(tmp_path: Path) -> None:
    assert warned(file_of(tmp_path, "zora-sepolia", lagoon_time=1_800_000_000)) == []


def test_another_chain_is_not_compared(tmp_path: Path) -> None:
    """Neither one of another id, nor a fork of the network with a genesis of its own."""
    config = rollup_config_object(find_network("ink-sepolia").config)
    genesis = config["genesis"] | {"l2": {"hash": "0x" + "12" * 32, "number": 0}}
    assert warned(file_of(tmp_path, "ink-sepolia", genesis=genesis, lagoon_time=None)) == []
    assert warned(file_of(tmp_path, "ink-sepolia", l2_chain_id=901, lagoon_time=None)) == []


def test_another_dependency_set_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text('{"dependencies":{"11155420":{}}}')
    option = f"--interop.dependency-set={tmp_path}/set.json"
    text = "the dependency set is 11155420 here, and 1301, 11155420 on op-sepolia"
    assert warned("--network=op-sepolia", option) == [(text, "--interop.dependency-set")]


def test_the_members_of_a_dependency_set_have_one_lagoon_time(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text('{"dependencies":{"901":{},"1301":{},"902":{}}}')
    words = (f"--interop.dependency-set={tmp_path}/set.json",)
    file = file_of(tmp_path, l2_chain_id=901, lagoon_time=LAGOON + 2)
    assert warned(file, *words) == [
        (
            "lagoon begins at 2026-12-10T16:00:03Z here, and on unichain-sepolia of the dependency set at"
            " 2026-12-10T16:00:01Z",
            f"--override.lagoon={LAGOON}",
        )
    ]
    assert warned(file_of(tmp_path, l2_chain_id=901, lagoon_time=LAGOON), *words) == []


def test_a_chain_without_a_dependency_set_has_no_members(tmp_path: Path) -> None:
    words = ("--l1.beacon=http://b", file_of(tmp_path, l2_chain_id=901, lagoon_time=None))
    chain = choose_chain(parse_options(words, {}).values, print)
    assert chain.dependencies is None and schedule_notices(chain, BEFORE_LAGOON) == []
    assert schedule_notices(chain._replace(dependencies=DependencySet((901,))), BEFORE_LAGOON) == []
