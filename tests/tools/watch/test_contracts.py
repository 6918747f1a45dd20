"""Answers of contracts: those of the local L1's are read in tests/tools/devnet/games; others are refused."""

from typing import Any

import pytest

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import super_preimage
from rollup_node.tools.watch import contracts
from rollup_node.tools.watch.contracts import ContractError, GameData, Listed

CLAIM, HEAD, EXTRA = b"\x01" * 32, b"\x02" * 32, (9).to_bytes(32, "big")


def _word(value: int) -> bytes:
    return value.to_bytes(32, "big")


def test_selectors_and_topics_are_those_of_the_contracts() -> None:
    """Known values: gameCount() and the topic of DisputeGameCreated."""
    assert contracts.GAME_COUNT.hex() == "4d1975b4"
    assert contracts.GAME_AT_INDEX.hex() == "bb8aa1fc"
    assert contracts.CREATED.hex() == "5b565efe82411da98814f356d0e7bcb8f0219b8d970307c5afb4a6903a8b2e35"
    assert contracts.call("0x" + "aa" * 20, contracts.GAME_AT_INDEX, 5)["data"] == "0xbb8aa1fc" + _word(5).hex()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        5,
        "0x",
        "0x1",
        to_hex(_word(1) + CLAIM),
        to_hex(_word(1) + CLAIM + _word(96) + _word(33) + EXTRA),
        to_hex(_word(1) + CLAIM + _word(1 << 200) + _word(32) + EXTRA),
        to_hex(bytes(contracts.MAX_ANSWER + 32)),
        to_hex(_word(1 << 32) + CLAIM + _word(96) + _word(32) + EXTRA),
    ],
)
def test_answers_that_are_no_game_are_refused(answer: Any) -> None:
    with pytest.raises(ContractError):
        contracts.game_data(answer)


def test_a_game_without_a_number_is_refused() -> None:
    data = contracts.game_data(to_hex(_word(1) + CLAIM + _word(96) + _word(2) + bytes(32)))
    assert data.extra_data == bytes(2)
    with pytest.raises(ContractError, match="have 2 bytes"):
        _ = data.l2_sequence_number


def test_the_time_of_a_super_root_is_in_its_preimage() -> None:
    """Older games have it as a word, as blocks are."""
    preimage = super_preimage(1_700_000_000, [(10, CLAIM)])
    assert GameData(4, CLAIM, preimage).l2_sequence_number == 1_700_000_000
    assert GameData(4, CLAIM, EXTRA).l2_sequence_number == GameData(0, CLAIM, EXTRA + CLAIM).l2_sequence_number == 9
    for wrong in (preimage[:-1], b"\0" + preimage[1:]):
        with pytest.raises(ContractError, match="are no super root"):
            _ = GameData(9, CLAIM, wrong).l2_sequence_number


@pytest.mark.parametrize("log", [None, {}, {"topics": []}, {"topics": ["0x1", 5, None, "x"]}])
def test_logs_that_are_not_the_event_are_refused(log: Any) -> None:
    with pytest.raises(ContractError):
        contracts.created(log)


def test_entries_are_packed_as_the_factory_packs_them() -> None:
    entry = Listed(0x01020304, 0x0A0B0C0D0E0F1011, "0x" + "aa" * 20)
    assert contracts.packed(entry).hex() == "010203040a0b0c0d0e0f1011" + "aa" * 20
    words = (_word(1), _word(2), bytes(12) + b"\xaa" * 20)
    assert contracts.listed(to_hex(b"".join(words))) == Listed(1, 2, "0x" + "aa" * 20)
    with pytest.raises(ContractError, match="a number of 64 bits is"):
        contracts.listed(to_hex(_word(1) + _word(1 << 64) + _word(1)))


def test_the_code_of_a_proxy_shows_its_data_in_both_layouts() -> None:
    data = GameData(8, CLAIM, EXTRA)
    assert contracts.code_shows(b"\x36" + CLAIM + HEAD + EXTRA + b"\0\x74", data, HEAD)
    assert contracts.code_shows(b"\x36" + CLAIM + HEAD + (8).to_bytes(4, "big") + EXTRA + b"args", data, HEAD)
    assert not contracts.code_shows(b"\x36" + CLAIM + HEAD + _word(10), data, HEAD)
    assert not contracts.code_shows(b"\x36" + CLAIM + CLAIM + EXTRA, data, HEAD)
