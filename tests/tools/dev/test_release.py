"""A release: versions from tags, the same bytes from the same commit, an SBOM, checksums and a signature."""

import hashlib
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.dev import release
from rollup_node.tools.dev.release import Commit, build, released_commit, sbom, sign, version_of
from tests.conftest import ROOT

COMMIT = Commit("1.2.3rc1", 1_764_374_400, True)
PARTS = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", "deploy", "docker", "src", "ipc")
"""What a build of a release reads."""


@pytest.mark.parametrize(
    ("described", "version", "is_tagged"),
    [
        ("v1.2.3", "1.2.3", True),
        ("v1.2.3-rc.1", "1.2.3rc1", True),
        ("v1.2.3-14-gabc1234", "1.2.3.post14+gabc1234", False),
        ("v1.2.3-rc.1-2-gabc1234", "1.2.3rc1.post2+gabc1234", False),
        ("abc1234", "0.1.0.dev0+gabc1234", False),
    ],
)
def test_the_version_of_a_tag(described: str, version: str, is_tagged: bool) -> None:
    assert version_of(described, "0.1.0") == (version, is_tagged)
    assert str(Version(version)) == version, "as PEP 440 writes it"


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def commit_all(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    for name in ("CHANGELOG.md", "docs/upgrades.md"):
        (tmp_path / name).write_text("# Title\n\n## 1.2.3\n\nText.\n")
    commit_all(tmp_path)
    return tmp_path


@pytest.fixture
def small_checkout(tmp_path: Path) -> Path:
    """Return a checkout of this repository with one of its packages; test_packaging builds it with all."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    names = subprocess.run(["git", "ls-files", "-z", *PARTS], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, names.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    commit_all(folder)
    return folder


def test_a_commit_is_released_by_its_tag_and_not_with_changes(checkout: Path) -> None:
    assert not released_commit(checkout).is_tagged
    git(checkout, "tag", "v1.2.3")
    assert released_commit(checkout)[::2] == ("1.2.3", True)
    (checkout / "pyproject.toml").write_text("x")
    with pytest.raises(SetupError, match=r"not committed: M pyproject\.toml"):
        released_commit(checkout)


def test_a_tag_needs_its_notes(checkout: Path) -> None:
    git(checkout, "tag", "v1.3.0")
    with pytest.raises(SetupError, match=r"CHANGELOG\.md has no section 1\.3\.0"):
        released_commit(checkout)


def test_the_present_version_has_its_notes() -> None:
    text = (ROOT / "pyproject.toml").read_text().partition('version = "')[2].partition('"')[0]
    assert all(f"\n## {text}\n" in (ROOT / name).read_text() for name in ("CHANGELOG.md", "docs/upgrades.md"))


def test_the_same_commit_gives_the_same_bytes(
    small_checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with another mask for files; they have the version of the tag, and the checksums are theirs."""
    monkeypatch.setattr(release, "build_image", lambda *_: None)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, mask in zip(folders, (0o022, 0o077), strict=True):
        before = os.umask(mask)
        try:
            build(small_checkout, COMMIT, folder)
        finally:
            os.umask(before)
    first, second = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders)
    assert sorted(first) == [
        "SHA256SUMS",
        "rollup-node-1.2.3rc1.cdx.json",
        "rollup-node-chart-1.2.3rc1.tgz",
        "rollup_node-1.2.3rc1-py3-none-any.whl",
        "rollup_node-1.2.3rc1.tar.gz",
    ]
    assert [name for name in first if first[name] != second[name]] == []
    lines = dict(line.split("  ")[::-1] for line in first.pop("SHA256SUMS").decode().splitlines())
    assert lines == {name: hashlib.sha256(content).hexdigest() for name, content in first.items()}
    with zipfile.ZipFile(next(folders[0].glob("*.whl"))) as archive:
        assert "Version: 1.2.3rc1" in archive.read("rollup_node-1.2.3rc1.dist-info/METADATA").decode().splitlines()
    with tarfile.open(next(folders[0].glob("*.tgz"))) as chart:
        member, alerts = chart.extractfile("rollup-node/Chart.yaml"), chart.extractfile("rollup-node/alerts.yaml")
        assert member is not None and alerts is not None
        information = yaml.safe_load(member.read())
        assert alerts.read() == (ROOT / "docker" / "alerts.yaml").read_bytes(), "a file, and no link out of the chart"
    assert information["version"] == information["appVersion"] == "1.2.3-rc.1"


def test_the_bill_of_materials_is_closed() -> None:
    result = sbom(ROOT, COMMIT)
    assert (result["bomFormat"], result["specVersion"]) == ("CycloneDX", "1.6")
    components = [result["metadata"]["component"], *result["components"]]
    refs = {component["bom-ref"] for component in components}
    assert len(refs) == len(components) > 20
    assert {row["ref"] for row in result["dependencies"]} == refs
    assert {ref for row in result["dependencies"] for ref in row["dependsOn"]} == refs - {components[0]["bom-ref"]}
    assert all(one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" for one in components)
    assert sbom(ROOT, COMMIT) == result, "it is made the same again"


def test_the_signature_is_that_of_the_checksums(tmp_path: Path) -> None:
    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        pytest.skip("ssh-keygen is not installed")
    key, sums = tmp_path / "key", tmp_path / "SHA256SUMS"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    sums.write_text("00  a\n")
    signature = sign(sums, key)
    (tmp_path / "signers").write_text(f"releases {(tmp_path / 'key.pub').read_text()}")
    names = ["-I", "releases", "-n", "rollup-node"]
    verify = [keygen, "-Y", "verify", "-f", str(tmp_path / "signers"), *names, "-s", str(signature)]
    assert subprocess.run(verify, input=sums.read_bytes(), capture_output=True).returncode == 0
    assert subprocess.run(verify, input=b"11  a\n", capture_output=True).returncode != 0
    with pytest.raises(SetupError, match="ssh-keygen -Y ended with"):
        sign(sums, tmp_path / "nokey")
