"""The importer of the superchain registry, and the built-in networks."""

import json
from datetime import date
from pathlib import Path

import pytest

from rollup_node.node.setup.networks import registry_version
from rollup_node.tools.importers.registry import NETWORKS_FILE, main, networks_text, read_registry

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


def lay_out(root: Path, folder: str = "configs") -> None:
    home = root / folder / "somewhere"
    home.mkdir(parents=True)
    (home / "some.toml").write_text(CHAIN)
    (home / "superchain.toml").write_text("[hardforks]\ncanyon_time = 99\n[l1]\nchain_id = 77\n")


def test_a_chain_file_becomes_an_entry(tmp_path: Path) -> None:
    lay_out(tmp_path)
    assert read_registry(tmp_path) == {
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
            "forks": {"canyon": 5},
        }
    }


def test_the_command_writes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay_out(tmp_path / "superchain")
    out = tmp_path / "networks.json"
    assert main([str(tmp_path), "--commit", "abc", "--date", "2026-08-04", "--out", str(out)]) == 0
    assert "1 networks written" in capsys.readouterr().out
    assert json.loads(out.read_text()) == {
        "registry": {"commit": "abc", "date": "2026-08-04"},
        "networks": read_registry(tmp_path),
    }
    assert out.read_text().count("\n") == 20, "one line per value"


def test_a_folder_without_chains_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--commit", "abc", "--date", "2026-08-04", "--out", str(tmp_path / "x.json")]) == 1
    assert "as a superchain registry: no chain files found" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_the_built_in_file_is_current(shared_data: Path) -> None:
    version = registry_version()
    text = networks_text(read_registry(shared_data / "registry"), version.commit, date.fromisoformat(version.date))
    assert NETWORKS_FILE.read_text() == text


def test_no_public_server_is_named_in_the_file() -> None:
    assert "http" not in NETWORKS_FILE.read_text()
