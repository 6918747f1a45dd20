"""Requests of the rpc process are handled once and answered as often as they come."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.engine.calls.actions import RpcResponse
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.engine_core import RpcRequest
from rollup_node.stages.engine.process.control_server import (
    IDLE_SECONDS,
    MAX_RESPONSE_BYTES,
    MAX_RESPONSES,
    RETRY_SECONDS,
    ControlServer,
    StoredRequests,
)
from rollup_node.stages.engine.process.sequencer_store import (
    AdminState,
    AdminStateFile,
    SequencerState,
    SequencerStateFile,
    SequencerStore,
    StoreFailedError,
)
from rollup_node.stages.messages import control
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.stages.engine.conftest import RunOn
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.core_harness import RPC, CoreHarness, config_of, started
from tests.support.engine.fake_engine import sequencing_engine
from tests.support.p2p.blocks import block
from tests.support.timing.conditions import until


class Rpc:
    """An rpc process and the server of an engine process; `handled` is what the server passed on."""

    def __init__(self, directory: Path) -> None:
        self.handled: list[tuple[ProcessId, RpcRequest]] = []
        self.responses: list[RpcResponse] = []
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "rpc": 1})
        self.server = ControlServer(self.buses["engine"], lambda peer, message: self.handled.append((peer, message)))
        self.client = self.buses["rpc"].connect("engine.control", self.responses.append)


async def test_a_repeated_request_gets_the_first_response(tmp_path: Path) -> None:
    rpc = Rpc(tmp_path)
    async with running_buses(rpc.buses):
        request = control.StopSequencerRequest(1)
        rpc.client.send(request)
        rpc.client.send(request)
        await until(lambda: len(rpc.handled) == 2)
        peer = rpc.handled[0][0]
        rpc.server.respond(peer, control.ControlResponse(1, None, bytes(32)))
        rpc.client.send(request)
        await until(lambda: len(rpc.responses) == 2)
        assert rpc.responses == [control.ControlResponse(1, None, bytes(32))] * 2 and len(rpc.handled) == 2
        for number in range(2, MAX_RESPONSES + 2):
            rpc.server.respond(peer, control.ControlResponse(number, None, None))
        rpc.client.send(request)
        await until(lambda: len(rpc.handled) == 3)


async def test_the_blocks_that_are_kept_for_repeated_requests_are_bounded_in_bytes(tmp_path: Path) -> None:
    def sealed(number: int, size: int) -> control.BuildResponse:
        payload = msgspec.structs.replace(block(number=number), transactions=(bytes(size),))
        return control.BuildResponse(number, None, payload=payload)

    rpc = Rpc(tmp_path)
    async with running_buses(rpc.buses):
        rpc.client.send(control.SealBlockRequest(1, bytes(8), 0, False))
        await until(lambda: len(rpc.handled) == 1)
        peer = rpc.handled[0][0]
        for number in range(1, 21):
            rpc.server.respond(peer, sealed(number, 1_000_000))
            assert rpc.server.responses.bytes <= MAX_RESPONSE_BYTES
        assert len(rpc.server.responses) == MAX_RESPONSE_BYTES // 1_001_072
        await until(lambda: len(rpc.responses) == 20)
        rpc.client.send(control.SealBlockRequest(20, bytes(8), 0, False))
        await until(lambda: len(rpc.responses) == 21)
        assert rpc.responses[-1] == rpc.responses[-2] and len(rpc.handled) == 1
        kept = rpc.server.responses.bytes
        rpc.server.respond(peer, sealed(21, MAX_RESPONSE_BYTES))
        assert rpc.server.responses.bytes == kept, "a block too large to keep drives out no other response"
        rpc.client.send(control.SealBlockRequest(21, bytes(8), 0, False))
        await until(lambda: len(rpc.handled) == 2)


class SlowDisk:
    """os.fsync that waits while it is `held`."""

    def __init__(self) -> None:
        self.entered, self._free = threading.Event(), threading.Event()
        self._free.set()

    def fsync(self, descriptor: int) -> None:
        self.entered.set()
        self._free.wait(20)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.entered.clear()
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    slow_disk = SlowDisk()
    monkeypatch.setattr(os, "fsync", slow_disk.fsync)
    return slow_disk


@pytest.mark.option("rpc.admin-state")
async def test_a_slow_disk_delays_the_call_and_nothing_else(run_on: RunOn, tmp_path: Path, disk: SlowDisk) -> None:
    """[ADM5]: a start that is refused by the time it is stored is not what another life begins with."""
    engine = sequencing_engine()
    chain = engine.chain
    file = AdminStateFile(str(tmp_path / "admin.json"))
    (block,) = (chain.payloads[ref.hash] for ref in chain.build(1)[1:])
    async with run_on(engine)(
        sequencer_enabled=True,
        sequencer_stopped=True,
        sequencer_l1_confs=0,
        p2p=True,
        admin_state_file=str(tmp_path / "admin.json"),
    ) as node:
        await node.until(lambda: node.unsafe == 0)
        start = control.StartSequencerRequest(1, chain.genesis.hash)
        with disk.held():
            await node.until(disk.entered.is_set, lambda: node.control.send(start))
            assert (await node.safe_head(control.SafeHeadRequest(2, 1))).error is not None, "other calls are answered"
            await node.gossip(block)
            await node.until(lambda: node.unsafe == 1)
            node.control.send(start)
            assert [response.id for response in node.responses] == [2], "this one is not, until it is on disk"
        refused = await node.admin(start)
        assert refused.error is not None and refused.error.startswith("block hash does not match")
        await node.until(lambda: file.load() == AdminState(False))
        assert (await node.admin(control.StartSequencerRequest(3, engine.head))).error is None
        assert file.load() == AdminState(True)
        assert {response for response in node.responses if response.id == 1} == {refused}, "the first response"


async def test_without_the_option_a_state_that_cannot_be_kept_fails_the_call(run_on: RunOn, tmp_path: Path) -> None:
    """[ADM7]: or else the next life of the process undoes what was answered with success."""
    engine = sequencing_engine()
    path = tmp_path / "node" / "sequencer.state"
    path.parent.mkdir()

    config = {"sequencer_enabled": True, "sequencer_l1_confs": 0, "sequencer_state_file": str(path)}
    async with run_on(engine)(**config) as node:
        await node.until(lambda: node.status is not None and node.status.sequencer_active and node.unsafe >= 0)
        path.parent.rmdir()
        failed = await node.admin(control.StopSequencerRequest(1))
        assert failed.error == (
            f"failed to notify sequencer-state listener of stop: cannot write {path}: No such file or directory"
        )
        failed = await node.admin(control.SetRecoverModeRequest(2, True))
        assert failed.error is not None and failed.error.startswith("failed to store recover mode: ")
        assert node.stage.core.status().sequencer_active, "a call that fails changes nothing"
        failed = await node.admin(control.SetSdmOptInRequest(5, True))
        assert failed.error is not None
        assert failed.error.startswith("failed to notify SDM-state listener of state change: cannot write ")
        assert not node.stage.core.status().sdm_opt_in
        path.parent.mkdir()
        assert await node.admin(control.SetSdmOptInRequest(6, True)) == control.ControlResponse(6, None, None)
        assert await node.admin(control.SetRecoverModeRequest(3, True)) == control.ControlResponse(3, None, None)
        assert (await node.admin(control.StopSequencerRequest(4))).error is None
        assert SequencerStateFile(str(path)).load() == SequencerState(active=False, recover=True, sdm_opt_in=True)
    async with run_on(engine)(**config) as node:
        await node.until(lambda: node.status is not None and node.unsafe >= 0)
        assert node.status is not None and not node.status.sequencer_active
        assert node.stage.config.sequencer_recover and node.status.sdm_opt_in


class FailingStore(SequencerStore):
    """A store whose next `failures` writes fail; `written` are all that were tried."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.failures = 0
        self.written: list[bool] = []

    def store(self, **changes: bool) -> None:
        self.written.append(changes["active"])
        if self.failures:
            self.failures -= 1
            raise StoreFailedError("disk full")


class Requests:
    """Calls to a core in virtual time, with what they store."""

    def __init__(self, harness: CoreHarness) -> None:
        self.harness = harness
        chain = harness.chain
        config = config_of(chain, sequencer_enabled=True)
        self.store = FailingStore(config)
        self.refused: list[str] = []
        self.requests = StoredRequests(
            self.store,
            harness.core,
            lambda peer, message: harness.request(message, peer),
            lambda peer, number, error: self.refused.append(error),
            active=True,
        )

    async def take(self, *messages: control.StartSequencerRequest | control.StopSequencerRequest) -> float:
        """Call arrive at once; the pause after them."""
        for message in messages:
            self.requests.add(RPC, message)
        return await self.requests.task.step()


async def test_a_call_that_fails_is_tried_to_be_undone_until_it_is(chain: ChainFixture) -> None:
    """[ADM7]: the file may have what was to be written, and another life would begin with it."""
    requests = Requests(started(chain, sequencer_enabled=True))
    requests.store.failures = 2
    assert await requests.take(control.StopSequencerRequest(1)) == RETRY_SECONDS
    assert requests.refused == ["failed to notify sequencer-state listener of stop: disk full"]
    assert requests.harness.status.sequencer_active and requests.harness.responses == []
    assert await requests.take() == IDLE_SECONDS
    assert requests.store.written == [False, True, True]
    requests.requests.close()


async def test_calls_are_made_one_after_the_other(chain: ChainFixture) -> None:
    """A repeated one once, and each is stored."""
    requests = Requests(started(chain, sequencer_enabled=True))
    stop, start = control.StopSequencerRequest(1), control.StartSequencerRequest(2, chain.genesis.hash)
    assert await requests.take(stop, stop, start, start, control.StopSequencerRequest(3)) == IDLE_SECONDS
    assert requests.store.written == [False, True, False] and requests.refused == []
    requests.harness.run_until_idle()
    responses = [control.ControlResponse(1, None, chain.genesis.hash), control.ControlResponse(2, None, None)]
    assert requests.harness.responses == [*responses, control.ControlResponse(3, None, chain.genesis.hash)]
    assert await requests.take(control.StopSequencerRequest(4)) == IDLE_SECONDS
    assert len(requests.store.written) == 3, "a call that has no effect stores nothing"
    requests.requests.close()
