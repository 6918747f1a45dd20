"""From option values to what each process is told."""

import os
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.endpoint_checks import Listener
from rollup_node.node.setup.networks import find_network
from rollup_node.node.setup.plan import NodePlan, Notice, listeners, log_notices, plan_node
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.processes import PROCESSES
from rollup_node.stages.io.log import Level

SECRET = "11" * 32
NEEDED = ("--network=op-sepolia", "--l2=http://e:8551", "--l1.beacon=http://b:5052")
NEW_KEY = Notice(Level.INFO, "made a new network key in node_p2p_priv.txt")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node_jwt.txt").write_text(SECRET)
    return tmp_path


def plan(*words: str) -> NodePlan:
    return plan_node(parse_options([*NEEDED, *words], {}).values)


def config(made: NodePlan, role: str) -> Any:
    return next(row.config for row in made.rows if row.role == role)


def test_every_process_gets_its_row() -> None:
    made = plan()
    assert [row.role for row in made.rows] == [kind.role for kind in PROCESSES]
    assert made.settings.version.startswith("v")
    assert made.settings.log == LogSettings()
    assert made.settings.check is not None
    assert made.notices == (NEW_KEY,)


def test_values_reach_the_stages() -> None:
    made = plan(
        *("--l1=http://a,http://b", "--l1.trustrpc", "--l1.rpckind=any", "--l1.http-poll-interval=500ms"),
        *("--l1.epoch-poll-interval=-1s", "--l1.max-concurrency=3", "--l1.rpc-max-batch-size=4"),
        *("--l1.rpc-rate-limit=2.5", "--l1.cache-size=0", "--verifier.l1-confs=7"),
        *("--l1.beacon-fallbacks=http://c", "--l1.beacon-header=X-Key: y", "--l1.beacon.fetch-all-sidecars"),
        *("--l1.beacon.slot-duration-override=2", "--rollup.span-overlap-check=false"),
        *("--l2.engine-rpc-timeout=3s", "--l2.enginekind=reth", "--l2.skip-sync-start-check"),
        *("--sequencer.enabled", "--sequencer.stopped", "--sequencer.l1-confs=1", "--sequencer.max-safe-lag=9"),
        *("--sequencer.recover", "--sequencer.sealing-duration=10ms", "--finality.lookback=5", "--finality.delay=6"),
        *("--fetch-withdrawal-root-from-state", "--rpc.addr=127.0.0.1", "--rpc.port=1", "--rpc.enable-admin"),
        *("--metrics.enabled", "--metrics.addr=127.0.0.2", "--metrics.port=2", "--runtime.dir=run", "--workers=5"),
        *("--log.level=debug", "--log.format=json", "--log.color", "--log.pid"),
    )
    rollup = find_network("op-sepolia").config
    l1, blobs, derivation = (config(made, role) for role in ("l1", "blobs", "derivation"))
    engine, rpc = config(made, "engine"), config(made, "rpc")
    assert (l1.endpoints, l1.trust_rpc, l1.rpc_kind) == (("http://a", "http://b"), True, "any")
    assert (l1.poll_interval, l1.epoch_poll_interval, l1.max_concurrency, l1.max_batch) == (0.5, -1.0, 3, 4)
    assert (l1.rate_limit, l1.cache_size, l1.verifier_confs, l1.rollup) == (2.5, 0, 7, rollup)
    assert (blobs.beacon, blobs.fallbacks, blobs.header) == ("http://b:5052", ("http://c",), ("X-Key", "y"))
    assert (blobs.fetch_all_sidecars, blobs.slot_seconds) == (True, 2)
    assert (derivation.rollup, derivation.span_overlap_check) == (rollup, False)
    assert derivation.l1_chain.chain_id == 11155111
    assert (engine.url, engine.jwt_secret.hex(), engine.timeout) == ("http://e:8551", SECRET, 3.0)
    assert (engine.engine_kind, engine.skip_sync_start_check) == ("reth", True)
    assert (engine.sequencer_enabled, engine.sequencer_stopped, engine.sequencer_recover) == (True, True, True)
    assert (engine.sequencer_l1_confs, engine.sequencer_max_safe_lag, engine.sealing_duration) == (1, 9, 0.01)
    assert (engine.finality_lookback, engine.finality_delay) == (5, 6)
    assert engine.withdrawal_root_from_state
    assert (rpc.addr, rpc.port, rpc.enable_admin, rpc.version) == ("127.0.0.1", 1, True, made.settings.version)
    assert (rpc.metrics_enabled, rpc.metrics_addr, rpc.metrics_port) == (True, "127.0.0.2", 2)
    assert rpc.metrics_dir == f"{Path.cwd()}/run/metrics"
    assert made.settings.runtime_dir == Path.cwd() / "run"
    assert made.settings.log == LogSettings(Level.DEBUG, "json", True, True)
    assert next(row.copies for row in made.rows if row.role == "compute") == 5


def test_defaults_reach_the_stages() -> None:
    made = plan()
    l1, blobs, engine = config(made, "l1"), config(made, "blobs"), config(made, "engine")
    assert (l1.endpoints, l1.cache_size, l1.epoch_poll_interval) == (("http://127.0.0.1:8545",), 900, 384.0)
    assert blobs.slot_seconds is None
    assert (engine.finality_lookback, engine.sealing_duration, engine.engine_kind) == (None, 0.05, "geth")
    workers = next(row.copies for row in made.rows if row.role == "compute")
    assert workers == max(1, len(os.sched_getaffinity(0)) - 1)


def test_each_node_has_a_private_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    first, second = plan().settings.runtime_dir, plan().settings.runtime_dir
    assert first is not None and first.parent == tmp_path and not first.exists()
    assert first != second
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    third = plan().settings.runtime_dir
    assert third is not None and third.parent.is_dir()


def test_what_happened_is_noted(in_a_folder: Path) -> None:
    (in_a_folder / "node_jwt.txt").unlink()
    made = plan("--rollup.config=x.json", "--snapshotlog.file=x", "--p2p.disable")
    assert made.notices == (
        Notice(Level.WARN, "flag --snapshotlog.file: it has no effect any more"),
        Notice(Level.ERROR, "both network and rollup.config are given: op-sepolia is used, x.json is ignored"),
        Notice(Level.INFO, f"made a new JWT secret in {in_a_folder}/node_jwt.txt: the execution engine needs it"),
    )
    assert (in_a_folder / "node_jwt.txt").read_text().strip() == f"0x{config(made, 'engine').jwt_secret.hex()}"


def test_notices_go_to_the_log_at_their_level(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log_notices(plan("--log.level=warn"), ["a variable is unknown"])
    written = capfdbinary.readouterr().out.decode()
    assert "lvl=warn" in written and 'msg="a variable is unknown"' in written
    assert NEW_KEY.text not in written
    log_notices(plan("--log.level=error"), ["a variable is unknown"])
    assert capfdbinary.readouterr().out == b""


def test_options_are_checked_before_any_file_is_made(in_a_folder: Path) -> None:
    (in_a_folder / "node_jwt.txt").unlink()
    with pytest.raises(OptionError, match="batch size is invalid"):
        plan("--l1.rpc-max-batch-size=0")
    with pytest.raises(OptionError, match="invalid network"):
        plan("--network=none")
    assert list(in_a_folder.iterdir()) == []


def test_listeners() -> None:
    rpc = Listener("rpc.addr", "rpc.port", "0.0.0.0", 1)
    metrics = Listener("metrics.addr", "metrics.port", "0.0.0.0", 2)
    words = ["--rpc.port=1", "--metrics.port=2"]
    assert listeners(parse_options([*words, "--p2p.disable"], {}).values) == [rpc]
    assert listeners(parse_options([*words, "--p2p.disable", "--metrics.enabled"], {}).values) == [rpc, metrics]
    tcp = Listener("p2p.listen.ip", "p2p.listen.tcp", "127.0.0.1", 9999)
    udp = Listener("p2p.listen.ip", "p2p.listen.udp", "127.0.0.1", 9999, is_udp=True)
    words += ["--p2p.listen.ip=127.0.0.1", "--p2p.listen.tcp=9999"]
    assert listeners(parse_options(words, {}).values) == [rpc, tcp, udp]
    assert listeners(parse_options([*words, "--p2p.no-discovery"], {}).values) == [rpc, tcp]
    other = udp._replace(port=9998)
    assert listeners(parse_options([*words, "--p2p.listen.udp=9998"], {}).values) == [rpc, tcp, other]
