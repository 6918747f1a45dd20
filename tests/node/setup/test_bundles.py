"""The options that choose upgrade bundles [UPG23, UPG26]."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.given_files import MAX_FILE
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.values import Values
from rollup_node.node.setup.bundles import check_folder_of_choice, chosen_bundles, folder_of_choice
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.protocol import upgrade_transactions as upgrades
from rollup_node.stages.protocol.config import RollupConfig, UpgradeBundle
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CarriedBundle
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

FOLDER = Path(upgrades.__file__).parent / "forks"
LAGOON = BUNDLE_FORKS["lagoon"].carried
CROSSES = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"lagoon": 1000})


def chosen(*words: str, config: RollupConfig = CROSSES) -> dict[str, UpgradeBundle]:
    return chosen_bundles(config, parse_options(words, {}).values)


@pytest.mark.option("rollup.lagoon-bundle")
@pytest.mark.parametrize("carried", LAGOON, ids=lambda carried: carried.sha256[:8])
def test_any_good_file_is_taken(carried: CarriedBundle) -> None:
    path = FOLDER / carried.file
    result = chosen(f"--rollup.lagoon-bundle={path}")["lagoon"]
    assert result.transactions == upgrades.carried_bundle("lagoon", carried).transactions
    assert (result.sha256, result.origin, result.confirmed_by) == (carried.sha256, f"file {path}", "the operator")


def test_it_reaches_the_chain() -> None:
    words = ("--network=op-sepolia", "--override.lagoon=1796918401", "--l1.beacon.ignore")
    values = parse_options((*words, f"--rollup.lagoon-bundle={FOLDER / LAGOON[1].file}"), {}).values
    config = choose_chain(values, print).config
    assert upgrades.bundle_of(config, "lagoon").sha256 == LAGOON[1].sha256
    assert choose_chain(parse_options(words, {}).values, print).config.bundles == {}


OURS, OTHERS = ((FOLDER / carried.file).read_bytes() for carried in LAGOON[:2])
KARST = FOLDER / BUNDLE_FORKS["karst"].carried[0].file
FAILED = "failed to read upgrade bundle: .*"


@pytest.mark.parametrize(
    ("value", "content", "text"),
    [
        ("{}", b"", f"{FAILED}/bundle: .*not a bundle"),
        ("{}", b" " * (MAX_FILE + 1), f"{FAILED}longer than"),
        ("{}", OURS.replace(b"1.0.0", b"9.0.0"), f"{FAILED}version"),
        ("{}", OURS.replace(b"6080604052348015", b"6080604052348016"), rf"{FAILED}\[UPG21.3\]"),
        ("{}", b"<!DOCTYPE html>", r".*; take op-core/nuts/bundles/lagoon_nut_bundle\.json as it is in op-node's"),
        ("nowhere.json", b"", r".*nowhere\.json: No such file"),
        (str(KARST), b"", r".*karst_nut_bundle\.json: it is the bundle of karst, not of lagoon"),
        ("auto", b"{", ".*; remove the file: the node writes it again$"),
        (
            "auto",
            OTHERS.replace(b'"gasLimit": 498000', b'"gasLimit": 498001'),
            ".* is none of the bundles of this version: remove the file, or give it with",
        ),
        ("auto --sequencer.enabled", b"", "a sequencer makes the block"),
    ],
)
def test_a_wrong_file_or_choice_is_refused(value: str, content: bytes, text: str, tmp_path: Path) -> None:
    """A sequencer would start again in the middle of its work, and with it started or stopped as at first."""
    for name in ("bundle", "lagoon_bundle_auto.json"):
        (tmp_path / name).write_bytes(content)
    value, *words = value.format(tmp_path / "bundle").split()
    with pytest.raises(OptionError, match=f"^rollup.lagoon-bundle(=auto)?: {text}"):
        chosen(f"--rollup.lagoon-bundle={value}", f"--rollup.bundle-dir={tmp_path}", *words)


def test_a_chain_without_the_fork_needs_no_bundle() -> None:
    with pytest.raises(OptionError, match=r"rollup\.lagoon-bundle: the chain has no time for lagoon"):
        chosen("--rollup.lagoon-bundle=auto", config=PLAIN_ROLLUP)


def test_auto_begins_with_the_bundle_of_the_package(tmp_path: Path) -> None:
    assert chosen("--rollup.lagoon-bundle=auto", f"--rollup.bundle-dir={tmp_path}") == {}


@pytest.mark.option("rollup.bundle-dir")
def test_auto_takes_what_it_has_chosen(tmp_path: Path) -> None:
    (tmp_path / "lagoon_bundle_auto.json").write_bytes(OTHERS)
    result = chosen("--rollup.lagoon-bundle=auto", f"--rollup.bundle-dir={tmp_path}")["lagoon"]
    assert (result.sha256, result.confirmed_by) == (LAGOON[1].sha256, "the chain")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda path: path.write_bytes(b"{"), "not a bundle"),
        (lambda path: path.mkdir(), "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to(FOLDER / LAGOON[1].file), "symbolic link"),
        (lambda path: (path.write_bytes(OTHERS), path.chmod(0o666)), "others may"),
    ],
    ids=["damaged", "folder", "pipe", "link", "writable by others"],
)
def test_a_choice_that_is_no_file_of_this_node_is_refused(
    make: Callable[[Path], object], text: str, tmp_path: Path
) -> None:
    """Whoever wrote it would choose which chain the node follows."""
    make(tmp_path / "lagoon_bundle_auto.json")
    with pytest.raises(OptionError, match=f"^rollup.lagoon-bundle=auto: failed to read upgrade bundle: .*{text}"):
        chosen("--rollup.lagoon-bundle=auto", f"--rollup.bundle-dir={tmp_path}")


def folder(path: Path, value: str = "auto") -> Values:
    return parse_options((f"--rollup.lagoon-bundle={value}", f"--rollup.bundle-dir={path}"), {}).values


def test_the_folder_of_the_choice_is_made_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder"
    check_folder_of_choice(folder(path, "FILE"))
    assert not path.exists() and folder_of_choice(folder(path, "FILE")) is None
    check_folder_of_choice(folder(path))
    assert path.is_dir() and folder_of_choice(folder(path)) == str(path)


def test_a_folder_in_which_the_choice_could_not_be_kept_ends_the_start(tmp_path: Path) -> None:
    """At the fork it would be too late."""
    link, file, open_to_all = (tmp_path / name for name in ("link", "file", "open"))
    link.symlink_to(tmp_path)
    file.touch()
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for path, text in ((link, "symbolic link"), (file, "exists"), (open_to_all, "others may write")):
        with pytest.raises(SetupError, match=rf"^{path} cannot be used: .*{text}.*\(--rollup.bundle-dir\)$"):
            check_folder_of_choice(folder(path))
