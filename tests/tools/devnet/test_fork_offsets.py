"""The offsets of forks, and invalid ones."""

import pytest

from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.tools.devnet.fork_offsets import LATE_L1_FORKS, SettingsError
from rollup_node.tools.devnet.settings import parse

FORKS = FORK_NAMES[1:]


def until(newest: str, **later: int) -> dict[str, int]:
    return dict.fromkeys(FORKS[: FORKS.index(newest) + 1], 0) | later


@pytest.mark.parametrize(
    ("forks", "expected"),
    [
        ([], until("jovian")),
        (["karst=0"], until("karst")),
        (["regolith=4"], {"regolith": 4}),
        (["canyon=20"], until("regolith", canyon=20)),
        (["ecotone=3", "granite=5"], until("delta", ecotone=3, fjord=5, granite=5)),
        (["jovian=0", "karst=5", "lagoon=9"], until("jovian", karst=5, lagoon=9)),
        (["canyon=0", "ecotone=7"], until("canyon", delta=7, ecotone=7)),
        ([f"{fork}={9 * at}" for at, fork in enumerate(FORKS)], {fork: 9 * at for at, fork in enumerate(FORKS)}),
    ],
)
def test_fork_offsets(forks: list[str], expected: dict[str, int]) -> None:
    assert parse([word for fork in forks for word in ("--fork", fork)]).forks == expected


@pytest.mark.parametrize(
    ("forks", "expected"),
    [
        ("osaka=0", {"osaka": 0}),
        ("gloas=0", dict.fromkeys(LATE_L1_FORKS, 0)),
        ("amsterdam=20", {"osaka": 0, "bpo1": 0, "bpo2": 0, "amsterdam": 20}),
        ("fulu=5,gloas=20", {"osaka": 5, "bpo1": 20, "bpo2": 20, "amsterdam": 20}),
        ("bpo1=3,bpo2=3,osaka=3", {"osaka": 3, "bpo1": 3, "bpo2": 3}),
    ],
)
def test_l1_fork_offsets(forks: str, expected: dict[str, int]) -> None:
    assert parse([f"--l1-forks={forks}"]).l1_forks == expected


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--fork=bedrock=1", "unknown fork 'bedrock'; one of regolith, canyon"),
        ("--fork=canyon", "must be NAME=OFFSET"),
        ("--fork=canyon=9999999999", "must be NAME=OFFSET"),
        ("--fork=canyon=1 --fork=canyon=2", "given twice"),
        ("--fork=canyon=9 --fork=delta=8", "prior fork canyon has higher offset 9"),
        ("--fork=isthmus=5 --fork=karst=9", "prior fork jovian activates at the same time after genesis"),
        ("--fork=jovian=5 --fork=karst=5", "give ascending offsets, and from Jovian on a different one per fork"),
        ("--l1-forks=", "unknown fork ''; one of osaka, bpo1, bpo2, amsterdam, fulu, gloas"),
        ("--l1-forks=gloas", "must be NAME=OFFSET"),
        ("--l1-forks=osaka=1,fulu=2", "the same fork is given twice"),
        ("--l1-forks=osaka=9,gloas=8", "give ascending offsets, in the order osaka, bpo1, bpo2, amsterdam"),
    ],
)
def test_invalid_fork_offsets(words: str, error: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{words.partition('=')[0]}") as refusal:
        parse(words.split())
    assert error in str(refusal.value) and "\n" not in str(refusal.value)
