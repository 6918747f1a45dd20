"""The rpc stage as the runtime uses it."""

import contextlib
import random
import socket
from pathlib import Path

import pytest
from aiohttp import WSServerHandshakeError

from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.engine import Halting
from rollup_node.stages.protocol.errors import ResetError
from tests.support.rpc.harness import RunWithRpc


async def test_a_node_that_halts_serves_its_metrics_alone(running_rpc: RunWithRpc) -> None:
    """[PRV6]"""
    async with running_rpc(metrics_enabled=True) as rpc:
        await rpc.until_ready()
        ports = rpc.stage.rpc.port, rpc.stage.servers["metrics"].port
        rpc.status["engine"].set(Halting())
        await rpc.until(lambda: not is_open(ports[0]))
        assert is_open(ports[1])


@pytest.mark.option(
    "metrics.addr", "metrics.port", "pprof.addr", "pprof.port", "status.addr", "status.port", "interop.rpc.port"
)
async def test_servers_listen_where_the_options_say(running_rpc: RunWithRpc, tmp_path: Path) -> None:
    addresses = {
        "metrics_addr": "127.0.0.2",
        "pprof_addr": "127.0.0.3",
        "interop_addr": "127.0.0.4",
        "status_addr": "127.0.0.5",
    }
    ports = {name: free_port() for name in ("metrics_port", "pprof_port", "interop_port", "status_port")}
    enabled = dict.fromkeys(("metrics_enabled", "pprof_enabled", "status_enabled"), True)
    options: dict[str, object] = {**addresses, **ports, **enabled}
    async with running_rpc(interop_jwt=bytes(32), url_file=str(tmp_path / "rpc.url"), **options) as rpc:
        paths = ("", "debug/pprof/", "healthz", "status")
        for address, port, path in zip(addresses.values(), ports.values(), paths, strict=True):
            async with rpc.http.get(f"http://{address}:{port}/{path}") as response:
                assert response.status == 200 and not is_open(port), "on that address alone"
        assert (tmp_path / "rpc.url").read_text() == rpc.url


def free_port() -> int:
    """Return a port on which nobody listens, below those that the kernel gives to whoever asks for any."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))
            return port


def is_open(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.option("status.enabled", "pprof.enabled")
async def test_servers_that_are_enabled(running_rpc: RunWithRpc) -> None:
    """[RPC95]"""
    async with running_rpc() as rpc:
        assert list(rpc.stage.servers) == ["rpc"] and [task.name for task in rpc.stage.periodic_tasks] == ["progress"]
        rpc.stage.reset(ResetError("reorg"))
        rpc.stage.report((Problem(None, "l1", "away"),))
        assert await rpc.call("optimism_version") == "v1.2.3-dev", "resets and reports change nothing"
        with pytest.raises(WSServerHandshakeError):
            await rpc.http.ws_connect(rpc.url)
    async with running_rpc(status_enabled=True, pprof_enabled=True) as rpc:
        assert [task.name for task in rpc.stage.periodic_tasks] == ["progress", "status history"]
        assert len({server.port for server in rpc.stage.servers.values()} - {0}) == 3
        async with rpc.http.get(rpc.stage.servers["status"].local_url + "/status.json") as response:
            assert (await response.json())["chain"]["network"] == "test-net"
