"""The local L2's genesis by fork offsets, and with accounts of the user."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.tools.batcher.driver import Key
from rollup_node.tools.devnet.files import DEV_KEYS, rollup_json
from rollup_node.tools.devnet.fork_offsets import SettingsError, fork_offsets
from rollup_node.tools.devnet.l2_genesis import l2_genesis, read_alloc
from rollup_node.tools.devnet.settings import parse

START = 1_800_000_000
FUNDS = hex(10_000 * 10**18)


def genesis(*forks: str, alloc: Path | None = None) -> dict[str, Any]:
    return l2_genesis(fork_offsets(forks), START, alloc)


def address(key: Key) -> str:
    return "0x" + key.address.hex()


@pytest.mark.parametrize(("fork", "packed"), [("delta=0", False), ("ecotone=9", False), ("ecotone=0", True)])
def test_fee_scalars_have_the_format_of_the_first_fork(fork: str, packed: bool) -> None:
    system = rollup_json(parse(["--fork", fork]), "0x01", "0x02", START)["genesis"]["system_config"]
    assert system["scalar"].startswith("0x01" if packed else "0x00") and int(system["scalar"], 16)
    assert bool(int(system["overhead"], 16)) is not packed


def test_accounts_of_a_file_replace_the_development_contracts(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    path.write_text(json.dumps({"alloc": {address(DEV_KEYS[0]): {"code": "0x00"}, "12": {"balance": "0x5"}}}))
    alloc = genesis("delta=0", alloc=path)["alloc"]
    assert alloc["0x" + "00" * 19 + "12"]["balance"] == "0x5"
    assert alloc[address(DEV_KEYS[0])] == {"balance": FUNDS, "nonce": "0x0", "code": "0x00"}
    assert all(alloc[address(key)]["balance"] == FUNDS for key in DEV_KEYS)
    assert "0x4200000000000000000000000000000000000015" not in alloc


def test_accounts_on_which_an_upgrade_fails_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    path.write_text(json.dumps({"alloc": {"0x420000000000000000000000000000000000000f": {"code": "0x60006000fd"}}}))
    with pytest.raises(SettingsError, match=r"accounts.json: upgrade transaction 3 of ecotone fails .* by --fork$"):
        genesis("ecotone=0", alloc=path)
    assert genesis("ecotone=5", alloc=path)["config"]["ecotoneTime"] == START + 5
    value = {"alloc": json.loads(path.read_text())["alloc"], "config": {"ecotoneTime": 0}, "timestamp": "0x0"}
    path.write_text(json.dumps(value))
    assert genesis("ecotone=0", alloc=path)["config"]["ecotoneTime"] == 0


ACCOUNT = "0x" + "00" * 19 + "12"


def write(folder: Path, content: Any) -> Path:
    path = folder / "genesis.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_accounts_are_normalised(tmp_path: Path) -> None:
    entry = {"balance": 7, "nonce": "0x1", "code": "6001", "storage": {"0x1": "ff"}}
    plain = {"balance": "0x0"}
    alloc = read_alloc(write(tmp_path, {"alloc": {"12": entry, "0x34": plain}}))
    assert alloc.alloc == {
        ACCOUNT: {"balance": "0x7", "nonce": "0x1", "code": "0x6001", "storage": {word(1): word(255)}},
        "0x" + "00" * 19 + "34": {"balance": "0x0", "nonce": "0x0"},
    }
    assert alloc.forks == frozenset()
    assert read_alloc(write(tmp_path, {"12": entry})).alloc == {ACCOUNT: alloc.alloc[ACCOUNT]}


def word(value: int) -> str:
    return f"0x{value:064x}"


def test_forks_are_those_active_at_the_files_timestamp(tmp_path: Path) -> None:
    config = {"regolithTime": 0, "canyonTime": 99, "ecotoneTime": 100, "fjordTime": 101, "graniteTime": None}
    alloc = read_alloc(write(tmp_path, {"alloc": {"12": {}}, "config": config, "timestamp": "0x64"}))
    assert alloc.forks == {"regolith", "canyon", "ecotone"}
    assert read_alloc(write(tmp_path, {"alloc": {"12": {}}, "config": None})).forks == frozenset()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ({"alloc": {}}, "accounts under `alloc`"),
        ({"alloc": {"zz": {}}}, "account zz"),
        ({"alloc": {"0x" + "11" * 21: {}}}, "at most 20 bytes"),
        ({"alloc": {"12": 5}}, "account 12"),
        ({"alloc": {"12": {"code": "0x1"}}}, "account 12"),
        ({"alloc": {"12": {"storage": [1]}}}, "account 12"),
        ({"alloc": {"12": {}}, "config": {}, "timestamp": "soon"}, "timestamp"),
    ],
)
def test_invalid_files_have_an_error(tmp_path: Path, content: Any, error: str) -> None:
    with pytest.raises(SettingsError, match=r"^--l2-alloc .*genesis\.json: ") as refusal:
        read_alloc(write(tmp_path, content))
    assert error in str(refusal.value) and "\n" not in str(refusal.value)
