"""Reading the accounts of a genesis file given by --l2-alloc."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.tools.devnet.l2_alloc import read_alloc
from rollup_node.tools.devnet.settings import SettingsError

ACCOUNT = "0x" + "00" * 19 + "12"


def write(folder: Path, content: Any) -> Path:
    path = folder / "genesis.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_accounts_are_normalised(tmp_path: Path) -> None:
    entry = {"balance": 7, "nonce": "0x1", "code": "6001", "storage": {"0x1": "ff"}}
    plain = {"balance": "0x0"}
    found = read_alloc(write(tmp_path, {"alloc": {"12": entry, "0x34": plain}}))
    assert found.alloc == {
        ACCOUNT: {"balance": "0x7", "nonce": "0x1", "code": "0x6001", "storage": {word(1): word(255)}},
        "0x" + "00" * 19 + "34": {"balance": "0x0", "nonce": "0x0"},
    }
    assert found.forks == frozenset()
    assert read_alloc(write(tmp_path, {"12": entry})).alloc == {ACCOUNT: found.alloc[ACCOUNT]}


def word(value: int) -> str:
    return f"0x{value:064x}"


def test_forks_are_those_active_at_the_files_timestamp(tmp_path: Path) -> None:
    config = {"regolithTime": 0, "canyonTime": 99, "ecotoneTime": 100, "fjordTime": 101, "graniteTime": None}
    found = read_alloc(write(tmp_path, {"alloc": {"12": {}}, "config": config, "timestamp": "0x64"}))
    assert found.forks == {"regolith", "canyon", "ecotone"}
    assert read_alloc(write(tmp_path, {"alloc": {"12": {}}, "config": None})).forks == frozenset()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ([], "accounts under `alloc`"),
        ({}, "accounts under `alloc`"),
        ({"alloc": {}}, "accounts under `alloc`"),
        ({"alloc": {"zz": {}}}, "account zz"),
        ({"alloc": {"0x" + "11" * 21: {}}}, "at most 20 bytes"),
        ({"alloc": {"12": 5}}, "account 12"),
        ({"alloc": {"12": {"balance": "lots"}}}, "account 12"),
        ({"alloc": {"12": {"code": "0x1"}}}, "account 12"),
        ({"alloc": {"12": {"storage": {"0x" + "1" * 65: "0x1"}}}}, "account 12"),
        ({"alloc": {"12": {"storage": [1]}}}, "account 12"),
        ({"alloc": {"12": {}}, "config": {}, "timestamp": "soon"}, "timestamp"),
    ],
)
def test_invalid_files_have_an_error(tmp_path: Path, content: Any, error: str) -> None:
    with pytest.raises(SettingsError, match=r"^--l2-alloc .*genesis\.json: ") as refusal:
        read_alloc(write(tmp_path, content))
    assert error in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_alloc(tmp_path / "nothing.json")
