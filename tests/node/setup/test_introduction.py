"""What a node says of itself at the start [LOG18]."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.setup.introduction import introduction
from rollup_node.node.setup.networks import find_network, registry_version
from rollup_node.node.setup.notices import Notice
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.forks import bundles
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.stages.protocol.forks.table import FORKS
from rollup_node.stages.protocol.upgrade_transactions import load_bundle

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
    chain = choose_chain(values, print, print)
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
        "workers": said[1].fields["workers"],
    }
    assert said[2].fields == {
        "l1": "l1.example:443,127.0.0.1:8545",
        "l1.beacon": "beacon.example:5052",
        "l1.beacon-header": "(set)",
        "l2": "127.0.0.1:8551",
        "network": "op-sepolia",
    }
    assert not any(word in str(said) for word in ("k3y", "pa55", "t0ken", "user"))


def test_long_values_are_cut() -> None:
    shown = lines("--rpc.vhosts=" + "a" * 300)[2].fields["rpc.vhosts"]
    assert shown == "a" * 100 + "..."


def introduced(network: str, now: float) -> list[Notice]:
    """The warnings of a start on a built-in network."""
    values = parse_options((*GIVEN[:-1], f"--network={network}"), {}).values
    notices = introduction(values, choose_chain(values, print, print), now)
    return [notice for notice in notices if notice.level is Level.WARN]


def test_the_end_of_a_network_that_left() -> None:
    """[LFT7]"""
    (end,) = introduced("base-mainnet", FRESH)
    assert end.text == "the network left the OP Stack's rules: it is derived up to the last block before"
    assert end.fields == {
        "code": "NETWORK-LEFT",
        "fork": "Denim",
        "since": "2026-11-05T18:00:00Z",
        "last_block": 53_556_126,
        "engine_needs_azul_since": "2026-05-28T18:00:00Z",
    }
    assert introduced("zora-mainnet", FRESH) == []


@pytest.mark.condition("C13")
def test_bundles_of_forks_to_come(tmp_path: Path) -> None:
    """[UPG22, UPG23]"""
    crossing = (*GIVEN, f"--override.lagoon={int(NOW) + 86_400}")
    bundle, warning, _ = lines(*crossing[len(GIVEN) :])[3:]
    assert (bundle.level, bundle.text) == (Level.INFO, "upgrade bundle")
    assert bundle.fields["sha256"] == load_bundle("lagoon").sha256 and bundle.fields["fork"] == "lagoon"
    assert warning.level is Level.WARN and warning.fields["code"] == "BUNDLE-UNCONFIRMED"
    assert warning.text.startswith("lagoon activates in 1d0h (2027-01-16T08:00:00Z), and its upgrade bundle ")
    given = Path(bundles.__file__).parent / BUNDLE_FORKS["lagoon"].carried[1].file
    bundle, _ = lines(*crossing[len(GIVEN) :], f"--rollup.lagoon-bundle={given}")[3:]
    assert (bundle.fields["found"], bundle.fields["confirmed_by"]) == (f"file {given}", "the operator")


def test_a_node_that_follows_another_one_and_does_not_sequence_needs_no_bundle() -> None:
    for words, said in (((), False), (("--sequencer.enabled", "--sequencer.stopped"), True)):
        source = "--l2.follow.source=http://supernode:8545/11155420/"
        values = parse_options((*GIVEN[:-1], "--network=op-sepolia", source, *words), {}).values
        notices = introduction(values, choose_chain(values, print, print), FRESH)
        assert any(notice.fields.get("code") == "BUNDLE-UNCONFIRMED" for notice in notices) == said


@pytest.mark.condition("C13")
def test_fork_times_are_old_after_180_days() -> None:
    """[LFT8]"""
    assert introduced("zora-mainnet", FRESH + 180 * 86_400) == []
    (old,) = introduced("zora-mainnet", FRESH + 181 * 86_400)
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
    given = (*GIVEN[:-1], f"--network={network}", *(word.format(alone=alone) for word in words))
    values = parse_options(given, {}).values
    notices = introduction(values, choose_chain(values, print, print), FRESH)
    found = [notice for notice in notices if notice.fields.get("code") == "LOCAL-SAFE"]
    assert len(found) == said
    if found:
        assert found[0].text == "safe heads are not verified across chains"
        assert found[0].fields["since"] == "2026-12-10T16:00:01Z"
        assert found[0].fields["dependency_set"] == [1301, 11155420]


def test_a_rollup_json_has_its_own_fork_times(tmp_path: Path) -> None:
    file = tmp_path / "rollup.json"
    file.write_text(json.dumps(rollup_config_object(find_network("base-sepolia").config)))
    values = parse_options((*GIVEN[:-1], f"--rollup.config={file}"), {}).values
    notices = introduction(values, choose_chain(values, print, print), FRESH + 1000 * 86_400)
    assert [notice.fields["last_block"] for notice in notices if notice.level is Level.WARN] == [48_418_655]
