"""The forks of both chains of a local network, and when they activate."""

from collections.abc import Mapping, Sequence

from rollup_node.stages.protocol.forks.schedule import fork_order_error
from rollup_node.stages.protocol.forks.table import TIMED_FORKS
from rollup_node.tools.devnet.evm.forks import L1_FORKS, PRAGUE
from rollup_node.tools.devnet.l1.beacon import CONSENSUS_FORKS

DEFAULT_FORK = "jovian"
FORKS = TIMED_FORKS
LATE_L1_FORKS = tuple(rules.name for rules in L1_FORKS[L1_FORKS.index(PRAGUE) + 1 :])
"""The forks of L1 that are not active without --l1-forks."""
_L1_FORKS = dict(zip(LATE_L1_FORKS, LATE_L1_FORKS, strict=True)) | {
    CONSENSUS_FORKS[name].name: name for name in LATE_L1_FORKS if name in CONSENSUS_FORKS
}
"""By their names on both layers."""
MAX_OFFSET_DIGITS = 9


class SettingsError(ValueError):
    """A flag has an invalid value; the text is one line for the user."""


def fork_offsets(texts: Sequence[str]) -> dict[str, int]:
    """Return the seconds after genesis at which each fork activates, from entries NAME=OFFSET.

    Forks before the first one given are active at genesis, forks between two given ones activate with the later one,
    and forks after the last one never. Raises SettingsError."""
    offsets = _offsets("--fork", texts or [f"{DEFAULT_FORK}=0"], dict(zip(FORKS, FORKS, strict=True)))
    problem = fork_order_error(offsets, genesis_time=0)
    if problem is not None:
        raise SettingsError(f"--fork: {problem}; give ascending offsets, and from Jovian on a different one per fork")
    return offsets


def l1_fork_offsets(text: str | None) -> dict[str, int]:
    """Return the seconds after L1's genesis at which each of its forks after Prague activates.

    From NAME=OFFSET,NAME=OFFSET... with the names of either layer; which others activate is as of `fork_offsets`.
    Raises SettingsError."""
    offsets = _offsets("--l1-forks", [] if text is None else text.split(","), _L1_FORKS)
    if list(offsets.values()) != sorted(offsets.values()):
        raise SettingsError(f"--l1-forks {text}: give ascending offsets, in the order {', '.join(LATE_L1_FORKS)}")
    return offsets


def _offsets(flag: str, texts: Sequence[str], forks: Mapping[str, str]) -> dict[str, int]:
    """As of `fork_offsets`, of forks that may have several names."""
    named = dict(_fork_offset(flag, entry, forks) for entry in texts)
    if len(named) < len(texts):
        raise SettingsError(f"{flag}: the same fork is given twice")
    offsets: dict[str, int] = {}
    unnamed: list[str] = []
    for fork in dict.fromkeys(forks.values()):
        unnamed.append(fork)
        if fork in named:
            offsets.update(dict.fromkeys(unnamed, named[fork] if offsets else 0) | {fork: named[fork]})
            unnamed.clear()
    return offsets


def _fork_offset(flag: str, entry: str, forks: Mapping[str, str]) -> tuple[str, int]:
    name, separator, text = entry.partition("=")
    if name not in forks:
        raise SettingsError(f"{flag} {entry}: unknown fork {name!r}; one of {', '.join(forks)}")
    if not separator or not (text.isascii() and text.isdigit()) or len(text) > MAX_OFFSET_DIGITS:
        raise SettingsError(f"{flag} {entry}: must be NAME=OFFSET, with the offset in seconds after genesis")
    return forks[name], int(text)
