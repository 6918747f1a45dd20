"""The sequencers as the conductor sees them: their reports, and the admin calls by which it starts and stops them
[CND6]."""

import asyncio
from typing import Any

from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex, to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.conductor.health import UNREACHABLE_POLLS, SequencerReport

POLL_SECONDS = 1.0
ADMIN_SECONDS = 5.0
MAX_ANSWER = 1 << 20


class CallFailed(Exception):
    """A sequencer does not answer, has no heads, or refuses; the text says which."""


class SequencerClient:
    """One sequencer. `report` is its last answer, None when it did not answer the last polls."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.report: SequencerReport | None = None
        self._rpc = JsonRpcClient(url, timeout=POLL_SECONDS, max_body=MAX_ANSWER)
        self._failures = 0

    async def close(self) -> None:
        """Closes the connections."""
        await self._rpc.close()

    async def poll(self) -> SequencerReport | None:
        """Fetches a report; the one before is kept after a single failure."""
        try:
            self.report = await self._fetch()
            self._failures = 0
        except CallFailed:
            self._failures += 1
            if self._failures >= UNREACHABLE_POLLS:
                self.report = None
        return self.report

    async def start(self, head: Hash) -> None:
        """admin_startSequencer. Raises CallFailed."""
        await self._call("admin_startSequencer", to_hex(head), timeout=ADMIN_SECONDS)

    async def stop(self) -> str:
        """admin_stopSequencer; the hash of the head. Raises CallFailed."""
        return str(await self._call("admin_stopSequencer", timeout=ADMIN_SECONDS))

    async def post(self, payload: ExecutionPayload) -> None:
        """admin_postUnsafePayload. Raises CallFailed."""
        await self._call("admin_postUnsafePayload", envelope_to_json(payload), timeout=ADMIN_SECONDS)

    async def _fetch(self) -> SequencerReport:
        status, active, peers = await asyncio.gather(
            self._call("optimism_syncStatus"), self._call("admin_sequencerActive"), self._peers()
        )
        try:
            unsafe, safe = status["unsafe_l2"], status["safe_l2"]
            if not int(unsafe["hash"], 16):
                raise CallFailed("it has no heads yet")
            return SequencerReport(
                head_number=unsafe["number"],
                head_hash=hash_from_hex(unsafe["hash"]),
                head_time=unsafe["timestamp"],
                safe_time=safe["timestamp"],
                safe_number=safe["number"],
                safe_hash=hash_from_hex(safe["hash"]),
                peers=peers,
                active=active is True,
            )
        except (TypeError, KeyError, ValueError, HexError) as error:
            raise CallFailed(f"its sync status is malformed: {error!r}") from None

    async def _peers(self) -> int | None:
        try:
            return int((await self._call("opp2p_peerStats"))["connected"])
        except (CallFailed, TypeError, KeyError, ValueError):
            return None

    async def _call(self, method: str, *params: Any, timeout: float | None = None) -> Any:
        try:
            return await self._rpc.call(method, *params, timeout=timeout)
        except (EndpointError, RpcFailure) as error:
            raise CallFailed(str(error)) from None
