"""The start of a node, up to the supervisor."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.node.setup import start
from rollup_node.node.setup.networks import find_network
from rollup_node.node.setup.notices import Notice
from rollup_node.node.setup.reload import RunningOptions
from rollup_node.node.setup.start import (
    check_interop_store,
    check_state_files,
    sequencer_stopped,
    start_chains,
    start_node,
)
from rollup_node.node.supernode import plan_chains
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.exit_codes import RESTART, SetupError
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.safe_heads import SafeHeadStore
from rollup_node.stages.engine.process.sequencer_store import AdminStateFile
from rollup_node.stages.interop.config import InteropConfig, InteropProcessConfig
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.protocol.forks import bundles
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.stages.protocol.upgrade_transactions import bundle_of
from tests.node.setup.planning import NETWORK, REQUIRED, prepare
from tests.support.processes.local_chains import local_chains

Started = list[tuple[Sequence[ProcessSpec], NodeSettings]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Return the nodes that the supervisor would run."""
    calls: Started = []

    def run_node(specs: Sequence[ProcessSpec], settings: NodeSettings) -> int:
        calls.append((specs, settings))
        return 7

    monkeypatch.setattr(start, "run_node", run_node)
    return calls


def run(*words: str) -> int:
    parsed = parse_options([*NETWORK, *REQUIRED, *words], {})
    return start_node(parsed._replace(warnings=("a variable is unknown",)), lambda: parsed)


def test_the_supervisor_gets_the_processes_and_its_code_is_returned(
    started: Started, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("--network=zora-sepolia", "--rpc.port=0", "--p2p.listen.tcp=0", "--runtime.dir=run") == 7
    ((specs, settings),) = started
    assert [spec.role for spec in specs][-2:] == ["p2p", "rpc"]
    assert settings.runtime_dir == Path.cwd() / "run" and settings.precheck is not None
    lines = capfdbinary.readouterr().out.decode().splitlines()
    said = [line.partition("msg=")[2] for line in lines]
    assert [text.partition(" ")[0] for text in said[:3]] == ["chain", "endpoints", '"options']
    assert said[3:] == ['"a variable is unknown" code=OPTIONS', '"created a new network key in node_p2p_priv.txt"']


def test_a_node_that_asks_for_it_starts_again_with_its_files_read_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """[UPG26] A process has chosen the bundle of the chain, and written it."""
    carried, value = BUNDLE_FORKS["lagoon"].carried[1], []

    def run_node(specs: Sequence[ProcessSpec], settings: NodeSettings) -> int:
        (config,) = (spec.config for spec in specs if spec.role == "engine")
        assert isinstance(config, EngineConfig)
        value.append(config.rollup)
        content = (Path(bundles.__file__).parent / carried.file).read_bytes()
        (tmp_path / "lagoon_bundle_auto.json").write_bytes(content)
        return RESTART if len(value) == 1 else 7

    monkeypatch.setattr(start, "run_node", run_node)
    ports = ("--rpc.port=0", "--p2p.disable", "--runtime.dir=run", f"--rollup.bundle-dir={tmp_path}")
    assert run(*ports, "--override.lagoon=4000000000", "--rollup.lagoon-bundle=auto") == 7
    assert [bundle_of(rollup, "lagoon").sha256 == carried.sha256 for rollup in value] == [False, True]


def run_chains(folder: Path, *words: str) -> int:
    """Run a supernode of two chains whose messages are verified."""
    options = (*local_chains(folder), "--interop.activation-timestamp=2000", "--rpc.port=0", "--runtime.dir=run")
    read = partial(read_supernode_options, (*options, *words), {})
    return start_chains(RunningOptions(read(), read, plan_chains))


def test_one_chain_starts_again_with_its_files_read_anew(started: Started, tmp_path: Path) -> None:
    """[UPG26, LIF34] It gets new configurations of its processes, with the secrets of the start."""
    bundle = f"--vn.all.rollup.bundle-dir={tmp_path}"
    words = (bundle, "--vn.902.override.lagoon=4000000000", "--vn.902.rollup.lagoon-bundle=auto")
    assert run_chains(tmp_path, "--vn.902.override.karst=3900000000", *words) == 7
    ((specs, settings),) = started
    carried = BUNDLE_FORKS["lagoon"].carried[1]
    content = (Path(bundles.__file__).parent / carried.file).read_bytes()
    (tmp_path / "lagoon_bundle_auto.json").write_bytes(content)
    assert settings.renew_chain is not None
    configs = settings.renew_chain("902")
    assert set(configs) == {"derivation", "engine"}
    (before,) = (spec.config for spec in specs if (spec.role, spec.group) == ("engine", "902"))
    after = configs["engine"]
    assert isinstance(before, EngineConfig) and isinstance(after, EngineConfig)
    assert bundle_of(before.rollup, "lagoon").sha256 != carried.sha256 == bundle_of(after.rollup, "lagoon").sha256
    assert msgspec.structs.replace(after, rollup=before.rollup) == before
    assert settings.reload is not None
    again = settings.reload()
    assert (again.configs, again.changed, again.check) == ({}, (), None), "it runs with the new files"
    (tmp_path / "902.json").write_text("{")
    with pytest.raises(SetupError, match=r"902\.json"):
        settings.renew_chain("902")


def test_an_interop_database_that_does_not_open_ends_the_start(started: Started, tmp_path: Path) -> None:
    """[VDB2, LIF9]"""
    assert run_chains(tmp_path) == 7
    path = tmp_path / "data" / "interop.db"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(SetupError, match=r"interop\.db is no interop database: give another path \(data-dir\)"):
        run_chains(tmp_path)
    assert len(started) == 1


@pytest.mark.option("log.file", "log.file.max-files", "log.file.max-size")
def test_the_log_goes_to_a_file_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """[LOG22]"""

    def run_node(specs: Sequence[ProcessSpec], settings: NodeSettings) -> int:
        assert settings.log_file is not None
        for _ in range(3 << 10):
            settings.log_file.write(b"x" * 1023 + b"\n")
        return 7

    monkeypatch.setattr(start, "run_node", run_node)
    words = ("--network=zora-sepolia", "--rpc.port=0", "--p2p.disable", "--runtime.dir=run")
    files = ("--log.file=node.log", "--log.file.max-size=1", "--log.file.max-files=2")
    for _ in range(2):
        assert run(*words, *files) == 7, "the file is free again"
    names = sorted(path.name for path in tmp_path.glob("node.log*"))
    assert names == ["node.log", "node.log.1"]
    assert all((1 << 19) < (tmp_path / name).stat().st_size <= 1 << 20 for name in names[1:])


ROLLUP = find_network("op-sepolia").config
NEEDED = ("--l2=http://127.0.0.1:1", "--network=op-sepolia")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), {"node_peerstore_db", "node_discovery_db"}),
        (("--p2p.no-discovery",), {"node_peerstore_db"}),
        (
            ("--p2p.no-discovery", f"--p2p.sequencer.key={32 * '11'}"),
            {"node_peerstore_db", "node_peerstore_db_signed_blocks"},
        ),
        (("--p2p.disable", "--safedb.path="), set()),
        (("--p2p.disable", "--safedb.path=safe"), {"safe"}),
    ],
)
def test_missing_databases_are_created_where_they_are_wanted(
    working_directory: Path, words: tuple[str, ...], names: set[str]
) -> None:
    """[SDB1] Only a node that signs has a file of signed blocks."""
    prepare(*words)
    files = [path for path in working_directory.iterdir() if not path.name.endswith((".txt", "-wal", "-shm"))]
    assert {path.name for path in files} == names
    assert {path.stat().st_mode & 0o777 for path in files} <= {0o600}


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (P2pConfig(ROLLUP, peerstore_path="bad.txt"), "bad.txt is no peer store: give another path"),
        (
            P2pConfig(ROLLUP, peerstore_path="p", sequencer_key=bytes(31) + b"\x01"),
            "p_signed_blocks is no file of signed blocks",
        ),
        (P2pConfig(ROLLUP, discovery_path="bad.txt"), "bad.txt is no database of nodes"),
    ],
)
def test_a_damaged_database_is_named(working_directory: Path, config: P2pConfig, error: str) -> None:
    for name in ("bad.txt", "p_signed_blocks"):
        (working_directory / name).write_text("not what it should be, and long enough to be looked at" * 4)
    with pytest.raises(SetupError, match=error):
        check_state_files(config, ROLLUP, None)


def test_a_safe_head_database_that_cannot_be_used_is_named(working_directory: Path) -> None:
    """[SDB12]: one line with the option and what to do."""
    other = find_network("op-mainnet").config
    SafeHeadStore("other", other).close()
    (working_directory / "folder").mkdir()
    (working_directory / "text").write_text("a file of something else, which must not be overwritten" * 4)
    used = SafeHeadStore("used", ROLLUP)
    for path, problem in (
        ("other", f"is of chain {other.l2_chain_id} with genesis 0x"),
        ("folder", "is a directory (op-node's cannot be read): give the path of a file"),
        ("text", "text is no safe head database: give another path"),
        ("text/safe", "give a path that this node may write"),
        ("used", "is in use by another node: give each its own"),
    ):
        with pytest.raises(SetupError) as caught:
            check_state_files(None, ROLLUP, path)
        assert problem in str(caught.value) and str(caught.value).endswith("(safedb.path)")
    used.close()


def begins_stopped(notices: list[Notice], *words: str) -> bool:
    values = parse_options([*NEEDED, *words], {}).values
    return sequencer_stopped(values, notices.append)


def test_the_stored_state_of_the_sequencer_beats_the_option(tmp_path: Path) -> None:
    """[ADM3, ADM5]"""
    path = tmp_path / "state.json"
    notices: list[Notice] = []
    words = ("--sequencer.enabled", f"--rpc.admin-state={path}")
    assert begins_stopped(notices, *words, "--sequencer.stopped")
    assert path.read_text() == '{"sequencerStarted":false}\n' and notices == []
    assert begins_stopped(notices, *words)
    assert [notice.level for notice in notices] == [Level.WARN]
    AdminStateFile(str(path)).store(active=True)
    assert not begins_stopped(notices, *words, "--sequencer.stopped")
    assert not begins_stopped(notices, *words)
    assert len(notices) == 2
    assert path.read_text() == '{"sequencerStarted":true}\n'


def test_a_verifier_does_not_touch_the_file(tmp_path: Path) -> None:
    """[ADM3]"""
    path = tmp_path / "state.json"
    for text in (b"[", b'{"sequencer\xd3tarted":true}'):
        path.write_bytes(text)
        assert not begins_stopped([], f"--rpc.admin-state={path}")
        assert path.read_bytes() == text
        with pytest.raises(SetupError, match=r"invalid config file .*\(--rpc\.admin-state\)"):
            begins_stopped([], "--sequencer.enabled", f"--rpc.admin-state={path}")


def test_a_stored_state_and_the_conductor_exclude_each_other(tmp_path: Path) -> None:
    """[ADM4, OPT56]"""
    path = tmp_path / "state.json"
    words = ("--sequencer.enabled", "--conductor.enabled", f"--rpc.admin-state={path}")
    assert not begins_stopped([], *words)
    assert not path.exists()
    path.write_text("{}")
    assert not begins_stopped([], *words)
    path.write_text('{"sequencerStarted":false}')
    with pytest.raises(SetupError, match="config persistence must be disabled when conductor is enabled"):
        begins_stopped([], *words)


def test_an_interop_database_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """[VDB2, LIF9]: one line with the option; one that is missing is created."""
    config = InteropProcessConfig(InteropConfig({ROLLUP.l2_chain_id: ROLLUP}, 0), {}, str(tmp_path / "interop.db"))
    check_interop_store(config)
    check_interop_store(config)
    used = InteropStore(config.store_path, config.dependency_set)
    with pytest.raises(SetupError, match=r"interop\.db is in use by another node: .*\(data-dir\)$"):
        check_interop_store(config)
    used.close()
    raw = bytearray(Path(config.store_path).read_bytes())
    raw[4096:8192] = b"\xff" * 4096
    for content, problem in ((bytes(raw), "is damaged"), (b"no database" * 100, "is no interop database")):
        Path(config.store_path).write_bytes(content)
        with pytest.raises(SetupError, match=rf"interop\.db {problem}.*\(data-dir\)$"):
            check_interop_store(config)
