"""Networks that left the OP Stack: from a certain block on they follow forks of their own [LFT1]."""

from collections.abc import Mapping
from typing import NamedTuple


class Departure(NamedTuple):
    """The first fork that is not of the OP Stack and changes derivation.

    Its name, the time in seconds from which L2 blocks follow it, and where both are published. `engine_forks` are
    the times of earlier ones, which only the engine has to know [LFT10]."""

    fork: str
    time: int
    source: str
    engine_forks: Mapping[str, int] = {}


_DENIM = "docs.base.org/base-chain/specs/upgrades/denim/overview"
_AZUL = "docs.base.org/upgrades/azul/node-upgrade"

LEFT: dict[str, Departure] = {
    "base-mainnet": Departure(
        "Denim",
        1_793_901_600,
        f"{_DENIM}: active on Base Mainnet since 5 Nov 2026 18:00 UTC. {_AZUL}: Azul since 28 May 2026 18:00 UTC.",
        {"azul": 1_779_991_200},
    ),
    "base-sepolia": Departure(
        "Denim",
        1_792_605_600,
        f"{_DENIM}: active on Base Sepolia since 21 Oct 2026 18:00 UTC. {_AZUL}: Azul since 20 Apr 2026 18:00 UTC.",
        {"azul": 1_776_708_000},
    ),
}
"""By network name. The registry has the forks of the OP Stack alone, so these are not part of networks.json."""
