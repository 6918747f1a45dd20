"""The importer of the superchain registry, and the built-in networks."""

import json
from datetime import date
from pathlib import Path

import pytest

from rollup_node.node.setup.networks import registry_version
from rollup_node.tools.importers.registry import (
    ADDITIONS_FILE,
    NETWORKS_FILE,
    check_dependencies,
    main,
    networks_text,
    read_additions,
    read_registry,
)

CHAIN = """
name = "Some Chain"
public_rpc = "https://rpc.example.org"
superchain_time = 0
chain_id = 1234
batch_inbox_addr = "0x0000000000000000000000000000000000000001"
block_time = 2
seq_window_size = 3600
max_sequencer_drift = 600
[hardforks]
  canyon_time = 5
  pectra_blob_schedule_time = 6
  keep_karst_upgrade_gas = true
[optimism]
  eip1559_elasticity = 6
  eip1559_denominator = 50
  eip1559_denominator_canyon = 250
[alt_da]
  da_challenge_contract_address = "0x0000000000000000000000000000000000000005"
  da_challenge_window = 7
  da_resolve_window = 8
  da_commitment_type = "KeccakCommitment"
[interop.dependencies.1234]
[genesis]
  l2_time = 3
  l1 = { hash = "0x11", number = 10 }
  l2 = { hash = "0x22", number = 20 }
  system_config = { batcherAddress = "0x03", overhead = "0x04", scalar = "0x05", gasLimit = 6 }
[addresses]
  OptimismPortalProxy = "0x08"
  SystemConfigProxy = "0x09"
"""


ADDITIONS = """
checked = 2026-11-28
[renamed]
old-somewhere = "some-somewhere"
[not_carried]
secret-somewhere = "op-node 9"
[[additions]]
date = 2026-11-25
source = "a release"
networks = ["some-somewhere"]
forks.lagoon = 9
removed = "op-node 8"
"""


def lay_out(root: Path, folder: str = "configs") -> None:
    home = root / folder / "somewhere"
    home.mkdir(parents=True)
    (home / "some.toml").write_text(CHAIN)
    (home / "superchain.toml").write_text("[hardforks]\ncanyon_time = 99\n[l1]\nchain_id = 77\n")


def run(folder: Path, additions: str) -> int:
    """Return the command for the checkout in a folder."""
    (folder / "additions.toml").write_text(additions)
    files = ["--out", str(folder / "networks.json"), "--additions", str(folder / "additions.toml")]
    return main([str(folder), "--commit", "abc", "--date", "2026-08-04", *files])


def test_the_command_writes_a_chain_file_and_its_additions_as_an_entry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay_out(tmp_path / "superchain")
    assert run(tmp_path, ADDITIONS) == 0
    assert "1 networks written" in capsys.readouterr().out
    text = (tmp_path / "networks.json").read_text()
    assert text.count("\n") == 24, "one line per value"
    result = json.loads(text)
    assert result.pop("networks") == {
        "some-somewhere": {
            "title": "Some Chain",
            "chain_ids": [77, 1234],
            "timing": [2, 3600, 600],
            "genesis_l1": [10, "0x11"],
            "genesis_l2": [20, "0x22", 3],
            "system_config": ["0x03", "0x04", "0x05", 6],
            "batch_inbox": "0x0000000000000000000000000000000000000001",
            "deposit_contract": "0x08",
            "l1_system_config": "0x09",
            "eip1559": [6, 50, 250],
            "keep_karst_upgrade_gas": True,
            "pectra_blob_schedule_time": 6,
            "alt_da": ["0x0000000000000000000000000000000000000005", "KeccakCommitment", 7, 8],
            "dependencies": [1234],
            "forks": {"canyon": 5, "lagoon": 9},
            "removed": "op-node 8",
            "additions": [["2026-11-25", "a release", "lagoon", "removed"]],
        }
    }
    assert result == {
        "registry": {"commit": "abc", "date": "2026-08-04", "checked": "2026-11-28"},
        "renamed": {"old-somewhere": "some-somewhere"},
        "not_carried": {"secret-somewhere": "op-node 9"},
    }


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("forks.lagoon = 9", "forks.canyon = 6", "the registry has canyon 5 for some-somewhere, an addition 6"),
        ("forks.lagoon = 9", "forks.canyon = 5", "the registry has canyon 5 for some-somewhere, an addition 5"),
        ('some-somewhere"]', 'gone-somewhere"]', "the registry does not have gone-somewhere, to which an addition"),
        ("forks.lagoon = 9", 'title = "New"', "the registry has some-somewhere, to which an addition of 2026-11-25"),
        ("forks.lagoon = 9", "dependencies = [5]", "the registry has dependencies [1234] for some-somewhere"),
        ("[[additions]]", "[[", "Invalid"),
        ('source = "a release"', "", "'source'"),
    ],
)
def test_additions_that_the_registry_contradicts_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, reason: str
) -> None:
    """Nothing is written [OPT81]."""
    lay_out(tmp_path)
    assert run(tmp_path, ADDITIONS.replace(old, new)) == 1
    line = capsys.readouterr().err
    assert "additions.toml does not fit" in line and reason in line
    assert not (tmp_path / "networks.json").exists()


def test_former_members_and_old_names_of_forks(tmp_path: Path) -> None:
    lay_out(tmp_path)
    lay_out(tmp_path, "configs_removed")
    file = tmp_path / "configs_removed" / "somewhere" / "some.toml"
    file.rename(file.with_name("former.toml")).write_text(CHAIN.replace("canyon_time", "interop_time"))
    registry = read_registry(tmp_path)
    assert registry["former-somewhere"]["removed"] == "the superchain registry"
    assert registry["former-somewhere"]["forks"] == {"lagoon": 5}
    assert "removed" not in registry["some-somewhere"]


BOTH: dict[str, object] = {"dependencies": [1, 2]}


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"dependencies": [2]}, {}, "the dependency set of a does not have its own chain"),
        ({"dependencies": [1, 9]}, {}, "the dependency set of a has chain 9, which is no network"),
        (BOTH, {}, "a and b have different dependency sets"),
        (
            BOTH | {"forks": {"lagoon": 5}},
            BOTH | {"forks": {"lagoon": 7}},
            "a and b are of one .* different Lagoon times",
        ),
    ],
)
def test_the_members_of_a_dependency_set_agree(
    first: dict[str, object], second: dict[str, object], reason: str
) -> None:
    """[OPT81]"""
    own, other = ({"chain_ids": [7, number], "forks": {}} for number in (1, 2))
    with pytest.raises(ValueError, match=reason):
        check_dependencies({"a": own | first, "b": other | second})
    check_dependencies({"a": own})


def test_the_built_in_file_is_current(shared_data: Path) -> None:
    version = registry_version()
    networks, additions = read_registry(shared_data / "registry"), read_additions(ADDITIONS_FILE)
    text = networks_text(networks, version.commit, date.fromisoformat(version.date), additions)
    assert NETWORKS_FILE.read_text() == text
