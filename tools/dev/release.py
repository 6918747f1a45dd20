"""Builds a release: wheel, sdist, CycloneDX SBOM, chart, image, checksums and their signature.

    tools/release [--out FOLDER] [--key FILE]

The version is the tag of the commit; without one it is a snapshot. Nothing that is not committed is built. The same
commit gives the same wheel, sdist, SBOM and chart, byte by byte."""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.dev.dependencies import base_dependencies, pinned_versions
from rollup_node.tools.dev.folder_graph import ROOT

NAME = "rollup-node"
PLATFORMS = "linux/amd64,linux/arm64"
SUMS = "SHA256SUMS"
_TAG = re.compile(r"v(\d+\.\d+\.\d+)(?:-rc\.?(\d+))?(?:-(\d+)-g([0-9a-f]+))?")


class Commit(NamedTuple):
    """The commit that is released: its version as in PEP 440, its time, and whether it has the tag of its version."""

    version: str
    time: int
    is_tagged: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the release; the exit code is 1, with one line, where it cannot be."""
    parser = argparse.ArgumentParser(description="Build a release of the commit that is checked out.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="FOLDER", help="by default dist/")
    parser.add_argument("--key", type=Path, metavar="FILE", help="private key of OpenSSH that signs the checksums")
    flags = parser.parse_args(arguments)
    try:
        commit = released_commit(ROOT)
        print(f"{NAME} {commit.version}" + ("" if commit.is_tagged else ": a snapshot, as the commit has no tag"))
        files = build(ROOT, commit, flags.out)
        if flags.key is not None:
            files.append(sign(flags.out / SUMS, flags.key))
    except SetupError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for file in files:
        print(f"{file.stat().st_size:>12,} {file}")
    return 0


def version_of(described: str, base: str) -> tuple[str, bool]:
    """Return the version for what `git describe` says, and whether it is a tag alone.

    `base` is the version of a tree without tags. Raises SetupError for a tag that is no version."""
    if re.fullmatch("[0-9a-f]{7,40}", described):
        return f"{base}.dev0+g{described}", False
    match = _TAG.fullmatch(described)
    if match is None:
        raise SetupError(f"the tag {described!r} is no version such as v1.2.3 or v1.2.3-rc.1")
    release = match[1] + (f"rc{match[2]}" if match[2] else "")
    return (f"{release}.post{match[3]}+g{match[4]}", False) if match[4] else (release, True)


def released_commit(root: Path) -> Commit:
    """Return the commit that is checked out. Raises SetupError with changes, and for a tag without its notes."""
    changes = _run(["git", "status", "--porcelain", "--untracked-files=no"], root)
    if changes:
        raise SetupError(f"there are changes that are not committed: {changes.splitlines()[0].strip()}")
    base = re.search(r'^version = "(.+)"$', (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert base is not None
    described = _run(["git", "describe", "--tags", "--always", "--match", "v*"], root).strip()
    version, is_tagged = version_of(described, base[1])
    for name in ("CHANGELOG.md", "docs/upgrades.md"):
        if is_tagged and f"\n## {version}\n" not in (root / name).read_text():
            raise SetupError(f"{name} has no section {version}: write it before the tag")
    return Commit(version, int(_run(["git", "show", "--no-patch", "--format=%ct"], root)), is_tagged)


def build(root: Path, commit: Commit, out: Path) -> list[Path]:
    """Build everything into an empty folder and return its files. Raises SetupError where a step fails."""
    if out.exists() and any(out.iterdir()):
        raise SetupError(f"{out} is not empty")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        export(root, tree, commit.version)
        build_distributions(tree, out, commit.time)
        bom = json.dumps(sbom(tree, commit), indent=2) + "\n"
        (out / f"{NAME}-{commit.version}.cdx.json").write_text(bom)
        chart = out / f"{NAME}-chart-{commit.version}.tgz"
        chart.write_bytes(packed(tree / "deploy" / "helm", NAME, commit.time))
        build_image(tree, out, commit.version)
    files = sorted(out.iterdir())
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (out / SUMS).write_text(sums)
    return [*files, out / SUMS]


def export(root: Path, tree: Path, version: str) -> None:
    """Write the committed files into a folder, with the version in those that name it."""
    data = subprocess.run(["git", "archive", "HEAD"], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(tree, filter="tar")
    for path in tree.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    for name, pattern in (("pyproject.toml", '^version = ".*"$'), ("deploy/helm/Chart.yaml", "^(app)?[vV]ersion: .*$")):
        text = (tree / name).read_text()
        (tree / name).write_text(
            re.sub(pattern, lambda line: _with_version(line[0], version), text, flags=re.MULTILINE)
        )


def _with_version(line: str, version: str) -> str:
    # A chart has a version of SemVer, where `-` begins what is not final.
    name, separator, _ = re.split("( = |: )", line, maxsplit=1)
    return f'{name}{separator}"{version}"' if separator == " = " else f"{name}{separator}{_semantic(version)}"


def _semantic(version: str) -> str:
    return re.sub(r"^(\d+\.\d+\.\d+)\.?(rc|post|dev)(\d+)", r"\1-\2.\3", version)


def build_distributions(tree: Path, out: Path, time: int) -> None:
    """Build sdist and wheel of a tree. Raises SetupError where that fails."""
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--skip-dependency-check",
        "--outdir",
        str(out),
        str(tree),
    ]
    _run(command, tree, SOURCE_DATE_EPOCH=str(time), PYTHONHASHSEED="0")
    (sdist,) = out.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="tar")
        (top,) = Path(folder).iterdir()
        data = packed(top, top.name, time)
    sdist.write_bytes(data)


def packed(folder: Path, name: str, time: int) -> bytes:
    """Return a folder as a tar.gz that depends on nothing but names, contents, executable bits and the time."""
    result = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=result, mode="wb", mtime=time, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            # The chart's link leads out of its folder.
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(folder).as_posix()}")
            data = path.read_bytes()
            entry.size, entry.mtime = len(data), time
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return result.getvalue()


def sbom(tree: Path, commit: Commit) -> dict[str, Any]:
    """Return the bill of materials as CycloneDX 1.6: the base installation with the versions of constraints.txt."""
    needs = base_dependencies(tree)
    versions = {**pinned_versions(tree), NAME: commit.version}
    if missing := needs.keys() - versions.keys():
        raise SetupError(f"constraints.txt has no version of {', '.join(sorted(missing))}")
    refs = {name: f"pkg:pypi/{name}@{versions[name]}" for name in needs}
    components = [
        {"type": "library", "bom-ref": refs[name], "name": name, "version": versions[name], "purl": refs[name]}
        for name in sorted(needs)
    ]
    own = next(component for component in components if component["name"] == NAME)
    licenses = [{"license": {"id": "MIT"}}]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ' '.join(sorted(refs.values())))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(commit.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**own, "type": "application", "licenses": licenses},
        },
        "components": [component for component in components if component is not own],
        "dependencies": [
            {"ref": refs[name], "dependsOn": [refs[needed] for needed in needs[name]]} for name in sorted(needs)
        ],
    }


def build_image(tree: Path, out: Path, version: str) -> None:
    """Write the image as an archive, of two architectures where Docker has buildx. Says so where it has no daemon."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        print("no image: there is no Docker daemon")
        return
    tag, file = f"{NAME}:{version.replace('+', '-')}", out / f"{NAME}-{version}-image.tar"
    words = ["--file", "docker/Dockerfile", "--tag", tag]
    if subprocess.run([docker, "buildx", "version"], capture_output=True, check=False).returncode == 0:
        target = ["--platform", PLATFORMS, "--output", f"type=oci,dest={file}"]
        _run([docker, "buildx", "build", *words, *target, "."], tree)
    else:
        print("the image is of this machine's architecture: Docker has no buildx")
        _run([docker, "build", *words, "."], tree)
        _run([docker, "save", "--output", str(file), tag], tree)


def sign(sums: Path, key: Path) -> Path:
    """Sign the checksums with a private key of OpenSSH and return the signature. Raises SetupError."""
    program = shutil.which("ssh-keygen")
    if program is None:
        raise SetupError("ssh-keygen is not installed: it makes the signature")
    _run([program, "-Y", "sign", "-f", str(key), "-n", NAME, str(sums)], sums.parent)
    return sums.with_name(f"{sums.name}.sig")


def _run(command: Sequence[str], folder: Path, **variables: str) -> str:
    # The modes in a wheel follow the mask.
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, umask=0o022, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise SetupError(f"{Path(command[0]).name} {command[1]} ended with {done.returncode}: {last}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
