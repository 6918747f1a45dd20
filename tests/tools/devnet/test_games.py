"""The local L1's dispute game factory: what a proposer reads. What it writes is read in tests/tools/watch."""

from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.tools.devnet.games import FACTORY, selector
from tests.support.chains.l1_with_games import L1WithGames


def view(signature: str, *words: bytes) -> bytes:
    data = selector(signature).to_bytes(4, "big") + b"".join(words)
    request = {"to": to_hex(FACTORY), "data": to_hex(data)}
    return from_hex(L1WithGames().methods()["eth_call"](request, "latest"))


def test_a_proposer_finds_a_version_and_no_bond() -> None:
    assert view("initBonds(uint32)", (1).to_bytes(32, "big")) == bytes(32)
    assert view("version()")[64:69] == b"1.4.0"
