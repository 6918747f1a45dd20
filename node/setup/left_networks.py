"""Networks that left the OP Stack: from a certain block on they follow forks of their own [LFT1]."""

from typing import NamedTuple


class Departure(NamedTuple):
    """The first fork that is not of the OP Stack: its name, the time in seconds from which L2 blocks follow it, and
    where both are published."""

    fork: str
    time: int
    source: str


LEFT: dict[str, Departure] = {
    "base-mainnet": Departure(
        "Azul",
        1_779_991_200,
        "docs.base.org/upgrades/azul/node-upgrade: active on mainnet since 28 May 2026 18:00 UTC, not supported by"
        " op-node and kona.",
    ),
    "base-sepolia": Departure(
        "Azul",
        1_776_708_000,
        "docs.base.org/base-chain/specs/upgrades/azul/overview: active on Base Sepolia since 20 Apr 2026 18:00 UTC.",
    ),
}
"""By network name. The registry has the forks of the OP Stack alone, so these are not part of networks.json."""
