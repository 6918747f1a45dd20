"""An L3, whose L1 is an OP Stack chain without blobs and without a Beacon API: its batches are listed, its blocks are
replayed, and a node derives it and passes `check` [HSH9, LIN23, BF1, OPT64]."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from tests.support.chains.l3_rollup import L3Rollup, Urls
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, call, unready_reasons, wait_for
from tests.support.servers.threads import in_thread

SECONDS = 24
SECRET = b"\x13" * 32


@pytest.fixture(scope="module")
def l3() -> L3Rollup:
    """Return an L3 whose batches and deposits are all on its L1, of which the newest block is young."""
    rollup = L3Rollup(int(time.time()) - SECONDS - 20)
    rollup.run(SECONDS)
    assert rollup.dropped == [] and rollup.safe.hash == rollup.sequencer.head.hash
    return rollup


@pytest.fixture(scope="module")
def urls(l3: L3Rollup) -> Iterator[Urls]:
    with in_thread(l3.serving(SECRET)) as result:
        yield result


@pytest.fixture(scope="module")
def flags(l3: L3Rollup, urls: Urls, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return the options that say which chain it is, and where its L1 is."""
    folder = tmp_path_factory.mktemp("l3")
    (folder / "rollup.json").write_bytes(l3.rollup)
    (folder / "l2-genesis.json").write_bytes(l3.l2.genesis)
    files = (f"--rollup.config={folder}/rollup.json", f"--rollup.l1-chain-config={folder}/l2-genesis.json")
    return (f"--l1={urls.l1}", "--l1.beacon.ignore", *files)


@pytest.fixture
def output(leftovers: Leftovers) -> Callable[..., str]:
    """Run a command to its successful end, without a warning; what it writes."""
    return lambda *words: "\n".join(Program(leftovers, "rollup_node", *words).wait_for_exit().lines())


def test_its_l1_has_what_an_op_stack_chain_has(l3: L3Rollup) -> None:
    header = l3.l2.sequencer.head.header
    block = l3.l2.eth["eth_getBlockByNumber"](hex(header.number), True)
    assert block["transactions"][0]["type"] == "0x7e" and block["withdrawals"] == []
    assert header.withdrawals_root not in (None, EMPTY_ROOT)
    assert header.excess_blob_gas == 0 and header.blob_gas_used, "the DA footprint"
    assert {item.kind for block in l3.l1 for item in block.inbox} == {2, DEPOSIT_TYPE}
    assert sum(len(block.deposits) for block in l3.l1) > 2


@pytest.mark.parametrize("fork", ["regolith", "canyon", "ecotone", "isthmus"])
def test_an_l2_of_any_fork_is_an_l1(fork: str) -> None:
    """Before Canyon its receipts root is without the nonces of deposits, which its receipts show."""
    rollup = L3Rollup(fork=fork)
    rollup.run(8)
    assert rollup.dropped == [] and rollup.safe.hash == rollup.sequencer.head.hash
    assert rollup.l1[1].deposits, "read from receipts"
    receipt = rollup.l2.eth["eth_getBlockReceipts"]("latest")[0]
    assert ("depositNonce" in receipt, "depositReceiptVersion" in receipt) == (True, fork != "regolith")


def test_its_batches_are_listed(l3: L3Rollup, flags: tuple[str, ...], output: Callable[..., str]) -> None:
    words = ("--from-l1", "1", "--to-l1", str(len(l3.l1) - 1), "--json")
    rows = [json.loads(line) for line in output("batches", *flags, *words).splitlines()]
    ends = [0, *(row["last_block"] for row in rows)]
    assert [row["first_block"] for row in rows] == [end + 1 for end in ends[:-1]] and ends[-1] == l3.safe.number


def test_its_blocks_are_replayed(l3: L3Rollup, urls: Urls, flags: tuple[str, ...], output: Callable[..., str]) -> None:
    last = l3.safe.number
    words = ("--l2", urls.l2, "--from-l2", "0", "--to-l2", str(last), "--json")
    hashes = [json.loads(line)["hash"] for line in output("replay", *flags, *words).splitlines()]
    assert hashes == [to_hex(l3.sequencer.block(number).hash) for number in range(1, last + 1)]


@pytest.mark.option("rollup.l1-chain-config")
def test_a_node_checks_and_derives_it(
    l3: L3Rollup, urls: Urls, flags: tuple[str, ...], output: Callable[..., str], leftovers: Leftovers, tmp_path: Path
) -> None:
    (tmp_path / "jwt").write_text(SECRET.hex())
    own = (f"--l2={urls.engine}", f"--l2.jwt-secret={tmp_path}/jwt", f"--runtime.dir={tmp_path}/run", "--workers=1")
    words = (*flags, *own, "--p2p.disable", "--rpc.addr=127.0.0.1", "--rpc.port=0", "--l1.http-poll-interval=2s")
    findings = json.loads(output("check", "--json", *words))["findings"]
    assert {row["level"] for row in findings if row["check"] != "memory"} == {"ok", "not checked"}, findings
    with Program(leftovers, "rollup_node", *words) as node:
        line = node.wait_for_line('"rpc server is listening"')
        url = f"http://127.0.0.1:{line.partition('port=')[2].split()[0]}"

        def safe() -> Any:
            status = call(url, "optimism_syncStatus")
            return status if status["safe_l2"]["number"] == l3.safe.number else None

        status = wait_for(safe, "the L3 is derived")
        wait_for(lambda: not unready_reasons(url), "the node is ready")
        ended = node.stop()
    assert status["safe_l2"]["hash"] == to_hex(l3.safe.hash)
    assert 0 < status["finalized_l2"]["number"] < l3.safe.number, "as the L2's finalized block says"
    assert ended.code == 0 and " code=" not in ended.out.replace("code=0", ""), ended.out
