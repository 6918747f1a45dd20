"""The start of a node, up to the supervisor."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.node.setup import start
from rollup_node.node.setup.reload import RunningOptions
from rollup_node.node.setup.start import start_chains, start_node
from rollup_node.node.supernode import plan_chains
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.exit_codes import RESTART, SetupError
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.protocol.forks import bundles
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from rollup_node.stages.protocol.upgrade_transactions import bundle_of
from tests.node.setup.planning import NETWORK, REQUIRED
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
