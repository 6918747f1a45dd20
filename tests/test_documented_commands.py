"""The commands in the documents run, with values in place of their placeholders.

What they would ask of a network, a node or an engine is replaced at the point where it begins: no document's command
sends a packet from here."""

import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node import cli, supernode
from rollup_node.node.checks.finding import Finding, ok
from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.l1.light_client.containers import BeaconBlockHeader
from rollup_node.stages.protocol import forks
from rollup_node.stages.protocol.types import ZERO_HASH
from rollup_node.stages.rpc.process import http_server
from rollup_node.tools.commands import batches, check, checkpoint, common, explain, replay, status
from rollup_node.tools.commands.common import Outputs

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "run-a-node.md").read_text()
WITH_A_NODE = {"day-two.md"}
"""Documents whose commands a test of their own runs, with a node."""
DOCUMENTS = [ROOT / "README.md", *sorted(path for path in ROOT.glob("docs/*.md") if path.name not in WITH_A_NODE)]
PROGRAMS = {"rollup-node", "python", "tools/run", "curl", "openssl", "chmod", "op-reth"}
ELSEWHERE = {"history", "devnet", "watch", "witness"}
"""Commands that test_documents.py compares with their flags, and that are run in their own tests. So is what uses the
files of a local network in DIR."""

URL = "http://127.0.0.1:1"
VALUES = {
    "URL": URL,
    "--l1.checkpoint=ROOT": f"--l1.checkpoint=0x{'11' * 32}",
    "N": "6582895",
    "M": "6582952",
    "A": "6582895",
    "B": "6582952",
    "CODE": "BLOB-EXPIRED",
    "l2_blocks.json": "blocks.json",
}
NODE = [f"--l2={URL}", f"--l1.beacon={URL}", "--network=op-sepolia"]


def lines_of(document: Path) -> list[str]:
    """Return the command lines of a document, in blocks and indented, each as one line without its comment."""
    result, in_block = [], False
    for line in document.read_text().replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            in_block = not in_block
        elif in_block or re.match(r"    \S", line):
            result.append(re.sub(r"\s+#.*$", "", line.strip()))
    return [line for line in result if line.split(" ")[0] in PROGRAMS]


LINES = [(document.name, line) for document in DOCUMENTS for line in lines_of(document)]
OURS = [line for name, line in LINES if line.startswith("rollup-node ")]


def filled_in(line: str) -> list[str]:
    """Return the words of a command, with values for its placeholders, the first of alternatives, and what is
    optional."""
    words = [word.strip("[]") for word in shlex.split(line.partition(" > ")[0])[1:]]
    words = [re.sub(r"(=?)\b(URL)$", rf"\g<1>{URL}", word.split("|")[0]) for word in words]
    return [word for text in words for word in (["data.bin"] if text == "FILE..." else [VALUES.get(text, text)])]


@pytest.fixture
def nothing_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a working directory with the files that the documents name, and commands that stop where their work
    begins."""
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"^# (\S+\.toml)\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(text)
    for name in ("jwt.hex", "jwt.txt"):
        (tmp_path / name).write_text("11" * 32)
    shutil.copy(Path(forks.__file__).parent / "lagoon_nut_bundle.json", tmp_path)
    op_node = "op-node --network=op-sepolia --l1=http://a --l1.beacon=http://b --l2=http://c --l2.jwt-secret=jwt.hex"
    (tmp_path / "op-node.sh").write_text(op_node)
    (tmp_path / "compose.yaml").write_text(f"services: {{op-node: {{command: {op_node}}}}}")
    (tmp_path / "data.bin").write_bytes(b"\x00" * 100)
    (tmp_path / "blocks.json").write_text("[]")

    def run(*_: object, **__: object) -> int:
        return 0

    async def no_findings(_: object) -> list[Finding]:
        return [ok("all", "not asked")]

    async def nothing(*_: object) -> Any:
        return 0, []

    async def a_checkpoint(*_: object) -> tuple[checkpoint.Finalized, list[checkpoint.Answer]]:
        header = BeaconBlockHeader(0, 0, ZERO_HASH, ZERO_HASH, ZERO_HASH)
        return checkpoint.Finalized("a", header, None, None), [checkpoint.Answer("b", header.root)]

    for module in (batches, replay, common):
        monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(supernode, "_run", run)
    monkeypatch.setattr(Outputs, "open", classmethod(lambda cls, file=None: cls(1, 2)))
    monkeypatch.setattr(check, "preflight", no_findings)
    # The network of the documents has Lagoon's time, and an unconfirmed bundle is an error [UPG22].
    monkeypatch.setattr(check, "bundles_in_doubt", lambda *_: ())
    monkeypatch.setattr(explain, "_fetch_drops", nothing)
    monkeypatch.setattr(status, "_run", nothing)
    monkeypatch.setattr(checkpoint, "_ask", a_checkpoint)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    sorted(
        {line for line in OURS if line.split()[1] not in ELSEWHERE and "DIR/" not in line and "--witness" not in line}
    ),
)
def test_a_command_of_ours_runs(line: str, nothing_is_asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = filled_in(line)
    if words[0].startswith("--") and words[0] not in ("--help-all", "--version", "--help"):
        words = ["config", "show", *words, *([] if "--l2" in line or "--config" in line else NODE)]
    elif words == ["check"]:
        words += NODE
    code = cli.main(words)
    shown = capsys.readouterr()
    # There is no batch in the file that stands for a user's.
    expected = 1 if words[0] == "decode" else 0
    assert code == expected, shown.err
    assert words[0] != "decode" or "offset 0" in shown.err


def test_the_commands_of_the_guide_are_among_them() -> None:
    result = {line.split()[1] for line in OURS if line in GUIDE}
    assert {"networks", "config", "check", "--config=node.toml", "status", "explain", "replay"} <= result


def test_the_secret_of_the_guide_is_one(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = [line for line in lines_of(ROOT / "docs" / "run-a-node.md") if line.startswith(("openssl", "chmod"))]
    assert len(made) == 2
    subprocess.run(["sh", "-ec", "\n".join(made)], cwd=tmp_path, check=True, timeout=30)
    assert re.fullmatch("[0-9a-f]{64}\n", (tmp_path / "jwt.hex").read_text())
    assert (tmp_path / "jwt.hex").stat().st_mode & 0o777 == 0o600


def test_the_paths_that_curl_asks_for_are_served() -> None:
    others = ("-d", "github", "BEACON")
    asked = [line for _, line in LINES if line.startswith("curl") and not any(word in line for word in others)]
    served = Path(http_server.__file__).read_text()
    port = OPTIONS["rpc.port"].default
    assert asked
    for line in asked:
        (path,) = re.findall(rf"http://127\.0\.0\.1:{port}(/[a-z.]+)$", line)
        assert f'"{path}"' in served, line


def test_the_engine_of_the_guide_has_the_options_of_the_compose_file() -> None:
    compose = (ROOT / "docker" / "compose.yaml").read_text()
    line, *_ = [line for line in lines_of(ROOT / "docs" / "run-a-node.md") if line.startswith("op-reth")]
    flags = re.findall(r"(--[a-z.-]+)=", line)
    assert flags and not [flag for flag in flags if flag not in compose]


def test_modules_and_flags_of_tools_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devnet", "--help"]) == 0
    flags = set(re.findall(r"--[a-z][a-z0-9-]*", capsys.readouterr().out))
    seen = 0
    for name, line in LINES:
        if line.startswith("python -m "):
            assert find_spec(line.split()[2]) is not None, f"{name}: {line}"
        elif line.startswith("tools/run"):
            assert set(re.findall(r"--[a-z][a-z0-9-]*", line)) <= flags, f"{name}: {line}"
            seen += 1
    assert seen >= 5


def test_no_command_is_left_out() -> None:
    """Lines that begin with a program of ours are all found; the rest of the blocks is output."""
    text = "\n".join(path.read_text() for path in DOCUMENTS)
    assert len(OURS) >= len(re.findall(r"^(?:    )?rollup-node ", text, re.MULTILINE))
