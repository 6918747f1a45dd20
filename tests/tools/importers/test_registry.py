"""The importer of the superchain registry, and the built-in networks."""

from datetime import date
from pathlib import Path

import pytest

from rollup_node.node.setup.networks import registry_version
from rollup_node.tools.importers.registry import (
    ADDITIONS_FILE,
    NETWORKS_FILE,
    check_dependencies,
    networks_text,
    read_additions,
    read_registry,
)

BOTH: dict[str, object] = {"dependencies": [1, 2]}


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"dependencies": [1, 9]}, {}, "the dependency set of a has chain 9, which is no network"),
        (BOTH, {}, "a and b have different dependency sets"),
        (
            BOTH | {"forks": {"lagoon": 5}},
            BOTH | {"forks": {"lagoon": 7}},
            "a and b are of one .* different Lagoon times",
        ),
    ],
)
def test_the_members_of_a_dependency_set_agree(
    first: dict[str, object], second: dict[str, object], reason: str
) -> None:
    """[OPT81]"""
    own, other = ({"chain_ids": [7, number], "forks": {}} for number in (1, 2))
    with pytest.raises(ValueError, match=reason):
        check_dependencies({"a": own | first, "b": other | second})
    check_dependencies({"a": own})


def test_the_built_in_file_is_current(shared_data: Path) -> None:
    version = registry_version()
    networks, additions = read_registry(shared_data / "registry"), read_additions(ADDITIONS_FILE)
    text = networks_text(networks, version.commit, date.fromisoformat(version.date), additions)
    assert NETWORKS_FILE.read_text() == text
