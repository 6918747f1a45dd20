"""Beacon API endpoints: the primary, fallbacks for what it does not have, and which of their routes work."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import aiohttp
from yarl import URL

from rollup_node.stages.blobs import beacon_api as answers
from rollup_node.stages.blobs.beacon_api import AnswerError, Candidate
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.slots import SlotClock
from rollup_node.stages.io.jsonrpc import EndpointError, endpoint_name, why_not_connected
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlobRef

T = TypeVar("T")

MAX_BODY = 96 << 20
HEDGE_SECONDS = 5.0
"""An endpoint that takes longer gets company by the next one."""
ROUTE_SECONDS = 600.0
"""How long a route that an endpoint does not have is left alone."""
_ROUTE_MISSING = (400, 404, 405, 410, 501)


class BlobsNotFoundError(Exception):
    """Every endpoint that was asked says that it does not have the blobs."""


class Offer(NamedTuple):
    """Blobs an endpoint offers, not checked yet, and whether they came as sidecars."""

    endpoint: "BeaconEndpoint"
    candidates: tuple[Candidate, ...]
    are_sidecars: bool


class BeaconEndpoint:
    """One Beacon API. Methods raise EndpointError, AnswerError, and BlobsNotFoundError where it answers so."""

    def __init__(self, url: str, config: BlobsConfig, headers: dict[str, str], meter: Meter) -> None:
        self.name = endpoint_name(url)
        self._base, self._headers, self._timeout = URL(url), headers, config.timeout
        self._fetch_all = config.fetch_all_sidecars
        self._meter = meter
        self._sidecars_until = 0.0
        self._no_commitments_until = 0.0
        self._session: aiohttp.ClientSession | None = None

    async def genesis_time(self) -> int:
        """The beacon chain's genesis in Unix seconds."""
        return answers.genesis_time(await self._get_found("genesis", "eth/v1/beacon/genesis"))

    async def slot_milliseconds(self) -> int:
        """The slot duration."""
        return answers.slot_milliseconds(await self._get_found("spec", "eth/v1/config/spec"))

    async def blobs(self, slot: int, wanted: Sequence[BlobRef], ahead: bool) -> Offer:
        """What the endpoint offers for the wanted blobs of a slot, by the route that works. `ahead`: nobody waits yet,
        and the blobs may be checked together with those of other blocks."""
        if not self._fetch_all and time.monotonic() >= self._sidecars_until:
            offered = await self._by_hashes(slot, wanted, ahead)
            if offered:
                return Offer(self, offered, False)
        self._sidecars_until = 0.0
        sidecars = await self._sidecars(slot, wanted)
        self._sidecars_until = time.monotonic() + ROUTE_SECONDS
        return Offer(self, sidecars, True)

    def failed(self, offer: Offer) -> None:
        """What it offered was not good: has the other route tried next."""
        self._sidecars_until = 0.0 if offer.are_sidecars else time.monotonic() + ROUTE_SECONDS

    async def close(self) -> None:
        """Closes the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _by_hashes(self, slot: int, wanted: Sequence[BlobRef], ahead: bool) -> tuple[Candidate, ...]:
        """By the blobs route; nothing where the endpoint does not have the route or the blobs. Commitments make the
        check of several blobs cheaper, not that of one."""
        query = [("versioned_hashes", to_hex(ref.hash)) for ref in wanted]
        status, body = await self._get("blobs", f"eth/v1/beacon/blobs/{slot}", query)
        if status in _ROUTE_MISSING:
            return ()
        offered = answers.blobs(self._found(status, body))
        commitments = await self._commitments(slot) if len(offered) > 1 or (offered and ahead) else None
        return answers.with_commitments(offered, wanted, commitments)

    async def _sidecars(self, slot: int, wanted: Sequence[BlobRef]) -> tuple[Candidate, ...]:
        query = [] if self._fetch_all else [("indices", str(ref.index)) for ref in wanted]
        status, body = await self._get("blob_sidecars", f"eth/v1/beacon/blob_sidecars/{slot}", query)
        if status == 404:
            raise BlobsNotFoundError(f"{self.name}: has no blobs of slot {slot}")
        found = answers.sidecars(self._found(status, body), {ref.hash for ref in wanted})
        if not found:
            raise BlobsNotFoundError(f"{self.name}: has none of the {len(wanted)} blobs wanted of slot {slot}")
        return found

    async def _commitments(self, slot: int) -> tuple[bytes, ...] | None:
        """Those that the beacon block lists; None where they cannot be had."""
        if time.monotonic() < self._no_commitments_until:
            return None
        try:
            for route in ("eth/v1/beacon/blinded_blocks", "eth/v2/beacon/blocks"):
                status, body = await self._get("block", f"{route}/{slot}")
                if status == 200:
                    return answers.block_commitments(body)
        except (EndpointError, AnswerError):
            pass
        self._no_commitments_until = time.monotonic() + ROUTE_SECONDS
        return None

    async def _get_found(self, label: str, path: str) -> bytes:
        return self._found(*await self._get(label, path))

    def _found(self, status: int, body: bytes) -> bytes:
        if status != 200:
            raise EndpointError(self.name, f"HTTP status {status}", status)
        return body

    async def _get(self, label: str, path: str, query: Sequence[tuple[str, str]] = ()) -> tuple[int, bytes]:
        """Status and body of one request."""
        self._meter.count("rpc_client_requests_total", rpc="beacon", method=label)
        begun, error = time.monotonic(), "endpoint"
        try:
            async with asyncio.timeout(self._timeout):
                status, body = await self._exchange(path, query)
            error = "" if status == 200 else f"http_{status}"
            return status, body
        except TimeoutError:
            raise EndpointError(self.name, f"no answer within {self._timeout:g} s") from None
        except aiohttp.ClientConnectorError as failure:
            raise EndpointError(self.name, f"cannot connect ({why_not_connected(failure.os_error)})") from None
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            raise EndpointError(self.name, f"the connection failed ({type(failure).__name__})") from None
        finally:
            taken = time.monotonic() - begun
            self._meter.observe("rpc_client_request_duration_seconds", taken, rpc="beacon", method=label)
            self._meter.count("rpc_client_responses_total", rpc="beacon", method=label, error=error)

    async def _exchange(self, path: str, query: Sequence[tuple[str, str]]) -> tuple[int, bytes]:
        url = self._base.with_path(f"{self._base.path.rstrip('/')}/{path}")
        url = url.with_query([*self._base.query.items(), *query])
        async with self._open().get(url, allow_redirects=False) as response:
            parts, size = [], 0
            async for part in response.content.iter_any():
                size += len(part)
                if size > MAX_BODY:
                    response.close()
                    raise EndpointError(self.name, f"the answer is longer than {MAX_BODY} bytes")
                parts.append(part)
            return response.status, b"".join(parts)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"Accept": "application/json", "Accept-Encoding": "gzip", **self._headers},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


class BeaconEndpoints:
    """Primary and fallbacks; the one that answered last is asked first (node-behaviour 10.5)."""

    def __init__(self, config: BlobsConfig, meter: Meter) -> None:
        urls = [*([config.beacon] if config.beacon else []), *config.fallbacks]
        primary_headers = dict([config.header]) if config.header else {}
        self.all = tuple(
            BeaconEndpoint(url, config, primary_headers if url is config.beacon else {}, meter) for url in urls
        )
        self._slot_seconds = config.slot_seconds
        self._current = 0
        self._clock: SlotClock | None = None

    async def slot_at(self, timestamp: int) -> int:
        """The slot of a time in seconds; genesis and slot duration are asked for once."""
        if self._clock is None:
            genesis, _ = await self._first_of(lambda endpoint: endpoint.genesis_time())
            if self._slot_seconds:
                duration = 1000 * self._slot_seconds
            else:
                duration, _ = await self._first_of(lambda endpoint: endpoint.slot_milliseconds())
            self._clock = SlotClock(genesis, duration)
        return self._clock.slot_at(timestamp)

    async def fetch(self, slot: int, wanted: Sequence[BlobRef], ahead: bool = False) -> Offer:
        """An offer from the first endpoint that has one."""
        offer, place = await self._first_of(lambda endpoint: endpoint.blobs(slot, wanted, ahead))
        self._current = place
        return offer

    def failed(self, offer: Offer) -> None:
        """An offer was not good: the next endpoint is asked first from now on."""
        offer.endpoint.failed(offer)
        if self.all[self._current] is offer.endpoint:
            self._current = (self._current + 1) % len(self.all)

    async def close(self) -> None:
        """Closes all connections."""
        for endpoint in self.all:
            await endpoint.close()

    async def _first_of(self, ask: Callable[[BeaconEndpoint], Awaitable[T]]) -> tuple[T, int]:
        """The first good answer and whose it is. The next endpoint is asked when one has failed or is slow; when all
        have failed, BlobsNotFoundError if all said so and EndpointError otherwise."""
        waiting = [(self._current + step) % len(self.all) for step in range(len(self.all))]
        running: dict[asyncio.Future[T], int] = {}
        errors: list[Exception] = []
        try:
            while waiting or running:
                if waiting:
                    place = waiting.pop(0)
                    running[asyncio.ensure_future(ask(self.all[place]))] = place
                patience = HEDGE_SECONDS if waiting else None
                done, _ = await asyncio.wait(running, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for future in done:
                    place = running.pop(future)
                    error = future.exception()
                    if error is None:
                        return future.result(), place
                    if not isinstance(error, EndpointError | AnswerError | BlobsNotFoundError):
                        raise error
                    errors.append(_named(self.all[place], error))
        finally:
            for future in running:
                future.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        text = "; ".join(map(str, errors))
        if all(isinstance(error, BlobsNotFoundError) for error in errors):
            raise BlobsNotFoundError(text)
        raise EndpointError("Beacon API", text)


def _named(endpoint: BeaconEndpoint, error: Exception) -> Exception:
    return EndpointError(endpoint.name, str(error)) if isinstance(error, AnswerError) else error
