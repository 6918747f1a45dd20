"""The distributions: an sdist and the wheel made from it hold the tree's files, install, and run."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rollup_node.tools.dev.bounds import wheel_files
from tests.support.processes.base_installation import base_distributions

ROOT = Path(__file__).parent.parent
TOPS = ("ipc", "node", "stages", "tools")
PACKAGED = {".py", ".typed", ".json", ".sol", ".hex", ".toml", ".txt", ".html", ".js", ".css"}
NEED_A_CHECKOUT = (
    *(f"tools/{name}/" for name in ("bench", "dev", "faults", "fuzz", "importers", "status_page")),
    *("tools/devnet/faults/", "tools/devnet/soak/"),
)
"""What is for those who work on the repository."""


def _tracked() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).exists()]


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system
        shutil.copy2(source, target, follow_symlinks=False)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist of this checkout and the wheel that was built from that sdist."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for path in _tracked():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        _link(ROOT / path, tree / path)
    # Without the check of what the build needs, for which each of both is prepared twice.
    flags = ("--no-isolation", "--skip-dependency-check")
    command = [sys.executable, "-m", "build", *flags, "--outdir", str(out), str(tree)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return out


def _packaged() -> set[str]:
    """Return the files that the wheel has: those of TOPS without what needs a checkout."""
    paths = [path for path in _tracked() if path.parts[0] in TOPS and path.suffix in PACKAGED]
    names = {path.as_posix() for path in paths if not path.as_posix().startswith(NEED_A_CHECKOUT)}
    return {f"rollup_node/{name}" for name in (*names, "__init__.py", "__main__.py", "py.typed")}


def test_every_dependency_has_a_pinned_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [text for extra in project["optional-dependencies"].values() for text in extra]
    needed = [Requirement(text) for text in (*project["dependencies"], *optional) if not text.startswith("rollup-node")]
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = {pin.name: pin.specifier for pin in map(Requirement, lines)}
    assert all(str(specifier).startswith("==") for specifier in pinned.values())
    versions = {name: str(specifier).removeprefix("==") for name, specifier in pinned.items()}
    assert [str(item) for item in needed if not item.specifier.contains(versions.get(item.name, "0.0.0"))] == []


def test_the_base_installation_is_below_85_mb(distributions: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sizes = base_distributions()
    (wheel,) = distributions.glob("*.whl")
    sizes["rollup-node"] = sum(file.file_size for file in zipfile.ZipFile(wheel).infolist())
    assert len(sizes) > len(project["dependencies"]) and 30e6 < sum(sizes.values()) < 85e6, sizes
    only_extras = {"eth-account", "py-ecc", "rich", "web3", "pyarrow", "distributed"}
    assert not only_extras & set(sizes)


def test_the_wheel_holds_the_files_of_the_tree(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == _packaged() == {f"rollup_node/{name}" for name in wheel_files(ROOT)}


def test_the_sdist_holds_the_files_of_the_tree(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {f"src/{name}" for name in _packaged()} <= names


def test_both_carry_the_license(distributions: Path) -> None:
    text = (ROOT / "LICENSE").read_bytes()
    assert b"MIT License" in text and b"the rollup-node authors" in text
    (wheel,), (sdist,) = distributions.glob("*.whl"), distributions.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        folder = metadata.removesuffix("METADATA")
        assert archive.read(f"{folder}licenses/LICENSE") == text
        assert b"MIT License" in archive.read("rollup_node/stages/rpc/page/uplot-license.txt")
        described = archive.read(metadata).decode()
    assert "License-Expression: MIT" in described and "License-File: LICENSE" in described
    assert "Author: the rollup-node authors" in described
    with tarfile.open(sdist) as source:
        (result,) = [name for name in source.getnames() if name.count("/") == 1 and name.endswith("/LICENSE")]
        member = source.extractfile(result)
        assert member is not None and member.read() == text


def test_the_wheel_installs_and_runs(distributions: Path, tmp_path: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*install, "--no-compile", "--disable-pip-version-check", str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    shown = "import rollup_node.node as n; print(n.__file__)"
    where = subprocess.run([sys.executable, "-c", shown], env=environment, capture_output=True, text=True, check=True)
    assert Path(where.stdout.strip()).is_relative_to(tmp_path)
    program = [str(tmp_path / "bin" / "rollup-node"), "--version"]
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("rollup-node version v")
    api = "import rollup_node as r; print(r.__version__, r.__file__, r.Network('op-mainnet'), len(r.__all__))"
    library = subprocess.run(
        [sys.executable, "-c", api], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    number, place, *_ = library.stdout.split()
    assert ran.stdout == f"rollup-node version v{number}\n" and Path(place).is_relative_to(tmp_path)
    # As installed, without the checkout beside it: what the commands import is there, and what is not says so.
    for words, code, text in (
        (["devnet", "--help"], 0, "usage: rollup-node devnet"),
        (["history", "--help"], 0, "usage: rollup-node history"),
        (["devnet", "--faults", "any.toml"], 1, "error: --faults: it needs a checkout of the repository"),
    ):
        ended = subprocess.run(
            [program[0], *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, (ended.stdout + ended.stderr).startswith(text)) == (code, True), ended
