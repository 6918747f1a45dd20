"""`rollup-node bundle`: an archive that says what is wrong and holds no secret [CMD18]."""

import base64
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node import cli
from rollup_node.node.checks.finding import error
from rollup_node.node.options.credentials import FOLDER
from rollup_node.node.options.environment import OP_NODE_PREFIX
from rollup_node.node.options.option import VARIABLE_PREFIX, AnyOption
from rollup_node.node.options.parsing import read_options
from rollup_node.node.options.supernode import PREFIX, read_supernode_options
from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.commands import bundle, health
from rollup_node.tools.commands.bundle import _SECRET_FILES, Bundle, Redactor, secrets_in_options
from rollup_node.tools.devnet.files import SIGNER_KEY
from tests.support.chains.local_chain import LocalChain
from tests.support.processes.forked_programs import COMMANDS, ForkedProgram, shared_fork_server
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.local_chains import local_chains
from tests.support.processes.programs import Program, unready_reasons, wait_for

HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
WORD = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!$&'()*+;=:@%", min_size=12, max_size=40
)
SECRET_OPTIONS = [option for option in OPTIONS.values() if option.secret]
LINES = [
    't=1 lvl=info msg="it is {}"',
    '{{"error": "{}"}}',
    "connect https://{}@provider.example:443/x failed",
    "GET http://provider.example/v3/{}?a=b",
    "Authorization: Bearer {}",
    "x{}y",
    "{}",
]


def forms(secret: str) -> list[str]:
    return [
        secret,
        secret.upper(),
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        base64.b64encode(secret.encode()).decode(),
        base64.b64encode(f"{secret}\n".encode()).decode(),
    ]


@pytest.mark.parametrize("option", SECRET_OPTIONS, ids=lambda option: option.name)
@settings(max_examples=10)
@given(data=st.data())
def test_no_secret_option_is_left(option: AnyOption, data: st.DataObject) -> None:
    secret = data.draw(HEX if option.value_type.label == "string" and "header" not in option.name else WORD)
    text = {"l1.beacon-header": f"X-Key: {secret}", "signer.header": f"X-Key={secret}"}.get(option.name, secret)
    redactor = Redactor(secrets_in_options([(option, (text,))]))
    for line in LINES:
        for form in forms(secret):
            shown = redactor.text(line.format(form))
            assert form not in shown and secret.lower() not in shown.lower(), line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:pw@h:1/a/b?c=d x", "http://***@h:1/*** x"),
        ("at https://h/ and ws://h:2", "at https://h/ and ws://h:2"),
        ("http://user:p/w@h:1/key", "http://***@h:1/***"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: ***"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJpYXQiOjF9.c2ln end", "token *** end"),
        ("a -----BEGIN EC PRIVATE KEY-----\nMIG\nx", "a ***"),
        ("block 5:0x77576d38a0 hash " + "ab" * 32, "block 5:0x77576d38a0 hash " + "ab" * 32),
        ("component=rpc msg=ready t=2026-11-29T02:03:07.350Z", "component=rpc msg=ready t=2026-11-29T02:03:07.350Z"),
        ("/ip4/10.0.0.1/tcp/9222/p2p/16Uiu2HAm", "/ip4/10.0.0.1/tcp/9222/p2p/16Uiu2HAm"),
    ],
)
def test_what_looks_like_a_secret_is_masked_and_the_rest_is_left(text: str, shown: str) -> None:
    assert Redactor(()).text(text) == shown


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
        environment |= {"NODE_P2P_SEQUENCER_KEY": KEY, "http_proxy": "http://127.0.0.1:1"}
        run = ForkedProgram(shared_fork_server(), COMMANDS["rollup_node"], ("bundle", *words), self.folder, environment)
        assert run.stdout is not None and run.stderr is not None
        with run.stdout, run.stderr:
            said = (run.stdout.read() + run.stderr.read()).decode()
        assert run.wait() == code, said
        return said


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
        with Program(module_leftovers, "rollup_node", *flags, NODE_P2P_SEQUENCER_KEY=KEY) as program:
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
    # On a machine that is too slow it may be behind again.
    assert json.loads(files["status.json"])["sentence"] and "ready" in json.loads(files["readyz.json"])
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


def texts_of(option: AnyOption, key: str) -> list[str]:
    """Return texts of the option with that secret; none for an option that has no place for one."""
    if option.name.endswith("header"):
        return [f"X-Key: {key}", f"x={key}"]
    if "url" in option.value_type.label:
        return [f"https://user:{key}@h:1", f"https://{key}@h", f"https://h/v3/{key}", f"https://h/?token={key}"]
    return [key] if option.secret else []


SECRETS = [
    *(option for option in OPTIONS.values() if option.secret or "url" in option.value_type.label),
    *(OPTIONS[name] for name in _SECRET_FILES),
]
SCOPES = ("", "vn.all.", "vn.10.", "vn.130.", "vn.7.")
"""Of a node, and of a supernode of chains 10 and 130: of a chain that it lacks as well."""


def test_every_secret_of_the_table_is_tried() -> None:
    names = {option.name for option in SECRETS}
    assert {name for name, option in OPTIONS.items() if option.secret} < names
    assert {"l1", "l1.beacon", "l2", "l2.follow.source", "signer.endpoint", "p2p.priv.path", "signer.tls.key"} <= names
    assert not [name for name in OPTIONS if name.endswith(("jwt-secret", "key", ".key.path")) and name not in names]


@settings(max_examples=75)
@given(
    secret=st.binary(min_size=32, max_size=32),
    option=st.sampled_from(SECRETS),
    scope=st.sampled_from(SCOPES),
    data=st.data(),
)
def test_no_secret_in_the_log_reaches_the_archive(
    secret: bytes, option: AnyOption, scope: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever wrote it there, and in whichever form; whichever option has it, by whatever way, overridden or not."""
    folder, key = tmp_path_factory.mktemp("bundle"), secret.hex()
    form = data.draw(st.sampled_from([key, f"0x{key}", key.upper(), repr(secret), f"http://u:{key}@h/{key}"]))
    log = folder / "node.log"
    (folder / "secret.txt").write_text(f"0x{key}\n")
    text = data.draw(st.sampled_from(texts_of(option, key) or [str(folder / "secret.txt")]))
    basic = base64.b64encode(f"user:{key}".encode()).decode()
    log.write_text(f'lvl=info msg="it is {form}"\n{form}\n{{"x": "{key}"}}\n{basic if "user:" in text else ""}\n')
    words = ["--chains=10,130", f"--data-dir={folder}"] if scope else ["--network=op-sepolia"]
    environ: dict[str, str] = {}
    match data.draw(st.sampled_from(["flag", "variable", "file", "credential"])):
        case "flag":
            words.append(f"--{scope}{option.name}={text}")
        case "variable":
            prefix = f"{PREFIX}{scope.translate(str.maketrans('.', '_')).upper()}" if scope else OP_NODE_PREFIX
            environ = {prefix + option.variable.removeprefix(VARIABLE_PREFIX): text}
        case "file":
            (folder / "options.toml").write_text(f'"{scope}{option.name}" = {json.dumps(text)}')
            words.append(f"--config={folder}/options.toml")
        case _:
            (folder / "c").mkdir()
            (folder / "c" / f"{scope}{option.name}").write_text(text if texts_of(option, key) else f"0x{key}")
            environ = {FOLDER: str(folder / "c")}
    match data.draw(st.sampled_from(["flag", "variable", "nothing"])):
        case "flag":
            words.append(f"--{scope}{option.name}=x")
        case "variable" if not scope:
            environ[option.variable] = "x"
    options = read_supernode_options(words, environ) if scope else read_options(words, environ)
    said = error("engine h", Code.ENGINE_AUTH, f"it rejects {form}")
    parts = dict(Bundle(options, lambda: [said], str(log), 100, folder).members())
    assert set(parts) >= {"log.txt", "options.json", "about.json"}
    for name, content in parts.items():
        shown = content.decode().lower()
        assert key not in shown and repr(secret)[2:-1].lower() not in shown and basic.lower() not in shown, name


def test_the_options_of_a_supernode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[CMD18] Named by a file alone; the keys in the folders of its chains are masked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundle, "own_directories", lambda: iter(()))
    words = [word for word in local_chains(tmp_path) if word.startswith(("--vn", "--dependency", "--data"))]
    (tmp_path / "supernode.toml").write_text('chains = [901, 902]\nl1.value = "http://l1"\nl1.beacon = "http://b"')
    (tmp_path / "data" / "902" / "p2p").mkdir(parents=True)
    (tmp_path / "data" / "902" / "p2p" / "opnode_p2p_priv.txt").write_text(KEY)
    (tmp_path / "node.log").write_text(f"the key is {KEY}")
    monkeypatch.setattr(bundle, "check_supernode", lambda options: [])
    assert cli.main(["bundle", "--out=a.tar.gz", "--log=node.log", "--config=supernode.toml", *words]) == 0
    files = unpacked(tmp_path / "a.tar.gz")
    options = json.loads(files["options.json"])
    assert options["errors"] == [] and options["options"]["chains"]["value"] == "901,902"
    assert options["options"]["vn.902.l2"]["value"] == "http://l2" and files["log.txt"] == "the key is ***"
    assert options["options"]["l1"]["value"] == "http://l1" and "vn.901.l1" not in options["options"]


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
