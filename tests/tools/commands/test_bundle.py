"""`rollup-node bundle`: an archive that says what is wrong and holds no secret [CMD18]."""

import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node import cli
from rollup_node.node.checks.finding import error
from rollup_node.node.options.parsing import read_options
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.commands import bundle, health
from rollup_node.tools.commands.bundle import Bundle
from rollup_node.tools.devnet.files import SIGNER_KEY
from tests.support.chains.local_chain import LocalChain
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, unready_reasons, wait_for

KEY = SIGNER_KEY.secret.hex()


def unpacked(path: Path) -> dict[str, str]:
    """Return the members of an archive by their names in its folder."""
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        files = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


class BundledNode(NamedTuple):
    """A node whose options have secrets, its folder and its flags."""

    program: Program
    folder: Path
    flags: list[str]

    def bundle(self, *words: str, code: int = 0) -> str:
        """Run the command as the node's user does; its output."""
        environment = {name: text for name, text in os.environ.items() if not name.startswith("NODE_")}
        command = [sys.executable, "-m", "rollup_node.node", "bundle", *words]
        environment |= {"NODE_P2P_SEQUENCER_KEY": KEY, "http_proxy": "http://127.0.0.1:1"}
        run = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=50)
        assert run.returncode == code, run.stderr
        return run.stdout + run.stderr


@pytest.fixture(scope="module")
def node(module_leftovers: Leftovers) -> Iterator[BundledNode]:
    with LocalChain(module_leftovers) as chain:
        folder = module_leftovers.folder
        l1 = chain.l1.replace("http://", "http://operator:hunter2@") + "/?key=5ec12e7key"
        flags = chain.options(
            l1=l1,
            p2p_disable=None,
            p2p_listen_ip="127.0.0.1",
            p2p_listen_tcp=0,
            p2p_no__discovery="true",
            p2p_peerstore_path="memory",
            p2p_priv_path=folder / "priv.txt",
            runtime_dir=folder / "run",
            metrics_enabled="true",
            sequencer_enabled="true",
        )
        with Program(module_leftovers, "rollup_node.node", *flags, NODE_P2P_SEQUENCER_KEY=KEY) as program:
            program.wait_for_line(' processes are ready"')
            url = wait_for((folder / "run" / "rpc.url").read_text, "the URL")
            wait_for(lambda: not unready_reasons(url), "the node is ready")
            yield BundledNode(program, folder, flags)


def secrets_of(node: BundledNode) -> list[str]:
    files = (node.folder / name for name in ("priv.txt", "chain/jwt.txt"))
    return ["hunter2", "5ec12e7key", KEY, *(file.read_text().strip().removeprefix("0x") for file in files)]


def test_the_archive_of_a_running_node(node: BundledNode) -> None:
    out = node.bundle("--out=all.tar.gz", *node.flags)
    assert "wrote all.tar.gz: secrets are masked; look at it before you send it" in out
    assert stat.S_IMODE((node.folder / "all.tar.gz").stat().st_mode) == 0o600
    files = unpacked(node.folder / "all.tar.gz")
    assert set(files) == {
        *("about.json", "options.json", "check.json", "status.json", "readyz.json"),
        *("metrics.txt", "processes.json", "log.txt"),
    }
    about = json.loads(files["about.json"])
    assert about["missing"] == {"stimuli.txt": "there is none"} and about["packages"]["msgspec"]
    options = json.loads(files["options.json"])
    assert options["errors"] == []
    assert options["options"]["p2p.sequencer.key"]["value"] == "***"
    assert options["options"]["l1"]["value"].startswith("http://***@127.0.0.1:")
    findings = json.loads(files["check.json"])["findings"]
    assert any(finding["check"].startswith("engine 127.0.0.1") for finding in findings)
    assert json.loads(files["status.json"])["sentence"] and json.loads(files["readyz.json"])["ready"]
    assert "op_node_default_up 1" in files["metrics.txt"]
    assert {entry["role"] for entry in json.loads(files["processes.json"])} >= {"supervisor", "engine", "rpc"}
    assert '"starting node"' in files["log.txt"]
    assert not [secret for secret in secrets_of(node) for text in files.values() if secret in text]


def test_the_log_is_found_without_options_and_an_archive_is_never_replaced(node: BundledNode) -> None:
    """Its standard output is a file."""
    node.bundle("--out=log.tar.gz", "--lines=3", f"--runtime.dir={node.folder}/run")
    assert unpacked(node.folder / "log.tar.gz")["log.txt"].count("\n") == 2
    assert "log.tar.gz exists: give another --out" in node.bundle(
        "--out=log.tar.gz", f"--runtime.dir={node.folder}/run", code=1
    )


def test_wrong_options_are_part_of_the_archive(node: BundledNode) -> None:
    (node.folder / "wrong.toml").write_text('"l1" = "http://operator:hunter2@h:99999"\n"l9" = "x"')
    node.bundle(
        "--out=wrong.tar.gz",
        "--config=wrong.toml",
        f"--runtime.dir={node.folder}/run",
        "--p2p.sequencer.key=hunter2hunter2",
    )
    files = unpacked(node.folder / "wrong.tar.gz")
    assert 'unknown option \\"l9\\" in file wrong.toml' in files["options.json"]
    assert "OPTIONS" in files["check.json"]
    assert not [name for name, text in files.items() if "hunter2" in text]


def test_the_stimuli_of_a_bug_are_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundle, "own_directories", lambda: iter(()))
    record = 't=2026-11-29T02:03:07.350Z lvl=error process=engine msg="last stimuli of the engine core" from=0 of=2'
    after = 't=2026-11-29T02:03:07.351Z lvl=error process=engine component=runtime msg="a bug ends this process"'
    (tmp_path / "node.log").write_text(
        "\n".join([after, record, "1 reset", "2 answer", after, "Traceback", record, "3"])
    )
    assert cli.main(["bundle", "--out=a.tar.gz", "--log=node.log", "--lines=1"]) == 0
    files = unpacked(tmp_path / "a.tar.gz")
    assert files["stimuli.txt"].splitlines() == [record, "1 reset", "2 answer", record, "3"]
    assert files["log.txt"] == "3"
    assert {"status.json", "metrics.txt"} <= set(json.loads(files["about.json"])["missing"])


SECRET_WORDS: list[Callable[[str], list[str]]] = [
    lambda key: [f"--p2p.sequencer.key={key}"],
    lambda key: [f"--p2p.priv.raw={key}"],
    lambda key: [f"--l2.jwt-secret-encoded={key}"],
    lambda key: [f"--l1.beacon-header=X-Key: {key}"],
    lambda key: [f"--signer.header=x={key}"],
    lambda key: [f"--l1=https://user:{key}@h:1,https://h/v3/{key}"],
    lambda key: [f"--l1.beacon=https://h/?token={key}"],
    lambda key: [f"--l2.follow.source=https://{key}@h"],
    lambda key: [f"--no-such-option={key}"],
]


@settings(max_examples=30)
@given(secret=st.binary(min_size=32, max_size=32), words=st.sampled_from(SECRET_WORDS), data=st.data())
def test_no_secret_in_the_log_reaches_the_archive(
    secret: bytes, words: Callable[[str], list[str]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever wrote it there, and in whichever form."""
    folder, key = tmp_path_factory.mktemp("bundle"), secret.hex()
    form = data.draw(st.sampled_from([key, f"0x{key}", key.upper(), repr(secret), f"http://u:{key}@h/{key}"]))
    log = folder / "node.log"
    log.write_text(f'lvl=info msg="it is {form}"\n{form}\n{{"x": "{key}"}}\n')
    options = words(key)
    if options[0].startswith("--no-such-option"):
        (folder / "jwt.txt").write_text(f"0x{key}\n")
        options = [f"--l2.jwt-secret={folder}/jwt.txt"]
    said = error("engine h", Code.ENGINE_AUTH, f"it rejects {form}")
    with mock.patch.object(bundle, "check", lambda parsed: [said]):
        parts = dict(Bundle(read_options([*options, "--network=op-sepolia"], {}), str(log), 100, folder).members())
    assert set(parts) >= {"log.txt", "options.json", "about.json"}
    for name, content in parts.items():
        text = content.decode().lower()
        assert key not in text and repr(secret)[2:-1].lower() not in text, name


@pytest.mark.parametrize("kind", ["none", "pipe", "folder"])
def test_a_log_that_is_no_file_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(health, "PROC", tmp_path / "none")
    if kind == "pipe":
        os.mkfifo("node.log")
    elif kind == "folder":
        Path("node.log").mkdir()
    words = [] if kind == "none" else ["--log=node.log"]
    assert cli.main(["bundle", "--out=a.tar.gz", *words]) == 0
    out = capsys.readouterr().out
    assert {"none": "give its file with --log", "pipe": "it is no file", "folder": "Is a directory"}[kind] in out


def test_several_nodes_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundle, "own_directories", lambda: iter((Path("/run/a"), Path("/run/b"))))
    assert cli.main(["bundle"]) == 1
    assert "several nodes here: give the --runtime.dir of one (/run/a, /run/b)" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
