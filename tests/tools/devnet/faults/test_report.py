"""The report on a run with faults."""

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.faults.report import ChaosReport, chaos_report

HASHES = {number: bytes([number]) * 32 for number in range(6)}
COMMITS = [(number, to_hex(HASHES[number])) for number in (1, 2, 3, 4)]
GOSSIPED = {number: {HASHES[number]} for number in (1, 2, 4)}
CANONICAL = {number: to_hex(HASHES[number]) for number in (0, 1, 2, 3)}


def report(
    commits: list[tuple[int, str]] = COMMITS,
    gossiped: dict[int, set[bytes]] = GOSSIPED,
    arrivals: tuple[float, ...] = (5.0, 6.0, 9.25),
    canonical: dict[int, str] = CANONICAL,
) -> ChaosReport:
    return chaos_report({"transfer of the lead": 2, "kill of the node": 0}, 2, commits, gossiped, arrivals, canonical)


def test_one_chain() -> None:
    result = report()
    assert result.passed
    assert (result.committed, result.gossiped, result.longest_gap) == (4, 3, 3.2)
    lines = result.lines()
    assert lines[0] == "faults: 2 x transfer of the lead"
    assert "failovers: 2; blocks committed: 4, seen on gossip: 3; longest gap without a block: 3.2 s" in lines
    assert lines[-1].startswith("no height was signed twice")


def test_a_height_that_was_signed_twice() -> None:
    result = report(gossiped={**GOSSIPED, 2: {HASHES[2], HASHES[5]}}, commits=[*COMMITS, (2, to_hex(HASHES[5]))])
    assert (result.signed_twice, result.gossiped_uncommitted, result.off_the_chain) == ((2,), (), (2,))
    assert not result.passed and "heights SIGNED TWICE with different hashes: 2" in result.lines()


def test_a_block_on_gossip_that_was_not_committed() -> None:
    result = report(gossiped={**GOSSIPED, 5: {HASHES[5]}})
    assert (result.signed_twice, result.gossiped_uncommitted) == ((), (5,))
    assert not result.passed and "blocks GOSSIPED that were not committed: 5" in result.lines()


def test_a_committed_block_that_is_not_on_the_chain() -> None:
    result = report(canonical={**CANONICAL, 3: to_hex(HASHES[5])})
    assert result.off_the_chain == (3,) and not result.passed
    assert "committed blocks that are NOT ON THE CHAIN: 3" in result.lines()
