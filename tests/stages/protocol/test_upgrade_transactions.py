"""Upgrade bundles: their locks, and what a damaged file leads to."""

from pathlib import Path

import pytest

from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.deposits import decode_deposit
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.table import FORKS

COUNTS = {"ecotone": 6, "fjord": 3, "isthmus": 8, "jovian": 5, "karst": 31, "lagoon": 28}
GAS = {
    "ecotone": 1_805_000,
    "fjord": 1_590_000,
    "isthmus": 3_040_000,
    "jovian": 2_388_029,
    "karst": 55_370_657,
    "lagoon": 60_653_172,
}


def test_every_bundle_of_the_table_has_a_lock() -> None:
    named = [fork.activation.bundle for fork in FORKS if fork.activation is not None]
    assert named == list(upgrades.LOCKS) == list(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_bundles(name: str) -> None:
    bundle = upgrades.load_bundle(name)
    assert len(bundle.transactions) == COUNTS[name]
    assert bundle.gas == GAS[name]
    assert upgrades.bundle_lock(bundle) == upgrades.LOCKS[name]
    linked = sum(decode_deposit(each).gas for each in (*bundle.linked_before, *bundle.linked_after))
    assert linked == (150_000 if name == "lagoon" else 0)
    assert bundle.gas == linked + sum(decode_deposit(each).gas for each in bundle.transactions)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"fork":"fjord","source":"","transactions":[{}]}'])
def test_a_damaged_file_is_critical(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "upgrades_fjord.json").write_bytes(content)
    monkeypatch.setattr(upgrades, "files", lambda package: tmp_path)
    with pytest.raises(CriticalError, match="cannot be read"):
        upgrades.load_bundle.__wrapped__("fjord")


def test_a_changed_file_is_critical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = (Path(upgrades.__file__).parent / "forks" / "upgrades_fjord.json").read_bytes()
    (tmp_path / "upgrades_fjord.json").write_bytes(original.replace(b"90000", b"90001"))
    monkeypatch.setattr(upgrades, "files", lambda package: tmp_path)
    with pytest.raises(CriticalError, match="was changed"):
        upgrades.load_bundle.__wrapped__("fjord")
