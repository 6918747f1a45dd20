"""The l1 process with a checkpoint: heads, links and finality by proofs alone, over HTTP [LCP10 to LCP18]."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.l1 import proof
from rollup_node.stages.l1.config import CheckpointConfig, L1Config
from rollup_node.stages.l1.process import proof_poller
from rollup_node.stages.l1.process.stage import L1Stage
from rollup_node.stages.l1.proof import Unproven
from rollup_node.stages.l1.stored_root import StoredRoot, decode_stored_root, encode_stored_root
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import (
    L1BlockResponse,
    L1Heads,
    L1RefsResponse,
)
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.stages.l1.process.test_stage import L1Clients
from tests.support.chains.fake_beacon_chain import FakeBeaconChain, beacon_network, with_root
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.http_listener import Methods, json_rpc_app, listening
from tests.support.timing.stopwatch import Stopwatch

HEAD = 58
CHECKPOINT = 24


def methods_of(chain: FakeL1Chain, **others: FakeL1Chain | Exception) -> Methods:
    """Return the methods of an L1 endpoint with a chain, but for some labels."""

    def by_hash(block_hash: str, full: bool) -> Any:
        numbers = [number for number in range(chain.head + 1) if to_hex(chain.hash(number)) == block_hash]
        return chain.block_json(numbers[0]) if numbers else None

    return {**chain.methods(PLAIN_ROLLUP.l1_chain_id, **others), "eth_getBlockByHash": by_hash}


class L1:
    """An honest chain with its beacon chain, whose head is HEAD now."""

    def __init__(self, **epochs: int) -> None:
        self.chain = FakeL1Chain(HEAD + 20)
        network = beacon_network(int(time.time()) - 12 * (HEAD + 2), **epochs)
        self.beacon = FakeBeaconChain(network, self.chain.hash)
        self.beacon.head = HEAD

    def forged(self, depth: int) -> FakeL1Chain:
        """Return a chain of valid headers that leaves the honest one `depth` blocks before its end."""
        chain = FakeL1Chain(HEAD + 20)
        chain._branch = 7
        chain.reorg(depth, depth + 5)
        return chain


class Clients(L1Clients):
    """Derivation's and the engine's ends of the channels."""

    @property
    def refs(self) -> list[L1RefsResponse]:
        return [message for message in self.origins if isinstance(message, L1RefsResponse)]

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """Head, safe and finalized block as published last."""
        heads = self.heads or L1Heads(None, None, None)
        return tuple(None if ref is None else ref.number for ref in (heads.head, heads.safe, heads.finalized))

    async def requesting(
        self, condition: Callable[[], object], first: int | None = None, last: int | None = None
    ) -> None:
        """Wait for a condition, with derivation's request for five blocks and the engine's for references meanwhile."""

        def holds() -> object:
            if last is not None:
                self.request_refs(last, 4)
            return condition()

        await self.until(holds, None if first is None else (first, 5))


@asynccontextmanager
async def running_l1(
    l1: L1, servers: Sequence[Methods], beacons: Sequence[FakeBeaconChain], slot: int = CHECKPOINT, **options: Any
) -> AsyncIterator[Clients]:
    apps = [*map(json_rpc_app, servers), *(beacon.app() for beacon in beacons)]
    async with listening(*apps) as urls:
        checkpoint = CheckpointConfig(
            l1.beacon.root(slot), urls[len(servers) :], l1.beacon.network, timeout=5.0, **options
        )
        config = L1Config(urls[: len(servers)], (PLAIN_ROLLUP,), timeout=5.0, window=8, checkpoint=checkpoint)
        async with running_stage("l1", lambda bus, meter: L1Stage(config, bus, meter)) as buses:
            yield Clients(buses)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_poller, "POLLS_A_SLOT", 120)


@pytest.mark.parametrize("gloas", [0, 1 << 30])
async def test_heads_are_those_that_are_proven_and_not_what_the_endpoint_says(gloas: int, tmp_path: Path) -> None:
    """[LCP4, LCP14] Its latest block is 19 higher. In Gloas the proven block is one lower: the hash is the parent's."""
    l1 = L1(gloas=gloas)
    path = tmp_path / "checkpoint.json"
    head, lower = HEAD - (gloas == 0), int(gloas == 0)
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon], path=str(path)) as clients:
        await clients.requesting(lambda: clients.numbers[2] is not None, first=40)
        assert clients.numbers == (head, 40 - lower, 40 - lower)
        await clients.requesting(lambda: head - 1 in clients.blocks, first=head - 3)
        assert {n: block.header.hash for n, block in clients.blocks.items()} == {
            n: l1.chain.hash(n) for n in clients.blocks
        }
        await clients.requesting(lambda: clients.refs and clients.refs[-1].refs, last=head)
        await clients.until(lambda: not clients.problems)
        l1.beacon.head = HEAD + 1
        await clients.until(lambda: clients.numbers[0] == head + 1)
        await clients.requesting(lambda: clients.refs[-1].error is not None, last=head + 9)
        assert clients.refs[-1].error is not None and "is not proven yet" in clients.refs[-1].error.text
    stored = decode_stored_root(path.read_bytes())
    assert (stored.slot, stored.root, stored.checkpoint) == (40, l1.beacon.root(40), l1.beacon.root(CHECKPOINT))
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_restart_goes_on_from_the_kept_root(tmp_path: Path) -> None:
    """The endpoint does not have the checkpoint any more."""
    l1 = L1()
    path, root = tmp_path / "checkpoint.json", l1.beacon.root(CHECKPOINT)
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon], path=str(path)) as clients:
        await clients.until(lambda: path.exists() and decode_stored_root(path.read_bytes()).root != root)
    l1.beacon.unserved = {CHECKPOINT}
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon], path=str(path)) as clients:
        await clients.until(lambda: clients.numbers[2] == 40)
    assert decode_stored_root(path.read_bytes()).checkpoint == root


async def test_a_forged_chain_moves_nothing_and_its_endpoint_is_set_aside_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """[LCP15] First in the order, it has valid headers of another chain, which is longer; the other one is honest."""
    l1 = L1()
    liar = methods_of(l1.forged(25))
    honest = methods_of(l1.chain)
    mixed = {**liar, "eth_getBlockByHash": honest["eth_getBlockByHash"]}
    for attack in (liar, mixed):
        async with running_l1(l1, [attack, honest], [l1.beacon]) as clients:
            await clients.until(lambda: clients.numbers[0] == HEAD)
            await clients.requesting(lambda: HEAD in clients.blocks, first=HEAD - 4)
            assert all(block.header.hash == l1.chain.hash(n) for n, block in clients.blocks.items())
    output = capsys.readouterr().err
    assert "does not have the proven block" in output and "L1-ENDPOINT" in output
    assert "has blocks that are not proven" in output


async def test_a_reorg_of_proven_blocks_blames_no_endpoint(capsys: pytest.CaptureFixture[str]) -> None:
    """[LCP15] The next proven head skips a block, so that replaced ones are cached which derivation was not sent."""
    l1 = L1()
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon]) as clients:
        await clients.requesting(lambda: 44 in clients.blocks and (hex(47), True) in l1.chain.asked, first=40)
        before = l1.chain.hash(45)
        l1.chain.reorg(HEAD + 20 - 45, HEAD + 20 - 45)
        l1.beacon.head = HEAD + 2
        await clients.until(lambda: clients.numbers[0] == HEAD + 2)

        def hashes() -> list[bytes]:
            clients.request_origins(45, 1)
            return [message.block.header.hash for message in clients.origins if isinstance(message, L1BlockResponse)]

        await clients.until(hashes)
        assert set(hashes()) == {l1.chain.hash(45)} != {before}
    assert "has a block that is not proven" not in capsys.readouterr().err


@pytest.mark.sign("L1-UNPROVEN", line=True, readyz=True)
async def test_a_beacon_api_that_lies_is_named_and_another_one_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """[LCP12] A third of the committee signs another fork: no head moves by it, nor by what another network signs."""
    l1 = L1()
    fork = FakeBeaconChain(l1.beacon.network, l1.forged(25).hash)
    fork.head, fork.participants = HEAD, 5
    fork.bootstrap_of = l1.beacon
    async with running_l1(l1, [methods_of(l1.chain)], [fork]) as clients:
        problem = "L1-UNPROVEN: head: L1 is not proven"
        await clients.until(lambda: clients.says(problem))
        assert clients.numbers[0] is None
    other = FakeBeaconChain(with_root(l1.beacon.network, b"\x33" * 32), l1.chain.hash)
    other.head, other.bootstrap_of = HEAD, l1.beacon
    async with running_l1(l1, [methods_of(l1.chain)], [other, l1.beacon]) as clients:
        await clients.until(lambda: clients.numbers[0] == HEAD)
    output = capsys.readouterr().err
    assert "a Beacon API does not prove what it says" in output
    assert "its signature is not that of the sync committee" in output
    assert f"do={Code.L1_UNPROVEN.remedy}" in output


async def test_withheld_proofs_stop_nothing_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LCP18] The head stays, `/readyz` says since when, and the node goes on when there are proofs again."""
    monkeypatch.setattr(proof_poller, "LATE_SLOTS", 0.02)
    l1 = L1()
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon]) as clients:
        await clients.until(lambda: clients.numbers[0] == HEAD)
        await clients.requesting(lambda: clients.says("no new L1 head has been proven for"), first=40)
        l1.beacon.head = HEAD + 1
        await clients.until(lambda: clients.numbers[0] == HEAD + 1)


async def test_a_catch_up_is_unproven_and_finalizes_nothing_until_its_link_closes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """[LCP16, LCP17]"""
    monkeypatch.setattr(proof, "REACH", 16)
    monkeypatch.setattr(proof, "HIDE_SECONDS", 0.2)
    l1, path = L1(), tmp_path / "checkpoint.json"
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon], path=str(path)) as clients:
        await clients.until(lambda: clients.numbers[2] == 40)
        await clients.requesting(lambda: 12 in clients.blocks, first=8)
        assert clients.numbers == (HEAD, 40, None)
        await clients.requesting(lambda: clients.says("are used unproven until they link"), first=13)
        await clients.until(lambda: b"unproven" in path.read_bytes())
        for first in range(13, HEAD - 3, 5):
            await clients.requesting(lambda first=first: first + 4 in clients.blocks, first=first)  # type: ignore[misc]
        await clients.until(lambda: clients.numbers == (HEAD, 40, 40))
        await clients.until(lambda: not clients.problems)
        await clients.until(lambda: b"unproven" not in path.read_bytes())
        assert all(block.header.hash == l1.chain.hash(n) for n, block in clients.blocks.items())


async def test_the_safe_block_is_the_endpoints_if_it_is_proven_and_else_the_finalized_one() -> None:
    """[LCP14] It is proven once it is linked to the head."""
    l1 = L1()
    forged, linked = FakeL1Chain(HEAD - 1), FakeL1Chain(HEAD + 3)
    forged.reorg(20, 20)
    for label, safe in ((JsonRpcError(-32602, "unknown label"), 40), (forged, 40), (linked, HEAD - 1)):
        async with running_l1(l1, [methods_of(l1.chain, safe=label)], [l1.beacon]) as clients:
            await clients.until(lambda safe=safe: clients.numbers == (HEAD, safe, 40))  # type: ignore[misc]
            assert not clients.problems


@pytest.mark.parametrize("withheld", [True, False])
async def test_an_endpoint_that_withholds_finality_is_left_for_another_one(
    withheld: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[LCP12] It has no finality update, or always an old one, and all new heads."""
    monkeypatch.setattr(proof_poller, "FINALITY_LATE_EPOCHS", 0.01)
    l1 = L1()
    liar = FakeBeaconChain(l1.beacon.network, l1.chain.hash)
    liar.head = HEAD
    answers = liar._answer
    old = None if withheld else liar.update_json(49, committee=False)
    monkeypatch.setattr(
        liar, "_answer", lambda asked: old if asked.path.endswith("finality_update") else answers(asked)
    )
    liar.absent = {"updates"}
    async with running_l1(l1, [methods_of(l1.chain)], [liar, l1.beacon], slot=32) as clients:
        await clients.until(lambda: clients.numbers == (HEAD, 40, 40))


async def test_a_head_is_proven_as_soon_as_the_endpoint_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LCP10] Without a poll, and however many events come at once."""
    monkeypatch.setattr(proof_poller, "POLLS_A_SLOT", 0.05)
    l1 = L1()
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon]) as clients:
        await clients.until(lambda: clients.numbers[0] == HEAD and l1.beacon.events)
        asked: list[str] = []
        answers = l1.beacon._answer

        def answer(request: web.Request) -> Any:
            asked.append(request.path)
            return answers(request)

        monkeypatch.setattr(l1.beacon, "_answer", answer)
        l1.beacon.head = HEAD + 1
        for _ in range(500):
            l1.beacon.push()
        await clients.until(lambda: clients.numbers[0] == HEAD + 1)
        await asyncio.sleep(0.5)
        assert sum(path.endswith("optimistic_update") for path in asked) <= 12


async def test_an_honest_endpoint_is_reached_behind_eleven_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LCP12] Liars, and some without routes, that answer at once; each is left, and named if it lies."""
    monkeypatch.setattr(proof_poller, "POLLS_A_SLOT", 0.05)
    l1 = L1()
    others = []
    for index in range(11):
        fork = FakeBeaconChain(l1.beacon.network, l1.forged(25).hash, b"fork%d" % index)
        fork.head, fork.bootstrap_of, fork.serves = HEAD, l1.beacon, index % 3 != 0
        others.append(fork)
    stopwatch = Stopwatch(os.getpid())
    async with running_l1(l1, [methods_of(l1.chain)], [*others, l1.beacon]) as clients:
        await clients.until(lambda: clients.numbers[0] == HEAD)
        assert stopwatch.seconds < 10
        await clients.until(lambda: [item.in_use for item in clients.endpoints][1:] == [False] * 11 + [True])
        refused = [item.verdict for item in clients.endpoints if "is refused" in item.verdict]
        assert len(refused) == 7


async def test_withheld_finality_of_the_only_beacon_is_named_and_no_reason_to_be_unready(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[LCP10, LCP18] An endpoint has none before the first finalized block, and no update of a period that begins."""
    monkeypatch.setattr(proof_poller, "FINALITY_LATE_EPOCHS", 0.01)
    l1 = L1()
    l1.beacon.absent = {"finality_update", "updates"}
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon], slot=40) as clients:
        await clients.until(lambda: clients.endpoints[-1:])
        await clients.until(lambda: clients.endpoints[-1].verdict == "it proves no newer finalized block")
        l1.beacon.head = HEAD + 1
        await clients.until(lambda: clients.numbers[0] == HEAD + 1)
        await clients.until(lambda: clients.proof is not None and clients.proof.is_finality_late)
        assert not clients.problems
    output = capsys.readouterr().err
    assert "no new L1 block is proven to be finalized" in output and f"code={Code.FINALITY_STALE.text}" in output


async def test_an_endpoint_whose_head_is_old_is_left_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LCP12] It has new heads, all of them nine slots late."""
    l1 = L1()
    late = FakeBeaconChain(l1.beacon.network, l1.chain.hash)
    late.head = HEAD - 9
    async with running_l1(l1, [methods_of(l1.chain)], [late, l1.beacon]) as clients:
        await clients.until(lambda: clients.numbers[0] == HEAD)
        await clients.until(lambda: " s old" in clients.endpoints[1].verdict)


async def test_a_finality_update_that_does_not_come_holds_up_no_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LCP10]"""
    l1 = L1()
    hanging = asyncio.Event()

    @web.middleware
    async def hang(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path.endswith("finality_update"):
            await hanging.wait()
        answer: web.StreamResponse = await handler(request)
        return answer

    app = l1.beacon.app()
    app.middlewares.append(hang)
    monkeypatch.setattr(l1.beacon, "app", lambda: app)
    stopwatch = Stopwatch(os.getpid())
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon]) as clients:
        await clients.until(lambda: clients.numbers[0] == HEAD)
        assert stopwatch.seconds < 4
        hanging.set()


async def test_what_a_chain_uses_unproven_is_kept_while_the_node_runs_without_it(tmp_path: Path) -> None:
    """[LCP13] When it is back, its engine still has what was derived by those blocks."""
    l1, path, other = L1(), tmp_path / "checkpoint.json", PLAIN_ROLLUP.l2_chain_id + 1
    used = {other: Unproven(5, 9, l1.chain.hash(9))}
    root, validators = l1.beacon.root(CHECKPOINT), l1.beacon.network.genesis_validators_root
    replace_private_file(path, encode_stored_root(StoredRoot(validators, root, root, CHECKPOINT, used)))
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon], path=str(path)) as clients:
        await clients.until(lambda: clients.numbers[2] == 40)
        await clients.until(lambda: decode_stored_root(path.read_bytes()).slot == 40)
    assert decode_stored_root(path.read_bytes()).unproven == used


async def test_a_kept_root_that_cannot_be_written_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    l1 = L1()
    path = tmp_path / "absent" / "checkpoint.json"
    async with running_l1(l1, [methods_of(l1.chain)], [l1.beacon], path=str(path)) as clients:
        await clients.until(lambda: clients.numbers[2] == 40)
    assert "the newest proven L1 root cannot be kept" in capsys.readouterr().err


async def test_a_signer_is_read_from_the_state_of_a_proven_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LCP15] The block of another chain, whose state may have another signer, is refused."""
    l1 = L1()
    forged = l1.forged(25)
    honest = methods_of(l1.chain)
    mixed = {**methods_of(forged), "eth_getBlockByHash": honest["eth_getBlockByHash"]}
    async with listening(json_rpc_app(mixed), l1.beacon.app()) as urls:
        checkpoint = CheckpointConfig(l1.beacon.root(CHECKPOINT), urls[1:], l1.beacon.network, timeout=5.0)
        config = L1Config(urls[:1], (PLAIN_ROLLUP,), timeout=5.0, checkpoint=checkpoint, runtime_config=True)
        async with running_stage("l1", lambda bus, meter: L1Stage(config, bus, meter)) as buses:
            clients = Clients(buses)
            await clients.until(lambda: clients.says("is not the one that is proven"))


def test_the_configuration_is_sent_to_the_process() -> None:
    l1 = L1()
    config = L1Config((), (PLAIN_ROLLUP,), checkpoint=CheckpointConfig(b"\1" * 32, ("a",), l1.beacon.network))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(config), type=L1Config) == config
