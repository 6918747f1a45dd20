"""The sync protocol payload_by_number: serves our chain's blocks, fills gaps [SYN6 to SYN9, SYN16 to SYN18]."""

import asyncio
import time
from collections.abc import Callable, Iterable

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.p2p import GapEnd, PayloadRequest, PayloadResponse
from rollup_node.stages.p2p.addresses.peer_id import PeerId, short_peer_id
from rollup_node.stages.p2p.blocks.block_message import SszError
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import HostEvent, PeerDisconnected, PeerIdentified, StreamError
from rollup_node.stages.p2p.host.io.streams import Stream
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.p2p.reqresp.payload_by_number import (
    FAILURE_CODE,
    RequestOutcome,
    ResultCode,
    request_failed,
)
from rollup_node.stages.p2p.reqresp.planner import BlockRequest, SyncPlanner
from rollup_node.stages.p2p.reqresp.server_limits import RequestTurns, WaitingRequest, check_number
from rollup_node.stages.protocol.payloads import ExecutionPayload

METHOD = "payload_by_number"
TIMEOUT_SECONDS = 8.0
"""Bound on the engine process's answer."""
_IDLE_INTERVAL = 10.0
_MIN_TURN_INTERVAL = 0.005

log = Logger("p2p")


class SyncServer:
    """Serves peers' requests with blocks of the engine process, within the limits."""

    def __init__(self, host: Host, bus: Bus) -> None:
        self._host, self._client = host, RequestClient(bus, "engine.payloads")
        self._turns = RequestTurns()
        self._admissions: dict[WaitingRequest, asyncio.Future[bool]] = {}
        self._timer: asyncio.TimerHandle | None = None
        for protocol in payload_by_number.protocols(host.config.rollup.l2_chain_id):
            host.set_stream_handler(protocol, self._serve)
        host.subscribe(self._on_host_event)

    async def _serve(self, stream: Stream) -> None:
        started = time.monotonic()
        code, response = ResultCode.UNKNOWN_ERROR, b""
        if await self._wait_for_turn(stream.peer):
            code, response = await self._handle_request(stream)
            stream.hold(len(response))
        async with asyncio.timeout(payload_by_number.WRITE_SECONDS):
            await stream.write(response or bytes([code]))
        stream.close()
        count(self._host, "server", code, time.monotonic() - started)

    async def _wait_for_turn(self, peer: PeerId) -> bool:
        """Wait for the turn of a request; False when it is refused."""
        request = self._turns.add(peer, time.monotonic())
        if request is None:
            return False
        admission: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._admissions[request] = admission
        try:
            self._admit_requests()
            return await admission
        finally:
            del self._admissions[request]

    def _admit_requests(self) -> None:
        """Decide on the requests whose turn has come or that have waited too long, and come back for the others."""
        now = time.monotonic()
        self._decide(self._turns.take_expired(now), admitted=False)
        self._decide(self._turns.take_admitted(now), admitted=True)
        delay = self._turns.delay(now)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if delay is not None:
            self._timer = asyncio.get_running_loop().call_later(max(delay, _MIN_TURN_INTERVAL), self._admit_requests)

    def _decide(self, requests: Iterable[WaitingRequest], admitted: bool) -> None:
        for request in requests:
            admission = self._admissions.get(request)
            if admission is not None and not admission.done():
                admission.set_result(admitted)

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerDisconnected):
            self._decide(self._turns.remove_peer(event.peer), admitted=False)

    async def _handle_request(self, stream: Stream) -> tuple[ResultCode, bytes]:
        try:
            async with asyncio.timeout(payload_by_number.READ_SECONDS):
                number = payload_by_number.decode_request(await stream.read_exactly(payload_by_number.REQUEST_SIZE))
        except (StreamError, TimeoutError) as error:
            log.debug("invalid sync request", peer=short_peer_id(stream.peer), error=str(error) or "timeout")
            return ResultCode.UNKNOWN_ERROR, b""
        code = check_number(self._host.config.rollup, number, time.time())
        if number is None or code is not ResultCode.OK:
            return code, b""
        try:
            block = await self._read(number)
            if block is None:
                return ResultCode.NOT_FOUND, b""
            response = payload_by_number.encode_block(self._host.config.rollup, block)
        except (TimeoutError, SszError) as error:
            log.debug("cannot serve sync request", number=number, error=str(error) or "timeout reading the block")
            return ResultCode.UNKNOWN_ERROR, b""
        self._host.meter.set("p2p_payload_by_number", number, p2p_role="server")
        return ResultCode.OK, response

    async def _read(self, number: int) -> ExecutionPayload | None:
        """Return the canonical block of a number, if any. Raises TimeoutError without an answer, or for an error."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            result: PayloadResponse = await self._client.request(PayloadRequest, number)
        if result.error is not None:
            raise TimeoutError(result.error)
        return result.payload


class SyncClient:
    """Requests blocks from peers; `on_block` is called with those known to be of the chain."""

    def __init__(
        self,
        host: Host,
        planner: SyncPlanner,
        is_static: Callable[[PeerId], bool],
        on_block: Callable[[ExecutionPayload], None],
    ) -> None:
        self._host, self.planner = host, planner
        self._is_static, self._on_block = is_static, on_block
        self._protocols = payload_by_number.protocols(host.config.rollup.l2_chain_id)
        self.periodic_task = PeriodicTask("sync", self._step)
        host.subscribe(self._on_host_event)

    def request_range(self, head: int, gap_end: GapEnd) -> None:
        """Request the missing blocks above number `head` and below `gap_end`."""
        self._release(self.planner.request_range(head, gap_end, time.monotonic()))
        self.periodic_task.wake.set()

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerIdentified):
            if set(self._protocols) & set(event.identify.protocols):
                self.planner.add_peer(event.peer, self._is_static(event.peer))
                self.periodic_task.wake.set()
        elif isinstance(event, PeerDisconnected):
            self.planner.remove_peer(event.peer)
            self.periodic_task.wake.set()

    async def _step(self) -> float:
        now = time.monotonic()
        for request in self.planner.next_requests(now):
            self._host.spawn(self._request(request))
        delay = self.planner.delay(now)
        return _IDLE_INTERVAL if delay is None else max(delay, 0.01)

    async def _request(self, request: BlockRequest) -> None:
        started = time.monotonic()
        outcome = await self._exchange(request)
        now = time.monotonic()
        if outcome.error:
            log.debug(
                "sync request failed", number=request.number, peer=short_peer_id(request.peer), error=outcome.error
            )
        count(self._host, "client", min(outcome.code, FAILURE_CODE), now - started)
        if outcome.payload is not None:
            self._host.meter.set("p2p_payload_by_number", request.number, p2p_role="client")
        self._release(self.planner.handle_outcome(request, outcome, now))
        self._host.meter.set("p2p_payloads_quarantine_total", len(self.planner.quarantine))
        self.periodic_task.wake.set()

    async def _exchange(self, request: BlockRequest) -> RequestOutcome:
        """One request on a new stream."""
        try:
            async with asyncio.timeout(payload_by_number.OPEN_SECONDS):
                _, stream = await self._host.open_stream(request.peer, self._protocols)
            try:
                async with asyncio.timeout(payload_by_number.WRITE_SECONDS):
                    await stream.write(payload_by_number.encode_request(request.number))
                stream.close()
                async with asyncio.timeout(payload_by_number.READ_SECONDS):
                    data = await stream.read_all(payload_by_number.MAX_RESPONSE)
            except BaseException:
                stream.reset()
                raise
        except StreamError as error:
            return request_failed(str(error))
        except TimeoutError:
            return request_failed("timeout")
        return payload_by_number.decode_response(self._host.config.rollup, request.number, data)

    def _release(self, blocks: tuple[ExecutionPayload, ...]) -> None:
        for block in blocks:
            log.debug("received missing block from peer", number=block.block_number)
            self._on_block(block)


def count(host: Host, role: str, code: int, seconds: float) -> None:
    """Count one request, ours or a peer's."""
    result = str(int(code))
    host.meter.count("p2p_req_total", p2p_role=role, p2p_method=METHOD, result_code=result)
    host.meter.observe("p2p_req_duration_seconds", seconds, p2p_role=role, p2p_method=METHOD, result_code=result)
