"""The options of a node, read again: what differs, for which processes, and what is refused [LIF35]."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from rollup_node.node.options.credentials import FOLDER
from rollup_node.node.options.errors import OptionError, error_lines
from rollup_node.node.options.parsing import parse_options, read_options
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.node.setup import endpoint_checks
from rollup_node.node.setup.plan import plan_node, reject_wrong_options
from rollup_node.node.setup.reload import (
    RELOADED,
    Change,
    ConfiguredNode,
    Plans,
    RunningOptions,
    changes,
    is_reloaded,
    with_reloaded,
)
from rollup_node.node.setup.secrets import load_secrets
from rollup_node.node.supernode import plan_chains
from rollup_node.node.supervisor.settings import Reload
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.log.logger import Level
from tests.node.options.test_values import NEEDED, SAMPLES, sample_of, write_tls_files
from tests.node.setup.planning import JWT, NETWORK, REQUIRED
from tests.support.processes.local_chains import local_chains

KEY = "11" * 32
BASE = (*NETWORK, *REQUIRED, "--p2p.peerstore.path=memory", "--p2p.discovery.path=memory", "--runtime.dir=run")
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
SIGNED = {
    "p2p.sequencer.key": (f"--p2p.sequencer.key={KEY}",),
    "p2p.sequencer.key.path": (f"--p2p.sequencer.key={KEY}",),
}


class Node:
    """What runs, and what a reload would read."""

    environ: Mapping[str, str] = MappingProxyType({})

    def __init__(self, *words: str) -> None:
        self.words: Sequence[str] = (*BASE, *words)
        self.options = RunningOptions(self.read(), self.read, self.plan)
        plans, interop = self.options.plans()
        secrets = {plan.group: load_secrets(plan, lambda notice: None) for plan in plans}
        node = ConfiguredNode(plans, interop, secrets, dict.fromkeys(secrets, True))
        self.secrets, self.configs = next(iter(secrets.values())), next(iter(node.configs.values()))
        self.options.started(node)

    @property
    def values(self) -> Values:
        """Those of the first chain."""
        return self.options.options.values

    def read(self) -> NodeOptions:
        options = read_options(self.words, self.environ)
        reject_wrong_options(options)
        return options

    def plan(self, options: NodeOptions) -> Plans:
        return [plan_node(options.chains[""])], None

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


def topic_roles(name: str) -> set[str]:
    prefix = max((topic for topic in TOPICS if f"{name}.".startswith((f"{topic}.", f"{topic}-"))), key=len)
    return TOPICS[prefix]


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if is_reloaded(option)])
def test_an_option_that_is_taken_over_restarts_its_processes_alone_with_what_a_start_gives_them(name: str) -> None:
    """So the test of its effect, marked with the option, holds after a reload as after a start."""
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
    words.append(f"--{name}={sample_of(OPTIONS[name])}")
    result = node.reload(*words)
    assert name in result.changed and result.need_restart == ()
    assert roles_of(result) == (ROLES[name] if name in ROLES else topic_roles(name))
    assert (result.level is not None) is (name == "log.level")
    result.commit()
    started = {(spec.role, spec.group): spec.config for spec in Node(*words).options._node.processes}
    assert {(spec.role, spec.group): spec.config for spec in node.options._node.processes} == started
    assert result.configs.items() <= started.items()
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
    (plan,) = node.options._node.plans
    other = replace(plan, chain=plan.chain._replace(name="another"))
    node.options.started(replace(node.options._node, plans=[other]))
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
    monkeypatch.setattr(Node, "environ", {FOLDER: str(working_directory / "folder")})
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


class Chains(Node):
    """A supernode of chains 901 and 902, whose options are in the working directory."""

    base: Sequence[str] = ()

    def __init__(self, *words: str) -> None:
        self.base = [
            *filter(lambda word: word != "--disable-p2p", local_chains(Path.cwd())),
            "--vn.all.p2p.no-discovery",
        ]
        (Path.cwd() / "data" / "901" / "p2p").mkdir(parents=True)
        (Path.cwd() / "data" / "902" / "p2p").mkdir(parents=True)
        super().__init__(*words)

    def read(self) -> NodeOptions:
        return read_supernode_options((*self.base, *self.words[len(BASE) :]), self.environ)

    def plan(self, options: NodeOptions) -> Plans:
        return plan_chains(options)


@pytest.mark.parametrize(
    ("words", "changed", "processes"),
    [
        (("--l1=http://b",), ("l1",), {("l1", "")}),
        (("--vn.902.p2p.static=/ip4/127.0.0.1/tcp/1/p2p/{}",), ("vn.902.p2p.static",), {("p2p", "902"), ("rpc", "")}),
        (
            ("--vn.all.p2p.ban.duration=7s",),
            ("vn.901.p2p.ban.duration", "vn.902.p2p.ban.duration"),
            {("p2p", "901"), ("p2p", "902")},
        ),
        (("--vn.901.l2.engine-rpc-timeout=3s",), ("vn.901.l2.engine-rpc-timeout",), {("engine", "901")}),
        (("--vn.902.l2.jwt-secret=other_jwt.txt",), ("vn.902.l2.jwt-secret",), {("engine", "902")}),
        (("--vn.902.verifier.l1-confs=7",), ("vn.902.verifier.l1-confs",), {("l1", ""), ("rpc", "")}),
        (("--rpc.ready-l1-lag=3",), ("rpc.ready-l1-lag",), {("rpc", "")}),
    ],
)
def test_an_option_of_a_chain_restarts_the_processes_of_that_chain(
    words: tuple[str, ...], changed: tuple[str, ...], processes: set[tuple[str, str]]
) -> None:
    node = Chains()
    assert not node.options.reload().configs
    result = node.reload(*(word.format(SAMPLES["p2p.static"].rpartition("/")[2]) for word in words))
    assert (result.changed, result.need_restart, set(result.configs)) == (changed, (), processes)
    result.commit()
    again = node.options.reload()
    assert (again.changed, again.configs, again.check) == ((), {}, None)


def test_a_new_secret_of_a_verified_chain_reaches_its_verifier(working_directory: Path) -> None:
    node = Chains("--interop.activation-timestamp=2000")
    result = node.reload("--interop.activation-timestamp=2000", "--vn.902.l2.jwt-secret=other_jwt.txt")
    assert set(result.configs) == {("engine", "902"), ("interop", "")}
    assert result.check is not None


def test_what_makes_a_supernode_needs_a_restart() -> None:
    node = Chains()
    words = ("--vn.902.l2.enginekind=reth", "--rpc.port=1", "--log.level=debug", "--disable-p2p")
    result = node.reload(*words)
    assert result.need_restart == ("disable-p2p", "rpc.port", "vn.902.l2.enginekind") and not result.configs
    assert (result.changed, result.level) == (("log.level",), Level.DEBUG)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--vn.902.l2.engine-rpc-timeout=x",), 'invalid value "x" for flag --vn.902.l2.engine-rpc-timeout'),
        (("--vn.902.p2p.static=somewhere",), "chain 902: "),
        ((f"--vn.902.p2p.sequencer.key={KEY}",), "chain 902: whether this node signs blocks is decided at"),
        (("--vn.7.l2=http://x",), "chain 7 is not one of --chains=901,902"),
        (("--vn.902.l2.jwt-secret=none.txt",), "chain 902: JWT secret file none.txt has no secret (l2.jwt-secret)"),
    ],
)
def test_wrong_options_of_one_chain_are_refused_for_all(words: tuple[str, ...], error: str) -> None:
    node = Chains()
    with pytest.raises(SetupError) as caught:
        node.reload("--l1=http://b", *words)
    assert error in "\n".join(error_lines(caught.value))
    assert node.values["l1"] == ("http://l1",)


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
    assert file.node.values["l1.rpckind"] == "any"


def test_a_file_that_is_written_meanwhile_is_refused(working_directory: Path) -> None:
    file = OptionsFile(working_directory)
    file.path.write_text('"l1.rpckind" = "basic"\n')
    result = file.node.options.reload()
    with file.path.open("a") as other:
        other.write('"l1.cache-size" = 7\n')
    with pytest.raises(OptionError, match="it is being written: reload again when it is complete"):
        result.commit()
    assert file.node.values["l1.rpckind"] == "any"
    again = file.node.options.reload()
    assert again.changed == ("l1.cache-size", "l1.rpckind")
    again.commit()


async def test_new_endpoints_alone_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    async def check_endpoints(*arguments: Any) -> None:
        calls.append(arguments)

    monkeypatch.setattr(endpoint_checks, "check_endpoints", check_endpoints)
    node = Node()
    assert node.reload("--l1.rpckind=any").check is None
    result = node.reload("--l1=http://other:1")
    assert result.check is not None
    await result.check()
    ((after, policy, before),) = calls
    assert (after.l1, before.l1, policy.total) == (("http://other:1",), ("http://127.0.0.1:8545",), 0)
    assert (after.l2, after.jwt_secret) == (before.l2, before.jwt_secret) == ("http://e:8551", JWT)


def options_of(*words: str) -> NodeOptions:
    return NodeOptions({"": parse_options(words, {}).values})


def changed(old: NodeOptions, new: NodeOptions) -> list[str]:
    return [change.name for change in changes(old, new)]


def test_only_options_that_exist_are_taken_over_and_none_of_chain_or_ports() -> None:
    assert set(OPTIONS) >= RELOADED
    taken = {name for name, option in OPTIONS.items() if is_reloaded(option)}
    kept = ("network", "rollup.", "override.", "syncmode", "safedb", "workers", "runtime.dir", "p2p.priv", "config")
    assert [name for name in taken if name.startswith(kept) or name == "l2"] == []
    ends = (".port", ".addr", ".enabled", ".tcp", ".udp")
    assert [name for name in taken if name.endswith(ends)] == ["signer.tls.enabled"]


def test_an_option_differs_by_its_value_and_by_being_given() -> None:
    old = options_of("--l1=http://a", "--override.karst=0", "--log.level=info")
    assert changed(old, old) == []
    assert changed(old, options_of("--l1=http://a", "--log.level=info")) == ["override.karst"]
    assert changed(old, options_of("--l1=http://b", "--override.karst=0")) == ["l1", "log.level"]


def test_options_of_chains_are_named_with_the_chain() -> None:
    """Those that chains share once, and the supernode's own by their names."""
    base = ("--l1=http://a", "--vn.all.l2=http://x")
    old = read_supernode_options((*base, "--chains=10,130", "--vn.130.p2p.ban.duration=1s"), {})
    words = (
        "--chains=10,130,7",
        "--l1=http://b",
        "--vn.all.l2=http://x",
        "--vn.10.p2p.ban.duration=1s",
        "--rpc.port=1",
    )
    new = read_supernode_options((*words, "--vn.130.safedb.path=x", "--vn.130.l2.enginekind=reth"), {})
    named = [
        *(Change("chains", False), Change("rpc.port", False), Change("l1", True)),
        *(Change("vn.10.p2p.ban.duration", True), Change("vn.130.l2.enginekind", False)),
        Change("vn.130.p2p.ban.duration", True),
    ]
    assert changes(old, new) == named and changes(old, old) == []
    mixed = with_reloaded(old, new)
    assert list(mixed.chains) == ["10", "130"] and mixed.own is old.own
    assert mixed.chains["130"]["l1"] == ("http://b",) and not mixed.chains["130"].given("l2.enginekind")
    less = read_supernode_options((*base, "--chains=10"), {})
    assert changed(old, less) == ["chains"]
    assert with_reloaded(old, less).chains["130"].given("p2p.ban.duration"), (
        "a chain that is gone stays until a restart"
    )
