"""Clients of a node: web3.py with the node's namespaces."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from web3 import AsyncHTTPProvider, AsyncWeb3, HTTPProvider, Web3
from web3.module import Module

from rollup_node.stages.protocol.jwt_token import authorization
from rollup_node.tools.client.async_modules import AsyncAdmin, AsyncOpp2p, AsyncOptimism
from rollup_node.tools.client.modules import Admin, Opp2p, Optimism

Modules = dict[str, type[Module] | Sequence[Any]]

MODULES: Modules = {"optimism": Optimism, "admin": Admin, "opp2p": Opp2p}
"""For `Web3(provider, external_modules=MODULES)`."""
ASYNC_MODULES: Modules = {"optimism": AsyncOptimism, "admin": AsyncAdmin, "opp2p": AsyncOpp2p}
"""For `AsyncWeb3(provider, external_modules=ASYNC_MODULES)`."""


class RollupClient:
    """A node's JSON-RPC.

    `timeout` is in seconds a request; `jwt_secret` is that of `rpc.jwt-secret`, with which each request has a new
    token."""

    def __init__(self, url: str, *, timeout: float = 10.0, jwt_secret: bytes | None = None) -> None:
        provider = _Provider(url, request_kwargs={"timeout": timeout}, exception_retry_configuration=None)
        provider.jwt_secret = jwt_secret
        self.w3 = Web3(provider)
        self.optimism, self.admin, self.opp2p = Optimism(self.w3), Admin(self.w3), Opp2p(self.w3)


class AsyncRollupClient:
    """The same with results to await, from one event loop. As a context it closes its connections."""

    def __init__(self, url: str, *, timeout: float = 10.0, jwt_secret: bytes | None = None) -> None:
        provider = _AsyncProvider(url, request_kwargs={"timeout": timeout}, exception_retry_configuration=None)
        provider.jwt_secret = jwt_secret
        self.w3 = AsyncWeb3(provider)
        self.optimism, self.admin = AsyncOptimism(self.w3), AsyncAdmin(self.w3)
        self.opp2p = AsyncOpp2p(self.w3)

    async def __aenter__(self) -> "AsyncRollupClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.w3.provider.disconnect()


class _Provider(HTTPProvider):
    jwt_secret: bytes | None = None

    def get_request_kwargs(self) -> Any:
        found = dict(super().get_request_kwargs())
        return {**found, "headers": {**found["headers"], **_token(self.jwt_secret)}}


class _AsyncProvider(AsyncHTTPProvider):
    jwt_secret: bytes | None = None

    def get_request_kwargs(self) -> Any:
        found = dict(super().get_request_kwargs())
        return {**found, "headers": {**found["headers"], **_token(self.jwt_secret)}}


def _token(secret: bytes | None) -> Mapping[str, str]:
    if secret is None:
        return {}
    return {"Authorization": authorization(secret, time.time())}
