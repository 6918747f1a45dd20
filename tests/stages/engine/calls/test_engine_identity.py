"""Who an engine says it is, and which forks it knows [ENG41, ENG42]."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.engine.calls.engine_identity import (
    EngineIdentity,
    fork_doubts,
    identity_of_text,
    identity_of_versions,
)

SEPOLIA = find_network("op-sepolia").config
LAGOON = SEPOLIA.fork_times["lagoon"]
NOW = float(LAGOON - 864_000)


@pytest.mark.parametrize(
    ("name", "version", "code", "kind", "release"),
    [
        ("OP-Reth", "2.10.0", "RH", "reth", (2, 10, 0)),
        ("base-reth-node", "1.5.1-abc", "", "reth", (1, 5, 1)),
        ("go-ethereum", "1.101702.3-stable", "GE", "geth", (1, 101702, 3)),
        ("op-geth", "0.1.0-untagged", "", "geth", (0, 1, 0)),
        ("OP-Erigon", "2.61.0", "EG", "erigon", (2, 61, 0)),
        ("Besu", "25.1", "", None, None),
        ("something", "0.0.0-dev", "RH", "reth", None),
    ],
)
def test_kind_and_release(
    name: str, version: str, code: str, kind: str | None, release: tuple[int, ...] | None
) -> None:
    result = identity_of_versions([{"name": name, "version": version, "code": code, "commit": "0x00"}])
    assert result is not None and (result.kind, result.release) == (kind, release)
    assert str(result) == f"{name} {version}"


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("op-reth/v2.10.0-a1b2c3d/x86_64-unknown-linux-gnu", "reth", "op-reth 2.10.0-a1b2c3d"),
        ("Geth/v1.101702.3-stable/linux-amd64/go1.26.8", "geth", "Geth 1.101702.3-stable"),
        ("erigon/2.61.0/linux-amd64", "erigon", "erigon 2.61.0"),
        ("rollup-node-engine", None, "rollup-node-engine"),
        ("a\nb/\x00", None, "a b ?"),
    ],
)
def test_the_text_of_web3(text: str, kind: str | None, shown: str) -> None:
    result = identity_of_text(text)
    assert result is not None and (result.kind, str(result)) == (kind, shown)


@pytest.mark.parametrize("answer", [None, [], {}, [7], [{}], [{"name": 7}], [{"name": ""}], "x"])
def test_answers_of_another_form_name_nobody(answer: Any) -> None:
    assert identity_of_versions(answer) is None
    assert identity_of_text(answer if answer != "x" else " ") is None


@settings(max_examples=30)
@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda item: st.lists(item, max_size=3) | st.dictionaries(st.text(), item, max_size=3),
        max_leaves=6,
    )
)
def test_no_answer_fails(answer: Any) -> None:
    for identity in (identity_of_versions(answer), identity_of_text(answer)):
        assert identity is None or (len(str(identity)) <= 201 and str(identity).isprintable())
    assert all(doubt.time > NOW for doubt in fork_doubts(SEPOLIA, None, answer, "op-sepolia", NOW))


def texts(name: str, version: str, config: Any = None, network: str = "op-sepolia", now: float = NOW) -> list[str]:
    return [doubt.reason for doubt in fork_doubts(SEPOLIA, EngineIdentity(name, version), config, network, now)]


def test_a_release_from_before_the_announcement_lacks_the_network_s_time() -> None:
    assert texts("OP-Reth", "2.3.2") == ["OP-Reth 2.3.2 does not have it, upgrade to 2.10.0"]
    assert texts("OP-Reth", "2.10.0") == texts("OP-Reth", "3.0.0", {}) == []
    assert texts("go-ethereum", "1.101702.3") == [
        "go-ethereum 1.101702.3 has no release that has it: op-geth's support has ended, use op-reth"
    ]
    assert texts("OP-Reth", "2.3.2", now=float(LAGOON)) == []


def test_builds_without_a_release_and_other_chains_are_known_by_their_configuration_alone() -> None:
    """The genesis file of an own network has its fork times, whatever the release."""
    assert texts("OP-Reth", "0.0.0-dev") == texts("OP-Reth", "2.3.2", network="") == []
    lacks = "the engine's configuration has no lagoonTime"
    assert texts("OP-Reth", "0.0.0-dev", {}) == texts("OP-Reth", "2.3.2", {}, network="") == [lacks]
    for config in ({"lagoonTime": LAGOON}, {"lagoonTime": LAGOON, "karstTime": 5}):
        assert texts("OP-Reth", "2.3.2", config) == []
    other = f"the engine's configuration has lagoonTime {LAGOON + 2}, not {LAGOON}"
    assert texts("OP-Reth", "2.10.0", {"lagoonTime": LAGOON + 2}) == [other]


def test_a_fork_that_only_the_engine_has_is_a_doubt() -> None:
    """[ENG42]"""
    times = {name: at for name, at in SEPOLIA.fork_times.items() if name != "lagoon"}
    rollup = msgspec.structs.replace(SEPOLIA, fork_times=times)
    for at, reasons in ((LAGOON, ["the rollup config has no time of it"]), (int(NOW), []), (1 << 63, [])):
        assert [doubt.reason for doubt in fork_doubts(rollup, None, {"lagoonTime": at}, "", NOW)] == reasons


def test_forks_that_change_no_block_concern_no_engine() -> None:
    """[ENG42]"""
    times = {"canyon": 5, "delta": int(NOW) + 5, "ecotone": int(NOW) + 10}
    rollup = msgspec.structs.replace(SEPOLIA, fork_times=times)
    (doubt,) = fork_doubts(rollup, None, {}, "", NOW)
    assert (doubt.fork, doubt.time) == ("ecotone", int(NOW) + 10)
