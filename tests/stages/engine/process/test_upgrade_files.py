"""The files of bundles that the chain has [UPG25, UPG26]."""

from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.engine.attributes.activation_hold import OtherUpgrade
from rollup_node.stages.engine.process.upgrade_files import UpgradeFiles
from rollup_node.stages.protocol.errors import RestartError
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, DRAFTS
from tests.stages.derivation.process.test_derivation_log import RecordingLogger

CARRIED = BUNDLE_FORKS["lagoon"].carried[1]
OTHER = OtherUpgrade("lagoon", 7, b"\1" * 32, "transaction 4: its gas is 1", "ab" * 32, b"{}", "cd" * 32, CARRIED)


def test_the_bundle_of_the_chain_is_written_and_named(tmp_path: Path) -> None:
    lines = RecordingLogger()
    folder = tmp_path / "made" / "when needed"
    UpgradeFiles(str(folder), lines).differs(OTHER, False)
    ((_, _, fields),) = lines.lines
    assert (folder / "lagoon_bundle_cdcdcdcd.json").read_bytes() == b"{}"
    assert fields["file"] == str(folder / "lagoon_bundle_cdcdcdcd.json")
    assert (fields["code"], fields["block"], fields["seen"]) == ("BUNDLE-DIFFERS", 7, "cd" * 32)
    assert CARRIED.found in str(fields["known"]) and fields["confirmed_by_l1"] is False


def test_the_file_is_named_from_the_root_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory of a service is not that of who reads its log."""
    monkeypatch.chdir(tmp_path)
    lines = RecordingLogger()
    UpgradeFiles(".", lines).differs(OTHER, False)
    assert lines.lines[0][2]["file"] == str(tmp_path / OTHER.file_name)


def test_bundles_that_are_not_carried(tmp_path: Path) -> None:
    for sha256, known in (("ef" * 32, "not known"), (next(iter(DRAFTS)), "draft")):
        lines = RecordingLogger()
        other = msgspec.structs.replace(OTHER, sha256=sha256, carried=None)
        UpgradeFiles(str(tmp_path), lines).differs(other, True)
        assert known in str(lines.lines[0][2]["known"])


def test_no_file_is_written_where_the_dependency_set_differs(tmp_path: Path) -> None:
    lines = RecordingLogger()
    UpgradeFiles(str(tmp_path), lines).differs(msgspec.structs.replace(OTHER, same_bundle=True), False)
    assert list(tmp_path.iterdir()) == [] and "file" not in lines.lines[0][2]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lines = RecordingLogger()
    files = UpgradeFiles(str(tmp_path / "file"), lines)
    files.differs(OTHER, False)
    files.choose(OTHER)
    assert str(lines.lines[0][2]["file"]).startswith("not written to ")
    assert len(lines.lines) == 1, "without the file a new start would not have the bundle"


def test_the_choice_is_written_before_the_new_start(tmp_path: Path) -> None:
    lines = RecordingLogger()
    with pytest.raises(RestartError, match="cdcdcdcd takes the place of abababab"):
        UpgradeFiles(str(tmp_path), lines).choose(OTHER)
    assert (tmp_path / "lagoon_bundle_auto.json").read_bytes() == b"{}"
    assert lines.lines[0][2]["code"] == "BUNDLE-CHOSEN"
