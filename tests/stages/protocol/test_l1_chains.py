"""L1 chains: blob schedules, blob base fees, and the file of `rollup.l1-chain-config`."""

import json
from typing import Any

import pytest

from rollup_node.stages.protocol import l1_chains
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.l1_chains import BlobFork, L1Chain, L1ChainError, old_members, parse_l1_chain
from rollup_node.stages.protocol.types import ZERO_HASH, L1Header

MAINNET, SEPOLIA, HOODI = (l1_chains.L1_CHAINS[chain_id] for chain_id in (1, 11155111, 560048))
CONFIG: dict[str, Any] = {
    "chainId": 900,
    "londonBlock": 0,
    "cancunTime": 0,
    "pragueTime": 100,
    "osakaTime": None,
    "bpo1Time": 200,
    "depositContractAddress": "0x00",
    "blobSchedule": {
        "cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3338477},
        "prague": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716},
        "osaka": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716},
    },
}


def parsed(changes: dict[str, Any] | None = None, chain_id: int = 900) -> L1Chain:
    return parse_l1_chain(json.dumps(CONFIG | (changes or {})).encode(), chain_id)


@pytest.mark.parametrize(
    ("time", "fraction"),
    [
        (1710338135, 3338477),
        (1746612310, 3338477),
        (1746612311, 5007716),
        (1764798551, 5007716),
        (1765290070, 5007716),
        (1765290071, 8346193),
        (1767747670, 8346193),
        (1767747671, 11684671),
        (2**63, 11684671),
    ],
)
def test_mainnet_schedule(time: int, fraction: int) -> None:
    """[LIN25, LIN31]"""
    assert MAINNET.update_fraction(time) == fraction


def test_pectra_correction_holds_cancun_until_its_time() -> None:
    """[LIN26]"""
    late = 1742486400
    assert SEPOLIA.update_fraction(late - 1) == 5007716
    assert SEPOLIA.update_fraction(late - 1, late) == 3338477
    assert SEPOLIA.update_fraction(late, late) == 5007716
    assert SEPOLIA.update_fraction(1761607008 - 1, 1761607008) == 3338477, "also past later forks"


def test_blob_base_fee_of_blocks() -> None:
    """[LIN23, LIN33]"""

    def header(excess: int | None) -> L1Header:
        return L1Header(ZERO_HASH, 1, ZERO_HASH, 1742486399, ZERO_HASH, 7, excess, None)

    assert l1_chains.l1_blob_base_fee(SEPOLIA, header(None), None) == 1
    assert l1_chains.l1_blob_base_fee(SEPOLIA, header(0), None) == 1
    assert l1_chains.l1_blob_base_fee(SEPOLIA, header(40_000_000), None) == 2944
    assert l1_chains.l1_blob_base_fee(SEPOLIA, header(40_000_000), 1742486400) == 159773
    op_chain = parsed({"optimism": {}, "blobSchedule": None})
    assert [l1_chains.l1_blob_base_fee(op_chain, header(excess), None) for excess in (None, 0, 40_000_000)] == [1, 1, 1]
    largest = l1_chains.l1_blob_base_fee(SEPOLIA, header(177 * 5007716), None)
    assert 2**255 < largest < 2**256
    for impossible in (177 * 5007716 + 1, 2**64 - 1):
        with pytest.raises(CriticalError, match="is impossible"):
            l1_chains.l1_blob_base_fee(SEPOLIA, header(impossible), None)


def test_chains_that_probably_lack_the_pectra_correction() -> None:
    genesis = 1691802540
    assert l1_chains.pectra_schedule_probably_missing(SEPOLIA, genesis, None)
    assert not l1_chains.pectra_schedule_probably_missing(SEPOLIA, genesis, 1742486400)
    assert not l1_chains.pectra_schedule_probably_missing(SEPOLIA, 1741159777, None)
    assert l1_chains.pectra_schedule_probably_missing(SEPOLIA, 1741159776, None)
    assert not l1_chains.pectra_schedule_probably_missing(MAINNET, genesis, None)
    assert not l1_chains.pectra_schedule_probably_missing(HOODI, 0, None)


def test_config_files_and_genesis_files() -> None:
    chain = parsed()
    assert chain == L1Chain(900, "chain 900", (BlobFork("cancun", 0, 3338477), BlobFork("prague", 100, 5007716))), (
        "a row needs a time and an entry"
    )
    genesis = {"config": CONFIG, "alloc": {}, "nonce": "0x0"}
    assert parse_l1_chain(json.dumps(genesis).encode(), 900) == chain


def test_osaka_has_the_entry_of_prague() -> None:
    """[LIN25, LIN28]"""
    prague = {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716}
    other = {"target": 6, "max": 9, "baseFeeUpdateFraction": 7}
    for schedule in ({"prague": prague}, {"prague": prague, "osaka": other}, {"osaka": prague}):
        chain = parsed({"osakaTime": 150, "blobSchedule": schedule})
        assert chain.blob_fork("osaka") == BlobFork("osaka", 150, 5007716)
    assert parsed({"osakaTime": 150, "blobSchedule": {"bpo1": prague}}).blob_fork("osaka") is None


@pytest.mark.parametrize(
    ("changes", "members"),
    [
        ({}, ("blobSchedule.osaka",)),
        ({"blobSchedule": {"cancun": CONFIG["blobSchedule"]["cancun"]}}, ()),
        ({"blobSchedule": {"verkle": {}, "amsterdam": {}}}, ("blobSchedule.verkle", "blobSchedule.amsterdam")),
        ({"blobSchedule": None, "optimism": {}, "verkleTime": 5}, ("verkleTime",)),
        ({"blobSchedule": {}, "enableVerkleAtGenesis": False}, ("enableVerkleAtGenesis",)),
    ],
)
def test_members_that_op_node_no_longer_takes(changes: dict[str, Any], members: tuple[str, ...]) -> None:
    """The file is read all the same [OPT34]."""
    spec = CONFIG | changes
    assert parse_l1_chain(json.dumps(spec).encode(), 900).chain_id == 900
    assert old_members(json.dumps(spec).encode()) == old_members(json.dumps({"config": spec}).encode()) == members


def test_an_op_chain_as_l1_needs_no_schedule() -> None:
    assert parsed({"blobSchedule": None, "optimism": {"eip1559Elasticity": 6}}).blob_forks == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"chainId": 901}, "l1 chain config chain ID mismatch: 901 != 900"),
        ({"chainId": None}, "l1 chain config chain ID mismatch: None != 900"),
        ({"blobSchedule": None}, "L1 chain config does not have a blob schedule config"),
        ({"blobSchedule": []}, "L1 chain config does not have a blob schedule config"),
        ({"surprise": 1}, "unknown key 'surprise'"),
        ({"cancunTime": "0x5"}, "cancunTime must be a whole number"),
        ({"cancunTime": -1}, "cancunTime must be a whole number"),
        ({"cancunTime": True}, "cancunTime must be a whole number"),
        ({"chainId": 9.5}, "chainId must be a whole number"),
        ({"blobSchedule": {"cancun": {"target": 3}}}, "blobSchedule.cancun.baseFeeUpdateFraction must be positive"),
        ({"blobSchedule": {"cancun": {"baseFeeUpdateFraction": 0}}}, "must be positive"),
    ],
)
def test_files_that_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(L1ChainError) as raised:
        parsed(changes)
    assert text in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"5", b"\xff\xfe"])
def test_files_without_an_object(content: bytes) -> None:
    with pytest.raises(L1ChainError, match="failed to read chain spec"):
        parse_l1_chain(content, 900)
