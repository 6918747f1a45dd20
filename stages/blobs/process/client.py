"""Beacon API endpoints: the primary and its fallbacks, and which routes each of them supports."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

import msgspec

from rollup_node.stages.blobs import beacon_api
from rollup_node.stages.blobs.beacon_api import BeaconResponseError, Failed, OfferedBlob, SourceFailure
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process.beacon_clock import BeaconClock
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.connection import is_success
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, endpoint_name
from rollup_node.stages.io.http.endpoint_record import EndpointMeter, EndpointRecord, RpcMeter
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.messages.base import EndpointCounts
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.types import BlobRef

T = TypeVar("T")

RPC = "beacon"
SMALL_BODY = 1 << 20
"""Bytes of genesis or spec."""
ORDINARY_BODY = 8 << 20
"""Bytes that nearly every response keeps to: 30 blobs. Longer ones are fetched again one after the other, so that no
more than one of them is in memory."""
MAX_BODY = 36 << 20
"""Bytes of MAX_BLOBS blobs with their sidecars."""
HEDGE_SECONDS = 5.0
"""Seconds without a response after which the next endpoint is requested as well."""
ROUTE_SECONDS = 600.0
"""How long a route that an endpoint does not support is not tried again."""
MAX_WORDS = 300
"""Characters of an error response that are shown."""
_TOO_MANY = 429
THROTTLED = "throttled"
_FAULTS = {
    Failed.HAS_NONE: "has_none",
    Failed.OTHER_BLOBS: "wrong_data",
    Failed.WRONG_BLOBS: "wrong_data",
    Failed.OTHER_CHAIN: "other_chain",
    Failed.MALFORMED: "wrong_data",
    Failed.NO_ANSWER: "unreachable",
}
FAULTS = tuple(dict.fromkeys((THROTTLED, *_FAULTS.values())))
"""What the metrics say of a source that fails."""
JSON, SSZ = "application/json", "application/octet-stream"
_PREFERS_SSZ = f"{SSZ};q=1.0,{JSON};q=0.9"
_UNSUPPORTED_ROUTE = (400, 404, 405, 410, 501)
_UNSUPPORTED_MEDIA = (406, 415)
_NO_ROUTE = (404, 405, 501)
"""Statuses of a route that a server does not have, unless the response is an error of the Beacon API."""
BLOCK_ROUTES = ("eth/v1/beacon/blinded_blocks", "eth/v2/beacon/blocks")
"""The shorter answer first; blocks of Gloas have no payload, and no blinded form [BCN19]."""


class BlobsNotFoundError(Exception):
    """An endpoint answers that it does not have the blobs."""


class SourcesFailedError(Exception):
    """No source has returned the blobs; they are `not_found` if every one answers that it does not have them."""

    def __init__(self, *failures: SourceFailure, source: str = "", not_found: bool = False) -> None:
        super().__init__(source + "; ".join(failure.text for failure in failures))
        self.failures, self.not_found = failures, not_found


class _Response(NamedTuple):
    status: int
    body: bytes
    media: str = JSON


class _Words(msgspec.Struct):
    message: str = ""


class _NoRouteError(EndpointError):
    """The server does not have the route at all."""


class _SszError(BeaconResponseError):
    """A response in SSZ is not what the route returns."""


class BlobOffer(NamedTuple):
    """The unverified blobs that an endpoint returned, and by which route."""

    endpoint: "BeaconEndpoint"
    blobs: tuple[OfferedBlob, ...]
    are_sidecars: bool


def _is_limitation(error: Exception) -> bool:
    """Return whether an endpoint answers that it does not serve a route, or the answer is longer than asked for."""
    is_unsupported = getattr(error, "status", None) in _UNSUPPORTED_ROUTE + _UNSUPPORTED_MEDIA
    return isinstance(error, AnswerTooLargeError) or is_unsupported


class BeaconEndpoint:
    """One Beacon API. Methods raise EndpointError without an answer, BeaconResponseError for a wrong one."""

    def __init__(
        self, url: str, config: BlobsConfig, headers: dict[str, str], meter: Meter, large: asyncio.Lock
    ) -> None:
        self.name = endpoint_name(url)
        self.record = EndpointRecord(RPC, self.name, meter=meter)
        self._timeout = config.timeout
        self._http = HttpClient(url, self.name, lambda: headers)
        self._fetch_all = config.fetch_all_sidecars
        self._meter, self._large = RpcMeter(meter, RPC), large
        self._sidecars_until = 0.0
        self._no_block_until = dict.fromkeys(BLOCK_ROUTES, 0.0)
        self._no_ssz_until = self._no_blobs_route_until = 0.0

    async def genesis_time(self) -> int:
        """Return the beacon chain's genesis time in Unix seconds [BCN2]."""
        response = await self._get("genesis", "eth/v1/beacon/genesis", (), SMALL_BODY)
        return beacon_api.parse_genesis_time(response.body)

    async def slot_milliseconds(self) -> int:
        """Return the slot duration [BCN3]."""
        response = await self._get("spec", "eth/v1/config/spec", (), SMALL_BODY)
        return beacon_api.parse_slot_milliseconds(response.body)

    async def blobs(self, slot: int, wanted: Sequence[BlobRef], prefetch: bool) -> BlobOffer:
        """Return what the endpoint offers for the wanted blobs of a slot. Raises BlobsNotFoundError.

        By the blobs route, or by the sidecars route for ROUTE_SECONDS after that one failed, answered in another
        shape, or was missing [BCN5]. Blobs of a `prefetch` may be verified together with those of other blocks."""
        refused = failed = malformed = ""
        if not self._fetch_all and time.monotonic() >= max(self._sidecars_until, self._no_blobs_route_until):
            try:
                blobs = await self._blobs_by_hash(slot, wanted, prefetch)
            except EndpointError as error:
                if error.status in (None, _TOO_MANY):
                    raise
                if error.status not in _UNSUPPORTED_ROUTE:
                    failed = self._own_words(error)
                if isinstance(error, _NoRouteError):
                    self._no_blobs_route_until = time.monotonic() + ROUTE_SECONDS
                refused = self._own_words(error)
            except BeaconResponseError as error:
                malformed = str(error)
            else:
                if blobs:
                    return BlobOffer(self, blobs, False)
        self._sidecars_until = 0.0
        try:
            sidecars = await self._sidecars(slot, wanted, refused)
        except (EndpointError, BlobsNotFoundError) as error:
            both = f"{failed or malformed}; blob_sidecars: {self._own_words(error)}"
            if malformed:
                raise BeaconResponseError(both) from None
            if failed:
                status = error.status if isinstance(error, EndpointError) else None
                raise EndpointError(self.name, both, status) from None
            raise
        self._sidecars_until = time.monotonic() + ROUTE_SECONDS
        return BlobOffer(self, sidecars, True)

    def failed(self, offer: BlobOffer) -> None:
        """Record that an offer lacked wanted blobs: the other route is tried next."""
        self._sidecars_until = 0.0 if offer.are_sidecars else time.monotonic() + ROUTE_SECONDS

    async def close(self) -> None:
        await self._http.close()

    async def _blobs_by_hash(self, slot: int, wanted: Sequence[BlobRef], prefetch: bool) -> tuple[OfferedBlob, ...]:
        """By the blobs route [BCN4, BCN10]; empty if the endpoint does not have the blobs.

        Commitments of the block make it cheaper to verify several blobs, not to verify one."""
        query = [("versioned_hashes", to_hex(ref.hash)) for ref in wanted]
        path = f"eth/v1/beacon/blobs/{slot}"
        blobs = await self._fetch("blobs", path, query, beacon_api.parse_blobs, beacon_api.parse_ssz_blobs)
        commitments = await self._commitments(slot) if len(blobs) > 1 or (blobs and prefetch) else None
        return beacon_api.pair_with_commitments(blobs, wanted, commitments)

    async def _sidecars(self, slot: int, wanted: Sequence[BlobRef], refused: str) -> tuple[OfferedBlob, ...]:
        """By the sidecars route [BCN5, BCN11]; `refused` is what the other route answered."""
        query = [] if self._fetch_all else [("indices", str(ref.index)) for ref in wanted]
        hashes = {ref.hash for ref in wanted}
        try:
            sidecars = await self._fetch(
                "blob_sidecars",
                f"eth/v1/beacon/blob_sidecars/{slot}",
                query,
                lambda body: beacon_api.parse_sidecars(body, hashes),
                lambda body: beacon_api.parse_ssz_sidecars(body, hashes),
            )
        except EndpointError as error:
            if isinstance(error, _NoRouteError):
                # A server without any route is not the beacon node, but a proxy whose backend is away.
                self._no_blobs_route_until = 0.0
            if error.status != 404:
                raise
            words = self._own_words(error)
            other = f"; blobs: {refused}" if refused not in ("", words) else ""
            raise BlobsNotFoundError(f"{self.name}: has no blobs of slot {slot}: {words}{other}") from None
        if not sidecars:
            other = f"; blobs: {refused}" if refused else ""
            raise BlobsNotFoundError(f"{self.name}: has none of the {len(wanted)} blobs wanted of slot {slot}{other}")
        return sidecars

    async def _commitments(self, slot: int) -> tuple[bytes, ...] | None:
        """Return the commitments that the beacon block lists; None if the endpoint does not return the block.

        A route that fails otherwise than for want of the block is not tried again for ROUTE_SECONDS [BCN19]."""
        for route, until in self._no_block_until.items():
            if time.monotonic() < until:
                continue
            try:
                return await self._fetch("block", f"{route}/{slot}", (), beacon_api.parse_block_commitments)
            except (BeaconResponseError, EndpointError) as error:
                status = error.status if isinstance(error, EndpointError) else 200
                if status != 404 or isinstance(error, _NoRouteError):
                    self._no_block_until[route] = time.monotonic() + ROUTE_SECONDS
                if status is None:
                    break
        return None

    async def _fetch(
        self,
        label: str,
        path: str,
        query: Sequence[tuple[str, str]],
        parse: Callable[[bytes], T],
        parse_ssz: Callable[[bytes], T] | None = None,
    ) -> T:
        """Return what `parse` makes of a success, or `parse_ssz` of one in SSZ [BCN18].

        SSZ is asked for where `parse_ssz` is given. Raises EndpointError with the status otherwise."""
        if parse_ssz is not None and time.monotonic() >= self._no_ssz_until:
            try:
                return await self._fetch_as(_PREFERS_SSZ, label, path, query, {JSON: parse, SSZ: parse_ssz})
            except EndpointError as error:
                if error.status not in _UNSUPPORTED_MEDIA:
                    raise
            except _SszError:
                pass
            self._no_ssz_until = time.monotonic() + ROUTE_SECONDS
        return await self._fetch_as(JSON, label, path, query, {JSON: parse})

    async def _fetch_as(
        self,
        accept: str,
        label: str,
        path: str,
        query: Sequence[tuple[str, str]],
        parsers: Mapping[str, Callable[[bytes], T]],
    ) -> T:
        try:
            return self._parsed(parsers, await self._get(label, path, query, ORDINARY_BODY, accept))
        except AnswerTooLargeError:
            pass
        async with self._large:
            return self._parsed(parsers, await self._get(label, path, query, MAX_BODY, accept))

    def _parsed(self, parsers: Mapping[str, Callable[[bytes], T]], response: _Response) -> T:
        """Return the parsed response. Raises a new error: the frames of the first would keep the body."""
        media = response.media if response.media in parsers else JSON
        try:
            return parsers[media](response.body)
        except BeaconResponseError as error:
            text = str(error)
        del response
        raise _SszError(text) if media == SSZ else BeaconResponseError(text)

    def _own_words(self, error: Exception) -> str:
        return str(error).removeprefix(f"{self.name}: ")

    def _refusal(self, response: _Response) -> EndpointError:
        text = f"HTTP status {response.status}{_words(response.body)}"
        is_route = response.status not in _NO_ROUTE or _message(response.body)
        return (EndpointError if is_route else _NoRouteError)(self.name, text, response.status)

    async def _get(
        self, label: str, path: str, query: Sequence[tuple[str, str]], max_body: int, accept: str = JSON
    ) -> _Response:
        """Return and record a response, with metrics of `label`. Raises EndpointError also for a refusal."""
        with self._meter.timed(label), self.record.timed(is_answer=_is_limitation):
            response = await self._exchange(path, query, max_body, accept)
            self._meter.exchanged(label, sum(map(len, chain(*query))) + len(path), len(response.body))
            if not is_success(response.status):
                raise self._refusal(response)
            return response

    async def _exchange(self, path: str, query: Sequence[tuple[str, str]], max_body: int, accept: str) -> _Response:
        # Blobs are compressed data: gzip makes them no shorter.
        headers = {"Accept": accept, "Accept-Encoding": "gzip" if accept == JSON else "identity"}
        status, answered, body = await self._http.get(self._http.below(path, query), headers, self._timeout, max_body)
        media = answered.get("content-type", JSON).partition(";")[0].strip().lower()
        return _Response(status, body, media)


class BeaconEndpoints:
    """Primary and fallbacks in a ring; the one that answered last is used first [BCN12]."""

    def __init__(self, config: BlobsConfig, meter: Meter) -> None:
        urls = [*([config.beacon] if config.beacon else []), *config.fallbacks]
        primary_headers = dict([config.header]) if config.header else {}
        large = asyncio.Lock()
        self.all = tuple(
            BeaconEndpoint(url, config, primary_headers if url is config.beacon else {}, meter, large) for url in urls
        )
        self.clock = BeaconClock(self.all, config.slot_seconds)
        self._current = 0
        self._meter = EndpointMeter(meter, RPC, [endpoint.name for endpoint in self.all], FAULTS)

    async def fetch(self, slot: int, wanted: Sequence[BlobRef], prefetch: bool = False) -> BlobOffer:
        """Return the first offer; the next endpoint is asked after a failure or HEDGE_SECONDS.

        Raises SourcesFailedError if all fail."""
        untried = [(self._current + step) % len(self.all) for step in range(len(self.all))]
        running: dict[asyncio.Future[BlobOffer], int] = {}
        failures: list[SourceFailure] = []
        try:
            while untried or running:
                if untried:
                    index = untried.pop(0)
                    running[asyncio.ensure_future(self.all[index].blobs(slot, wanted, prefetch))] = index
                timeout = HEDGE_SECONDS if untried else None
                done, _ = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for future in done:
                    index = running.pop(future)
                    error = future.exception()
                    if error is None:
                        self._use(index)
                        return future.result()
                    if not isinstance(error, EndpointError | BeaconResponseError | BlobsNotFoundError):
                        raise error
                    failures.append(_failure(self.all[index], error))
                    is_overloaded = isinstance(error, EndpointError) and error.status == _TOO_MANY
                    fault = THROTTLED if is_overloaded else _FAULTS[failures[-1].failed]
                    self._meter.failed(self.all[index].name, fault)
        finally:
            await cancel_all(running)
        not_found = all(failure.failed is Failed.HAS_NONE for failure in failures)
        raise SourcesFailedError(*failures, source="" if not_found else "Beacon API: ", not_found=not_found)

    def failed(self, offer: BlobOffer, failed: Failed) -> None:
        """Record that an offer lacked wanted blobs: the next endpoint is used first from now on."""
        offer.endpoint.failed(offer)
        self._meter.failed(offer.endpoint.name, _FAULTS[failed])
        if self.all[self._current] is offer.endpoint:
            self._use((self._current + 1) % len(self.all))

    def _use(self, index: int) -> None:
        self._current = index
        self._meter.use(self.all[index].name)

    def counts(self) -> list[EndpointCounts]:
        """How each of them answers."""
        return [endpoint.record.counts(index == self._current) for index, endpoint in enumerate(self.all)]

    async def close(self) -> None:
        for endpoint in self.all:
            await endpoint.close()


def _message(body: bytes) -> str:
    """Return the `message` of an error of the Beacon API; empty for any other response."""
    try:
        return msgspec.json.decode(body[:SMALL_BODY], type=_Words).message
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


def _words(body: bytes) -> str:
    """Return what an error response says: its `message`, or the beginning of its text."""
    text = body[:MAX_WORDS].decode(errors="replace").strip()
    message = _message(body) or ("" if text[:1] in ("{", "<") else text)
    return f" ({one_line(message)[:MAX_WORDS]})" if message else ""


def _failure(endpoint: BeaconEndpoint, error: Exception) -> SourceFailure:
    if isinstance(error, BlobsNotFoundError):
        return SourceFailure(Failed.HAS_NONE, str(error))
    if isinstance(error, BeaconResponseError):
        return SourceFailure(Failed.MALFORMED, f"{endpoint.name}: {one_line(str(error))}")
    return SourceFailure(Failed.NO_ANSWER, str(error))
