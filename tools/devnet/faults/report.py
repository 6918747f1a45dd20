"""What a run with faults has to show.

One block signed for each height, none gossiped that was not committed, and the committed blocks are the chain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.hex_encoding import to_hex


@dataclass(frozen=True)
class ChaosReport:
    """Heights are block numbers; `longest_gap` is the greatest time in seconds between two new blocks on gossip."""

    faults: dict[str, int]
    failovers: int
    committed: int
    gossiped: int
    signed_twice: tuple[int, ...]
    gossiped_uncommitted: tuple[int, ...]
    off_the_chain: tuple[int, ...]
    longest_gap: float

    @property
    def passed(self) -> bool:
        """Whether there is one chain."""
        return not (self.signed_twice or self.gossiped_uncommitted or self.off_the_chain)

    def lines(self) -> list[str]:
        """Return the report as text."""
        faults = ", ".join(f"{count} x {name}" for name, count in self.faults.items() if count)
        found = [
            f"faults: {faults or 'none'}",
            f"failovers: {self.failovers}; blocks committed: {self.committed}, seen on gossip: {self.gossiped}; "
            f"longest gap without a block: {self.longest_gap:.1f} s",
        ]
        for text, heights in (
            ("heights SIGNED TWICE with different hashes", self.signed_twice),
            ("blocks GOSSIPED that were not committed", self.gossiped_uncommitted),
            ("committed blocks that are NOT ON THE CHAIN", self.off_the_chain),
        ):
            if heights:
                found.append(f"{text}: {', '.join(map(str, heights))}")
        if self.passed:
            found.append(
                "no height was signed twice, no block gossiped without a commit, all committed blocks are the chain"
            )
        return found


def chaos_report(
    faults: Mapping[str, int],
    failovers: int,
    committed: Iterable[tuple[int, str]],
    gossiped: Mapping[int, set[bytes]],
    arrivals: Sequence[float],
    canonical: Mapping[int, str],
) -> ChaosReport:
    """Compare commits (number and hash), blocks on gossip by height, their arrival times, and the safe chains."""
    commits = list(committed)
    known = set(commits)
    uncommitted = sorted(n for n, found in gossiped.items() if any((n, to_hex(each)) not in known for each in found))
    return ChaosReport(
        faults=dict(faults),
        failovers=failovers,
        committed=len(known),
        gossiped=sum(map(len, gossiped.values())),
        signed_twice=tuple(sorted(number for number, found in gossiped.items() if len(found) > 1)),
        gossiped_uncommitted=tuple(uncommitted),
        off_the_chain=tuple(sorted({n for n, each in commits if n in canonical and canonical[n] != each})),
        longest_gap=round(max((later - earlier for earlier, later in pairwise(arrivals)), default=0.0), 1),
    )


async def all_commits(conductor: JsonRpcClient) -> list[tuple[int, str]]:
    """Return number and hash of all commits. Raises EndpointError and RpcFailure."""
    found: list[tuple[int, str]] = []
    while page := await conductor.call("dev_commits", len(found)):
        found += [(number, block_hash) for number, block_hash, _ in page]
    return found


async def chain_hashes(engine: JsonRpcClient, last: int) -> dict[int, str]:
    """Return the hashes of blocks 0 to `last` of an engine. Raises EndpointError and RpcFailure."""
    blocks: list[Any] = await engine.batch([("eth_getBlockByNumber", (hex(n), False)) for n in range(last + 1)])
    return {number: block["hash"] for number, block in enumerate(blocks) if isinstance(block, dict)}
