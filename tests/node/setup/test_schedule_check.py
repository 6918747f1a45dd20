"""A chain in use is compared with the built-in network that it is [OPT82]."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.setup.networks import find_network, network_names
from rollup_node.node.setup.schedule_check import schedule_notices
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.rpc.config import DependencySet

LAGOON = 1_796_918_401
NOW = float(LAGOON - 12 * 86_400)


def warned(*words: str, now: float = NOW) -> list[tuple[str, str]]:
    """Text and option of each warning."""
    chain = choose_chain(parse_options(("--l1.beacon=http://b", *words), {}).values, print, print)
    found = schedule_notices(chain, now)
    assert all(notice.fields["code"] == "FORK-SCHEDULE" for notice in found)
    return [(notice.text, str(notice.fields["option"])) for notice in found]


def file_of(folder: Path, network: str = "op-sepolia", **changes: Any) -> str:
    values = rollup_config_object(find_network(network).config) | changes
    (folder / "rollup.json").write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
    return f"--rollup.config={folder}/rollup.json"


@pytest.mark.parametrize("name", [name for name in network_names() if not name.startswith(("rehearsal", "shape"))])
def test_a_network_is_itself(name: str) -> None:
    words = ("--altda.enabled", "--altda.da-server=http://d") if find_network(name).config.alt_da is not None else ()
    assert warned(f"--network={name}", "--ignore-missing-pectra-blob-schedule", *words) == []


@pytest.mark.condition("C13")
def test_a_file_without_the_next_fork_is_warned_of_with_the_option(tmp_path: Path) -> None:
    file = file_of(tmp_path, lagoon_time=None)
    text = "lagoon is not scheduled here, and on op-sepolia at 2026-12-10T16:00:01Z"
    option = f"--override.lagoon={LAGOON}"
    member = (
        "lagoon is not scheduled here, and on unichain-sepolia of the dependency set at 2026-12-10T16:00:01Z",
        option,
    )
    assert warned(file) == [(f"{text}, in 12d0h", option), member]
    assert warned(file, now=LAGOON + 1.0) == [(text, option), member]
    assert warned(file, option) == []
    assert warned(file_of(tmp_path)) == []


def test_another_time_and_a_missing_flag_are_warned_of(tmp_path: Path) -> None:
    file = file_of(tmp_path, "ink-sepolia", karst_time=1_781_712_003, keep_karst_upgrade_gas=None)
    assert warned(file) == [
        (
            "karst begins at 2026-06-17T16:00:03Z here, and on ink-sepolia at 2026-06-17T16:00:01Z",
            "--override.karst=1781712001",
        ),
        (
            "keep_karst_upgrade_gas is false here, and true on ink-sepolia",
            "--override.keep-karst-upgrade-gas=true",
        ),
    ]


def test_a_fork_that_only_the_file_has_is_newer_than_the_built_in_network(tmp_path: Path) -> None:
    assert warned(file_of(tmp_path, "zora-sepolia", lagoon_time=1_800_000_000)) == []


def test_another_chain_is_not_compared(tmp_path: Path) -> None:
    """Neither one of another id, nor a fork of the network with a genesis of its own."""
    config = rollup_config_object(find_network("ink-sepolia").config)
    genesis = config["genesis"] | {"l2": {"hash": "0x" + "12" * 32, "number": 0}}
    assert warned(file_of(tmp_path, "ink-sepolia", genesis=genesis, lagoon_time=None)) == []
    assert warned(file_of(tmp_path, "ink-sepolia", l2_chain_id=901, lagoon_time=None)) == []


def test_another_dependency_set_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text('{"dependencies":{"11155420":{}}}')
    option = f"--interop.dependency-set={tmp_path}/set.json"
    text = "the dependency set is 11155420 here, and 1301, 11155420 on op-sepolia"
    assert warned("--network=op-sepolia", option) == [(text, "--interop.dependency-set")]


def test_the_members_of_a_dependency_set_have_one_lagoon_time(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text('{"dependencies":{"901":{},"1301":{},"902":{}}}')
    words = (f"--interop.dependency-set={tmp_path}/set.json",)
    file = file_of(tmp_path, l2_chain_id=901, lagoon_time=LAGOON + 2)
    assert warned(file, *words) == [
        (
            "lagoon begins at 2026-12-10T16:00:03Z here, and on unichain-sepolia of the dependency set at"
            " 2026-12-10T16:00:01Z",
            f"--override.lagoon={LAGOON}",
        )
    ]
    assert warned(file_of(tmp_path, l2_chain_id=901, lagoon_time=LAGOON), *words) == []


def test_a_chain_without_a_dependency_set_has_no_members(tmp_path: Path) -> None:
    chain = choose_chain(
        parse_options(("--l1.beacon=http://b", file_of(tmp_path, l2_chain_id=901, lagoon_time=None)), {}).values,
        print,
        print,
    )
    assert chain.dependencies is None and schedule_notices(chain, NOW) == []
    assert schedule_notices(chain._replace(dependencies=DependencySet((901,))), NOW) == []
