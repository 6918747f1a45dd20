"""From option values to the configuration of each process."""

import socket
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from rollup_node.node.checks.finding import ListenAddress
from rollup_node.node.options.errors import OptionError, WrongOptions
from rollup_node.node.options.parsing import read_options
from rollup_node.node.runtime.runtime import Build
from rollup_node.node.setup.networks import find_network
from rollup_node.node.setup.notices import Notice
from rollup_node.node.setup.plan import NodeConfigs, endpoints_to_check, listeners, reject_wrong_options
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.process_table import PROCESSES, load
from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses
from tests.node.options.test_values import SAMPLES
from tests.node.setup.planning import JWT, NETWORK, PreparedNode, plan_of, prepare, rollup_file

SIGNER = "11" * 32


def p2p_of(*words: str, chain: tuple[str, ...] = NETWORK) -> P2pConfig:
    p2p = plan_of(*words, chain=chain).p2p
    assert p2p is not None
    return p2p


def test_every_process_is_started() -> None:
    node = prepare()
    assert [spec.role for spec in node.processes] == [
        template.role for template in PROCESSES if template.role != "interop"
    ]
    without = prepare("--p2p.disable")
    assert "p2p" not in [spec.role for spec in without.processes]


@pytest.mark.parametrize("follows", [(), ("--l2.follow.source=http://f:9545",)])
@pytest.mark.parametrize("sequences", [(), ("--sequencer.enabled", "--p2p.no-discovery")])
@pytest.mark.parametrize("p2p", [(), ("--p2p.disable",)])
async def test_each_process_uses_only_channels_whose_servers_are_started(
    follows: tuple[str, ...], sequences: tuple[str, ...], p2p: tuple[str, ...], tmp_path: Path
) -> None:
    """Each process of each kind of node is built on the buses of that node's processes alone."""
    memory = ("--p2p.peerstore.path=memory", "--p2p.discovery.path=memory")
    node = prepare(*follows, *sequences, *(p2p or memory), "--workers=1")
    specs = node.processes

    buses = in_process_buses(CHANNELS, tmp_path, {spec.role: spec.copies for spec in specs})
    try:
        for spec in specs:
            stage = cast(Build, load(spec.build))(spec.config, buses[spec.role], Meter(spec.role))
            await stage.close()
    finally:
        for bus in buses.values():
            bus.close()


def test_planning_creates_no_file_and_opens_no_database_and_no_socket(
    working_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("opened while planning")

    (working_directory / "node_jwt.txt").unlink()
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(sqlite3, "connect", refuse)
    assert p2p_of("--sequencer.enabled").listen_tcp == 9222
    assert list(working_directory.iterdir()) == []


def test_options_are_checked_before_any_file_is_created(working_directory: Path) -> None:
    (working_directory / "node_jwt.txt").unlink()
    with pytest.raises(OptionError, match="batch size is invalid"):
        prepare("--l1.rpc-max-batch-size=0")
    with pytest.raises(OptionError, match="invalid network"):
        prepare(chain=("--network=none",))
    assert list(working_directory.iterdir()) == []


@pytest.mark.option("workers", "runtime.dir")
def test_what_no_option_sets_reaches_the_configurations() -> None:
    """That every option reaches its field is test_config_fields."""
    node = prepare("--verifier.l1-confs=7", "--runtime.dir=run", "--workers=5", "--l2.engine-rpc-timeout=3s")
    rollup = find_network("op-sepolia").config
    configs = node.configs
    assert configs.blobs is not None and configs.derivation is not None
    assert (configs.l1.rollups[0], configs.derivation.rollup, configs.derivation.l1_chain.chain_id) == (
        rollup,
        rollup,
        11155111,
    )
    assert (configs.engine.url, configs.engine.jwt_secret, configs.engine.timeout) == ("http://e:8551", JWT, 3.0)
    assert configs.engine.sequencer_state_file == f"{Path.cwd()}/run/state/sequencer.state"
    settings = node.settings
    assert settings.chains == ("op-sepolia",)
    assert (configs.rpc.version, configs.rpc.l1_confs) == (settings.version, 7)
    assert configs.rpc.metrics_dir == f"{Path.cwd()}/run/metrics"
    assert configs.rpc.processes_file == f"{Path.cwd()}/run/processes.json"
    assert settings.runtime_dir == Path.cwd() / "run"
    assert settings.version.startswith("v") and settings.precheck is not None
    assert next(spec.copies for spec in node.processes if spec.role == "compute") == 5


KNOWN: dict[str, Callable[[NodeConfigs], object]] = {
    "el_sync": lambda configs: (configs.engine.el_sync, configs.engine.offset_el_safe),
    "finality": lambda configs: (configs.engine.finality_lookback, configs.engine.finality_delay),
    "slot": lambda configs: configs.blobs is not None and configs.blobs.slot_seconds,
    "p2p": lambda configs: (configs.l1.runtime_config, configs.engine.p2p, configs.rpc.p2p, configs.p2p is not None),
    "versions": lambda configs: (configs.l1.protocol_versions, configs.engine.halt, configs.l1.runtime_config),
    "gaps": lambda configs: (configs.engine.gaps_from_engine, configs.engine.fill_gaps),
    "conductor": lambda configs: configs.rpc.conductor_enabled,
    "engine": lambda configs: (configs.engine.engine_kind, configs.engine.engine_kind_given),
    "network": lambda configs: configs.engine.network,
}
"""What processes know of the node besides their options: the engine's gaps are filled by itself and by peers."""


@pytest.mark.option("l2.engine-sync", "syncmode", "syncmode.offset-el-safe")
@pytest.mark.option("p2p.disable", "rollup.load-protocol-versions", "syncmode.req-resp")
@pytest.mark.parametrize(
    ("words", "name", "known"),
    [
        ((), "el_sync", (False, 0.0)),
        (("--syncmode=execution-layer",), "el_sync", (True, 43_200.0)),
        (("--l2.engine-sync", "--syncmode.offset-el-safe=30s"), "el_sync", (True, 30.0)),
        (("--syncmode.offset-el-safe=30s",), "el_sync", (False, 0.0)),
        (("--finality.lookback=0", "--finality.delay=0"), "finality", (None, None)),
        (("--l1.beacon.slot-duration-override=0",), "slot", None),
        ((), "p2p", (True,) * 4),
        (("--p2p.disable",), "p2p", (False,) * 4),
        ((), "versions", (False, None, True)),
        (("--rollup.halt=none",), "versions", (False, "none", True)),
        (("--rollup.halt=minor", "--p2p.disable"), "versions", (True, "minor", True)),
        (("--rollup.load-protocol-versions",), "versions", (True, None, True)),
        ((), "gaps", (True, True)),
        (("--p2p.sync.req-resp=false",), "gaps", (True, False)),
        (("--syncmode.req-resp",), "gaps", (False, True)),
        (("--sequencer.enabled", "--conductor.enabled"), "conductor", True),
        (("--sequencer.enabled",), "conductor", False),
        ((), "engine", ("geth", False)),
        (("--l2.enginekind=geth",), "engine", ("geth", True)),
        ((), "network", "op-sepolia"),
        (("--override.lagoon=1900000000",), "network", ""),
    ],
)
def test_processes_know_of_the_node(words: tuple[str, ...], name: str, known: object) -> None:
    """[PRV2, UNS5, UNS6, OPT12, ENG42]"""
    node = prepare(*words)
    assert KNOWN[name](node.configs) == known
    kind = endpoints_to_check(node.plan, node.configs, node.secrets).engine_kind
    assert kind == ("geth" if "--l2.enginekind=geth" in words else None)


@pytest.mark.option("l2.follow.source")
@pytest.mark.parametrize(
    ("words", "roles"),
    [
        ((), ["l1", "engine", "p2p", "rpc"]),
        (("--p2p.disable", "--safedb.path=safe.db", "--workers=4"), ["l1", "engine", "rpc"]),
        (("--sequencer.enabled", "--workers=4"), ["l1", "compute", "engine", "p2p", "rpc"]),
    ],
)
def test_a_node_that_follows_another_one_does_not_derive(words: tuple[str, ...], roles: list[str]) -> None:
    """[FSR9] No beacon node is needed, and safe heads are not recorded."""
    node = prepare("--l2.follow.source=http://f:9545", "--l2.follow.source.rpc-timeout=3s", *words)
    specs = node.processes
    assert [spec.role for spec in specs] == roles
    assert all(spec.copies == 1 for spec in specs)
    engine, rpc = node.configs.engine, node.configs.rpc
    assert (engine.follow_url, engine.follow_timeout) == ("http://f:9545", 3.0)
    assert not rpc.derives and not rpc.safedb and not node.configs.l1.derives
    assert any("safe heads are not recorded" in notice for notice in node.notices) == ("--safedb.path=safe.db" in words)
    check = node.settings.precheck
    assert isinstance(check, partial)
    (endpoints,) = check.args[0]
    assert (endpoints.follow, endpoints.beacon) == ("http://f:9545", None)


@pytest.mark.option("p2p.scoring")
def test_scoring_and_the_network_key_reach_the_p2p_process(working_directory: Path) -> None:
    node = prepare("--p2p.scoring=none", "--p2p.peerstore.path=memory", "--p2p.discovery.path=memory")
    p2p = node.configs.p2p
    assert p2p is not None and (p2p.scoring, p2p.priv_raw) == ("none", node.secrets.network_key)
    memory = ("--p2p.peerstore.path=memory", "--p2p.discovery.path=memory")
    alone, static = (
        "--p2p.no-discovery",
        "--p2p.static=/ip4/10.0.0.1/tcp/9222/p2p/16Uiu2HAmB2zwbdqFhKcK6XvdMRBQHcqqxvGwq1aGRdVVFzDbRCgd",
    )
    finds = [prepare(*memory, *words).configs.rpc.finds_peers for words in ((), (alone,), (alone, static))]
    assert finds == [True, False, True]
    assert node.configs.rpc.databases == {}, "none is on disk"
    assert not list(working_directory.glob("*_db*")), "nothing on disk"


def test_the_databases_on_disk_are_watched(working_directory: Path) -> None:
    sequences = ("--sequencer.enabled", f"--p2p.sequencer.key={SIGNER}", "--safedb.path=heads")
    paths = prepare(*sequences).configs.rpc.databases
    assert sorted(paths) == ["discovery", "peerstore", "safedb", "signed_blocks"]
    assert paths["safedb"] == str(working_directory / "heads")
    assert list(prepare("--p2p.disable").configs.rpc.databases) == []


@pytest.mark.option("p2p.bootnodes")
def test_a_node_with_a_rollup_config_has_no_public_bootnode(working_directory: Path) -> None:
    file = (rollup_file(working_directory, find_network("op-sepolia").config),)
    assert len(p2p_of().bootnodes) >= 10, "a built-in network has those built in"
    assert p2p_of(chain=file).bootnodes == ()
    assert p2p_of(chain=(*file, "--network=op-sepolia")).bootnodes == ()
    value = SAMPLES["p2p.bootnodes"]
    assert p2p_of(f"--p2p.bootnodes={value}", chain=file).bootnodes == (value,)
    assert p2p_of(f"--p2p.bootnodes={value}").bootnodes == (value,)


def test_a_supervisor_manages_engine_and_derivation() -> None:
    """[IOP4]"""
    for words, managed in (((), False), (("--interop.rpc.addr=127.0.0.1", "--interop.jwt-secret=x"), True)):
        configs = prepare(*words).configs
        assert configs.derivation is not None
        assert (configs.engine.interop, configs.derivation.managed) == (managed, managed)
        assert ("interop.rpc.addr" in [listener.address_option for listener in listeners(configs)]) is managed


@pytest.mark.option("pprof.path", "pprof.type")
def test_a_profile_is_written_where_the_option_says(working_directory: Path) -> None:
    """[LIF18, LIF19]"""

    def of(*words: str) -> ProfilingSettings:
        node = prepare(*words)
        return node.settings.profiling

    assert of() == ProfilingSettings(is_served=False, kind=None)
    assert of("--pprof.enabled").is_served
    assert of("--pprof.type=heap") == ProfilingSettings(False, "heap", working_directory / "heap.prof")
    assert of("--pprof.type=cpu", "--pprof.path=mine").path == working_directory / "mine"
    with pytest.raises(SetupError, match=r"cannot write a profile to .*/absent/mine: give a path in a folder"):
        of("--pprof.type=cpu", "--pprof.path=absent/mine")


def test_a_sequencer_without_a_key_is_a_warning() -> None:
    text = "blocks are sequenced but not gossiped: there is no p2p.sequencer.key and no signer.endpoint"
    warning = Notice(Level.WARN, text)
    assert warning in plan_of("--sequencer.enabled").notices
    assert warning not in plan_of("--sequencer.enabled", f"--p2p.sequencer.key={SIGNER}").notices
    assert warning not in plan_of("--sequencer.enabled", "--p2p.disable").notices


def test_notices_of_options_and_chain() -> None:
    assert plan_of("--rollup.config=x.json", "--snapshotlog.file=x", "--p2p.disable").notices == (
        Notice(Level.WARN, "flag --snapshotlog.file: it has no effect any more"),
        Notice(Level.WARN, "both network and rollup.config are given: op-sepolia is used, x.json is ignored"),
    )


def test_listeners() -> None:
    def of(*words: str) -> list[ListenAddress]:
        node: PreparedNode = prepare("--rpc.port=1", "--metrics.port=2", *words)
        configs: NodeConfigs = node.configs
        return listeners(configs)

    rpc = ListenAddress("rpc.addr", "rpc.port", "0.0.0.0", 1)
    metrics = ListenAddress("metrics.addr", "metrics.port", "0.0.0.0", 2)
    assert of("--p2p.disable") == [rpc]
    assert of("--p2p.disable", "--metrics.enabled") == [rpc, metrics]
    page = ListenAddress("status.addr", "status.port", "127.0.0.1", 7310)
    assert of("--p2p.disable", "--status.enabled") == [rpc, page]
    tcp = ListenAddress("p2p.listen.ip", "p2p.listen.tcp", "127.0.0.1", 9999)
    udp = ListenAddress("p2p.listen.ip", "p2p.listen.udp", "127.0.0.1", 9999, is_udp=True)
    peers = ("--p2p.listen.ip=127.0.0.1", "--p2p.listen.tcp=9999")
    assert of(*peers) == [rpc, tcp, udp]
    assert of(*peers, "--p2p.no-discovery") == [rpc, tcp]
    assert of(*peers, "--p2p.listen.udp=9998") == [rpc, tcp, udp._replace(port=9998)]


NEEDED = ("--l2=http://e", "--network=op-sepolia", "--l1.beacon=http://b")


def lines_of(*words: str) -> tuple[str, ...]:
    with pytest.raises(WrongOptions) as caught:
        reject_wrong_options(read_options(words, {}))
    return caught.value.lines


def test_nothing_is_called_missing_that_a_wrong_options_file_may_have(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    for content, text in ((None, "no such file or directory"), ("network = x", "not TOML"), ("netwrk = 1", "unknown")):
        if content is not None:
            file.write_text(content)
        lines = lines_of(f"--config={file}", "--rpc.port=x")
        assert text in lines[0] and "--rpc.port" in lines[1] and len(lines) == 2


@pytest.mark.parametrize("word", ["--netwrok=op-sepolia", "--network", "--l1.becon=http://b"])
def test_nothing_is_called_missing_that_a_misspelt_name_or_a_flag_without_value_may_mean(word: str) -> None:
    (line,) = lines_of(word)
    assert line.startswith(("unknown flag", "flag --network needs a value"))
    assert lines_of("--network=op-sepolia", "--l2=http://e", "--l1.becon=http://b") == (
        "unknown flag --l1.becon; did you mean --l1.beacon?",
    )


def test_an_invalid_value_is_reported_once_and_is_not_missing() -> None:
    (line,) = lines_of("--network=op-sepolia", "--l2=ftp://e", "--l1.beacon=http://b")
    assert line.startswith('invalid value "ftp://e" for flag --l2')


def test_what_only_the_plan_finds_is_reported() -> None:
    (line,) = lines_of(*NEEDED, "--p2p.bootnodes=nonsense")
    assert "nonsense" in line


def test_what_a_configuration_lacks_is_a_line() -> None:
    (line,) = lines_of(*NEEDED, "--signer.endpoint=http://h")
    assert line.startswith("signer endpoint and address must both be set")
