"""Two supernodes of two chains, between which valid and invalid messages go; processes of one of them are killed, its
engines are away. Both end with the same output roots and super roots [LIF33, LIF34, VR6, IV3, LB3]."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from rollup_node.node import cli
from tests.support.processes.chains import CHAINS, MESSAGES, Chains
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, RpcError, call, wait_for
from tests.tools.commands.test_bundle import unpacked

L1_SECONDS = 2
BLOCKS, KILLS = 6, 20
KILLED, OTHER = 902, 901
OPTIONS, ADMIN = "supernode.toml", "rpc.enable-admin = true\n"


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Chains]:
    """Yield a network for all tests of the module, with equal roots at the end."""
    words = ("--chains", "2", "--supernodes", "2", *MESSAGES, "--l1-block-time", str(L1_SECONDS), *CALLDATA)
    options = module_leftovers.folder / OPTIONS
    options.write_text(ADMIN)
    numbers = {"rollup_node.node.supervisor.chain_group.FIRST_PAUSE": 4.0}
    with Chains(module_leftovers, *words, OP_SUPERNODE_CONFIG=str(options), numbers=numbers) as running:
        running.wait_for_height(2)
        yield running
        for name in running.supernodes:
            assert "a bug ends" not in running.log(name) and "Traceback" not in running.log(name), running.logs(60)
        result = running.finish()
    assert result["super_roots"] > 0, result


def lag(net: Chains) -> float:
    """Return how many seconds later than the other supernode this one has the next local safe head of a chain."""
    ahead, here = "supernode-2", "supernode"
    target = net.height(OTHER, "local_safe_l2", ahead) + 1
    seen: dict[str, float] = {}

    def both() -> bool:
        for name in (ahead, here):
            if name not in seen and net.height(OTHER, "local_safe_l2", name) >= target:
                seen[name] = time.monotonic()
        return len(seen) == 2

    wait_for(both, f"block {target} of chain {OTHER} is local safe", every=0.1)
    return seen[here] - seen[ahead]


def incarnations(net: Chains) -> dict[tuple[str, str, int], int]:
    entries = json.loads((net.root / "supernode" / "processes.json").read_text())
    return {(entry["role"], entry.get("chain", ""), entry["copy"]): entry["incarnation"] for entry in entries}


def test_a_reload_reaches_the_processes_of_one_chain_alone(net: Chains) -> None:
    """[LIF35]: verified heads of both go on; what is wrong for one chain changes nothing for any."""
    file, url = net.root.parent / OPTIONS, f"{net.supernodes['supernode']}/{OTHER}/"
    before, heads = incarnations(net), {chain: net.height(chain) for chain in CHAINS}
    file.write_text(f"{ADMIN}[vn.{KILLED}]\nsequencer.max-safe-lag = 7")
    changed = f"vn.{KILLED}.sequencer.max-safe-lag"
    restarted = f"engine.{KILLED}"
    assert call(url, "admin_reload") == {"changed": [changed], "restarted": [restarted], "needRestart": []}
    expected = before | {("engine", str(KILLED), 0): before["engine", str(KILLED), 0] + 1}
    net.wait(lambda: incarnations(net) == expected, "the engine process is a new one")
    net.wait(lambda: all(net.height(chain) > heads[chain] + 2 for chain in CHAINS), "both chains go on")
    file.write_text(f'{ADMIN}log.level = "debug"\n[vn.{KILLED}]\nsequencer.max-safe-lag = "x"\n[vn.{OTHER}]\nl2.x = 1')
    with pytest.raises(RpcError, match="reload refused, nothing is changed") as caught:
        call(url, "admin_reload")
    assert changed in caught.value.message and f"vn.{OTHER}.l2.x" in caught.value.message
    file.write_text(ADMIN)
    assert call(url, "admin_reload")["restarted"] == [restarted]
    expected["engine", str(KILLED), 0] += 1
    net.wait(lambda: incarnations(net) == expected, "only that process has restarted")


def test_an_archive_of_a_supernode_has_all_chains(net: Chains, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[CMD18]: without its options, and so without a check."""
    metrics = [net.root / "supernode" / "metrics" / f"engine.{chain}.prom" for chain in CHAINS]
    net.wait(lambda: all(file.exists() for file in metrics), "an engine process that has started again has metrics")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bundle", "--out=a.tar.gz", f"--runtime.dir={net.root}/supernode"]) == 0
    files = unpacked(tmp_path / "a.tar.gz")
    assert list(json.loads(files["status.json"])["chains"]) == [str(chain) for chain in sorted(CHAINS)]
    assert {f"engine.{chain}" for chain in CHAINS} < set(re.findall(r"# file ([\w.-]+)\.prom", files["metrics.txt"]))
    assert {entry["chain"] for entry in json.loads(files["processes.json"])} >= {str(chain) for chain in CHAINS}
    assert files["log.txt"].count("\n") > 10


def test_a_chain_whose_processes_die_delays_no_other(net: Chains) -> None:
    """[LIF34]: they are killed until the chain is set aside, and it comes back."""
    lags: list[float] = []
    while "chain is set aside" not in net.log("supernode"):
        for role in ("engine", "derivation", "engine"):
            net.kill_role(role, KILLED)
        lags.append(lag(net))
        assert len(lags) < KILLS, "it is never set aside"
    assert median(lags) <= L1_SECONDS and max(lags) <= 3 * L1_SECONDS, lags
    before = net.height(OTHER, "local_safe_l2")
    net.wait(lambda: net.height(OTHER, "local_safe_l2") > before + L1_SECONDS, "the other goes on")
    net.wait_for_height(net.height(KILLED, name="supernode-2"))


def test_an_engine_that_is_away_holds_the_verified_heads_alone(net: Chains) -> None:
    """[LB3, VR15, SNO10], optimism#22325, optimism#22281: it does not answer while the other chain goes on, and is
    named. Then all heads get to where those of the other supernode were; where these are goes by the blocks that are
    denied meanwhile, after which the batcher has to post what follows again."""
    engine, activation = net.network["pids"][f"{KILLED} supernode engine"], net.network["activation"]
    net.wait(lambda: net.head(OTHER).get("timestamp", 0) > activation, "a round is verified")
    net.wait(lambda: net.height(KILLED, "local_safe_l2") >= net.height(OTHER), "derived again what is verified")
    os.kill(engine, signal.SIGSTOP)
    try:
        # A block that is denied at this moment has the chain derived again from below what is verified.
        known = max(net.height(OTHER), net.height(KILLED, "local_safe_l2"))
        last = net.height(OTHER, "local_safe_l2")
        net.wait(lambda: net.height(OTHER, "local_safe_l2") >= last + BLOCKS, "the other goes on")
        net.wait(lambda: f"chain {KILLED}: engine: " in net.reasons(), "the engine is named")
        assert net.height(OTHER) <= max(known, net.height(KILLED, "local_safe_l2")), (
            "nothing is verified beyond the engine"
        )
        root = net.super_root(net.head(OTHER)["timestamp"])
        assert root is not None, "what is verified needs no engine"
    finally:
        os.kill(engine, signal.SIGCONT)
    theirs = {chain: net.height(chain, name="supernode-2") for chain in CHAINS}
    net.wait(lambda: all(net.height(chain) >= theirs[chain] for chain in CHAINS), f"the heads {theirs} of the other")


def test_an_invalidation_goes_on_over_kills(net: Chains) -> None:
    """[VR6, IV3, IV4], optimism#21948: the engine process of the chain and the interop process are killed as soon as
    one is decided; the block is replaced, and the chain is reset for it once in a life."""
    before = len(net.denials())
    net.wait(lambda: len(net.denials()) > before, "a block is denied", every=0.02)
    chain, number, block = net.denials()[-1]
    net.kill_role("engine", chain)
    net.kill_role("interop")
    for name, url in net.supernodes.items():
        net.wait_for_height(number, name=name)
        output = call(f"{url}/{chain}/", "optimism_outputAtBlock", hex(number))
        assert not output["blockRef"]["hash"].startswith(block)
    reset = f'msg=resetting code=RESET chain={chain} reason="block {number}:{block} is denied'
    assert net.log("supernode").count(reset) <= 2
    net.wait(lambda: '"ready":true' in net.reasons(), "ready")


def test_a_supernode_that_was_killed_goes_on(net: Chains) -> None:
    """[RW3, VR14, SNO4], optimism#22281: with kill -9, on the same data directory; no head that it states is below the
    verified one, and no super root another."""
    activation = net.network["activation"]
    net.wait(lambda: net.head(OTHER)["timestamp"] - 2 > activation, "a round is verified")
    before, timestamp = {chain: net.height(chain) for chain in CHAINS}, net.head(OTHER)["timestamp"] - 2
    root = net.super_root(timestamp)
    assert root is not None
    killed, stated = net.kill_role("supervisor"), []

    def goes_on() -> bool:
        heights = {chain: net.height(chain) for chain in CHAINS}
        stated.append(heights)
        assert net.super_root(timestamp) == root
        return all(heights[chain] > before[chain] for chain in CHAINS)

    net.wait(goes_on, "verified heads go on")
    entry = net.entry("supervisor")
    assert entry is not None and entry["pid"] != killed["pid"]
    below = [heights for heights in stated if any(-1 < heights[chain] < before[chain] for chain in CHAINS)]
    assert below == [], f"verified before: {before}"
