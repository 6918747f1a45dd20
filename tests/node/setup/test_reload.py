"""The options of a node, read again: what differs, for which processes, and what is refused [LIF35]."""

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.node.options.credentials import FOLDER
from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.parsing import ParsedOptions, read_options
from rollup_node.node.options.reloading import is_reloaded
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.setup import reload as module
from rollup_node.node.setup.plan import NodeConfigs, node_configs, plan_node
from rollup_node.node.setup.reload import RunningOptions
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.supervisor.settings import Reload
from rollup_node.node.system.exit_codes import SetupError
from tests.node.setup.planning import JWT, NETWORK, REQUIRED
from tests.node.setup.test_config_fields import NEEDED, SAMPLES, write_tls_files
from tests.node.setup.test_plan import GENERATOR

KEY = "11" * 32
BASE = (*NETWORK, *REQUIRED, "--p2p.peerstore.path=memory", "--p2p.discovery.path=memory")
ROLES = {
    "verifier.l1-confs": {"l1", "rpc"},
    "log.level": set(),
    "l2.jwt-secret": {"engine"},
    "l2.jwt-secret-encoded": {"engine"},
    "l2.engine-rpc-timeout": {"engine"},
    "sequencer.max-safe-lag": {"engine"},
}
TOPICS = {"l1": {"l1"}, "l1.beacon": {"blobs"}, "altda": {"blobs"}, "conductor": {"engine"}}
TOPICS |= {"p2p": {"p2p"}, "signer": {"p2p"}, "rpc": {"rpc"}}
MORE_SAMPLES = {
    "p2p.bootnodes": f"enode://{GENERATOR}@127.0.0.1:9222",
    "l1.beacon.slot-duration-override": "7",
    "l2.jwt-secret": "other_jwt.txt",
    "l2.jwt-secret-encoded": "22" * 32,
    "rpc.jwt-secret": "other_jwt.txt",
    "p2p.sequencer.key.path": "other_jwt.txt",
    "signer.address": "55" * 20,
}
SIGNED = {
    "p2p.sequencer.key": (f"--p2p.sequencer.key={KEY}",),
    "p2p.sequencer.key.path": (f"--p2p.sequencer.key={KEY}",),
}


class Node:
    """What runs, and what a reload would read."""

    def __init__(self, *words: str) -> None:
        self.words: Sequence[str] = (*BASE, *words)
        self.options = RunningOptions(self.read().values, self.read)
        plan = plan_node(self.options.values)
        secrets = load_secrets(plan, lambda notice: None)
        self.secrets, self.configs = secrets, node_configs(plan, secrets)
        stopped = msgspec.structs.replace(self.configs.engine, sequencer_stopped=True)
        self.configs = replace(self.configs, engine=stopped)
        self.options.started(plan, secrets, self.configs)

    def read(self) -> ParsedOptions:
        return read_options(self.words, {})

    def reload(self, *words: str) -> Reload:
        self.words = (*BASE, *words)
        return self.options.reload()


def roles_of(result: Reload) -> set[str]:
    """Return the processes that would be restarted."""
    assert {group for _, group in result.configs} <= {""}
    return {role for role, _ in result.configs}


@pytest.fixture(autouse=True)
def files(working_directory: Path) -> Path:
    (working_directory / "other_jwt.txt").write_text("22" * 32)
    write_tls_files(working_directory)
    return working_directory


def sample_of(option: AnyOption) -> str:
    if option.value_type.allowed:
        return next(word for word in option.value_type.allowed if word != option.default)
    if option.default == "true":
        return "false"
    for samples, key in ((MORE_SAMPLES, option.name), (SAMPLES, option.name), (SAMPLES, option.value_type.label)):
        if key in samples:
            return samples[key]
    raise AssertionError(f"{option.name} has no sample")


def topic_roles(name: str) -> set[str]:
    prefix = max((topic for topic in TOPICS if f"{name}.".startswith((f"{topic}.", f"{topic}-"))), key=len)
    return TOPICS[prefix]


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if is_reloaded(option)])
def test_an_option_that_is_taken_over_restarts_its_processes_alone(name: str) -> None:
    needed = SIGNED.get(name) or NEEDED.get(name) or NEEDED.get(name.split(".")[0]) or ()
    needed = tuple(word for word in needed if not word.startswith("--network"))
    if name.startswith("altda"):
        needed = (*needed, "--network=redstone-mainnet")
    if name == "signer.address":
        needed = (f"--signer.address={'11' * 20}", "--signer.endpoint=https://s:1")
    node = Node(*needed)
    words = [word for word in needed if not word.startswith(f"--{name}=")]
    if name == "p2p.sequencer.key.path":
        words = []
    result = node.reload(*words, f"--{name}={sample_of(OPTIONS[name])}")
    assert name in result.changed and result.need_restart == ()
    assert roles_of(result) == (ROLES[name] if name in ROLES else topic_roles(name))
    assert (result.level is not None) is (name == "log.level")
    for role, config in result.configs.items():
        assert role[0] == "rpc" or type(config) is type(getattr(node.configs, role[0]))
    result.commit()
    again = node.options.reload()
    assert (again.changed, again.configs, again.check) == ((), {}, None)


@pytest.mark.parametrize(
    "word",
    [
        "--rpc.port=1",
        "--l2=http://other:1",
        "--p2p.listen.tcp=7777",
        "--workers=3",
        "--sequencer.enabled",
        "--p2p.disable",
    ],
)
def test_an_option_that_is_not_taken_over_is_named_and_the_others_act(word: str) -> None:
    node = Node()
    result = node.reload(word, "--l1=http://b")
    assert result.need_restart == (word[2:].partition("=")[0],)
    assert result.changed == ("l1",) and roles_of(result) == {"l1"}
    result.commit()
    again = node.options.reload()
    assert again.need_restart == result.need_restart and not again.configs


def test_what_the_start_has_chosen_stays(working_directory: Path) -> None:
    """Runtime directory, network key and the state of the sequencer are not those of a new start."""
    node = Node("--p2p.static=")
    (working_directory / "node_p2p_priv.txt").unlink()
    result = node.reload(f"--p2p.static={SAMPLES['p2p.static']}", "--l2.engine-rpc-timeout=3s", "--rpc.ready-l1-lag=3")
    configs: Any = {role: config for (role, _), config in result.configs.items()}
    assert set(configs) == {"p2p", "engine", "rpc"}
    assert configs["p2p"].priv_raw == node.secrets.network_key
    assert configs["engine"].sequencer_stopped
    assert configs["rpc"].chains[""].metrics_dir == node.configs.rpc.metrics_dir
    assert not (working_directory / "node_p2p_priv.txt").exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--l1=nothing",), "invalid value"),
        (("--l1=",), "flag l1 is required"),
        (("--l1.cache-size=1000001",), "cache size is dangerously large"),
        (("--rpc.port=70000",), "invalid value"),
        (("--p2p.static=somewhere",), "p2p.static"),
        ((f"--p2p.sequencer.key={KEY}",), "whether this node signs blocks is decided at the start"),
        (("--no-such-option",), "unknown flag --no-such-option"),
        (("--network=no-such",), 'invalid network: "no-such"'),
        (("--l2.jwt-secret=none.txt",), "JWT secret file none.txt has no secret (l2.jwt-secret)"),
        (("--rpc.jwt-secret=empty.txt",), "JWT secret file empty.txt has no secret (rpc.jwt-secret)"),
        (("--l2.jwt-secret=half.txt",), "JWT secret file half.txt is malformed"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(
    working_directory: Path, words: tuple[str, ...], error: str
) -> None:
    (working_directory / "empty.txt").touch()
    (working_directory / "half.txt").write_text("22" * 15)
    node = Node()
    before = sorted(working_directory.rglob("*"))
    with pytest.raises(SetupError) as caught:
        node.reload(*words)
    assert error in str(caught.value)
    assert sorted(working_directory.rglob("*")) == before and not (working_directory / "empty.txt").read_bytes()


def test_another_chain_in_the_same_file_is_refused(working_directory: Path) -> None:
    node = Node()
    chain = node.options._plan.chain
    node.options._plan = replace(node.options._plan, chain=chain._replace(name="another"))
    with pytest.raises(OptionError, match="the files that describe the chain have changed since the start"):
        node.options.reload()


def test_a_secret_that_changes_in_its_file_is_taken_over(working_directory: Path) -> None:
    node = Node("--rpc.jwt-secret=admin.txt")
    (working_directory / "admin.txt").write_text("33" * 32)
    result = node.options.reload()
    assert (result.changed, roles_of(result), result.check) == ((), {"rpc"}, None)
    result.commit()
    (working_directory / "node_jwt.txt").write_text("44" * 32)
    result = node.options.reload()
    assert roles_of(result) == {"engine"} and result.check is not None


def test_a_credential_that_changes_is_taken_over(working_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[OPT87] As Kubernetes changes a mounted secret."""
    (working_directory / "folder").mkdir()
    (working_directory / "folder" / "l1").write_text("http://a/key")
    monkeypatch.setattr(
        Node, "read", lambda node: read_options(node.words, {FOLDER: str(working_directory / "folder")})
    )
    node = Node()
    assert node.configs.l1.endpoints == ("http://a/key",) and not node.options.reload().configs
    (working_directory / "folder" / "l1").write_text("http://b/key")
    assert node.options.reload().changed == ("l1",)


def test_the_ca_of_the_signer_is_read_again(working_directory: Path) -> None:
    """[SGN4] A p2p process reads it once."""
    node = Node(f"--signer.address={20 * '11'}", "--signer.endpoint=https://s:1")
    assert not node.options.reload().configs
    shutil.copy(working_directory / "tls" / "node.crt", working_directory / "tls" / "ca.crt")
    result = node.options.reload()
    assert roles_of(result) == {"p2p"}
    result.commit()
    assert not node.options.reload().configs


class OptionsFile:
    """A node with an options file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "node.toml"
        self.path.write_text('"l1.rpckind" = "any"\n')
        self.node = Node(f"--config={self.path}")


def pipe_in_its_place(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda path: path.write_text(""), "it is empty; if no option is wanted, it takes a comment"),
        (lambda path: path.unlink(), "no such file or directory"),
        (lambda path: (path.unlink(), path.mkdir()), "it is no file, and cannot be read again"),
        (pipe_in_its_place, "it is no file, and cannot be read again"),
        (lambda path: path.write_text('"l1.rpckind" = "bas'), "is not TOML"),
        (lambda path: path.write_text('"l1.rpckind" = "bas"\n"l9" = 1'), 'unknown option "l9"'),
        (lambda path: path.write_bytes(b"\xff"), "is not text in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_again_is_refused(
    working_directory: Path, change: Callable[[Path], object], error: str
) -> None:
    file = OptionsFile(working_directory)
    change(file.path)
    with pytest.raises(SetupError) as caught:
        file.node.options.reload()
    assert error in str(caught.value)
    assert file.node.options.values["l1.rpckind"] == "any"


def test_a_file_that_is_written_meanwhile_is_refused(working_directory: Path) -> None:
    file = OptionsFile(working_directory)
    file.path.write_text('"l1.rpckind" = "basic"\n')
    result = file.node.options.reload()
    with file.path.open("a") as other:
        other.write('"l1.cache-size" = 7\n')
    with pytest.raises(OptionError, match="it is being written: reload again when it is complete"):
        result.commit()
    assert file.node.options.values["l1.rpckind"] == "any"
    again = file.node.options.reload()
    assert again.changed == ("l1.cache-size", "l1.rpckind")
    again.commit()


def test_new_endpoints_alone_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    async def check_endpoints(*arguments: Any) -> None:
        calls.append(arguments)

    monkeypatch.setattr(module, "check_endpoints", check_endpoints)
    node = Node()
    assert node.reload("--l1.rpckind=any").check is None
    result = node.reload("--l1=http://other:1")
    assert result.check is not None
    asyncio.run(_await(result.check()))
    ((after, policy, before),) = calls
    assert (after.l1, before.l1, policy.total) == (("http://other:1",), ("http://127.0.0.1:8545",), 0)
    assert (after.l2, after.jwt_secret) == (before.l2, before.jwt_secret) == ("http://e:8551", JWT)


async def _await(check: Any) -> None:
    await check


def test_configurations_of_every_role_are_compared() -> None:
    assert set(vars(Node().configs)) == {"l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc"}
    assert NodeConfigs.__dataclass_fields__.keys() >= {"l1", "rpc"}
