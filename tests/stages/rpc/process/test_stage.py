"""The rpc stage as the runtime uses it."""

import contextlib
import random
import socket
from pathlib import Path

import pytest
from aiohttp import ClientSession

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.engine import Halting
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from rollup_node.stages.rpc.process.stage import RpcStage
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.support.rpc.harness import ROLLUP, RunWithRpc


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
async def test_servers_listen_where_the_options_say(tmp_path: Path) -> None:
    buses = in_process_buses(CHANNELS, tmp_path, dict.fromkeys(("l1", "blobs", "derivation", "engine", "rpc"), 1))
    metrics_port, pprof_port, interop_port, status_port = (free_port() for _ in range(4))
    config = RpcConfig(
        *("v", ROLLUP, "127.0.0.1"),
        metrics_enabled=True,
        metrics_addr="127.0.0.2",
        metrics_port=metrics_port,
        metrics_dir=str(tmp_path),
        pprof_enabled=True,
        pprof_addr="127.0.0.3",
        pprof_port=pprof_port,
        interop_addr="127.0.0.4",
        interop_port=interop_port,
        status_enabled=True,
        status_addr="127.0.0.5",
        status_port=status_port,
        interop_jwt=b"\x33" * 32,
        url_file=str(tmp_path / "rpc.url"),
    )
    async with running_buses(buses), ClientSession() as http:
        stage = RpcStage(RpcProcessConfig({"": config}), buses["rpc"], Meter("rpc"))
        await stage.start()
        for host, port, path in (
            (2, metrics_port, ""),
            (3, pprof_port, "debug/pprof/"),
            (4, interop_port, "healthz"),
            (5, status_port, "status"),
        ):
            async with http.get(f"http://127.0.0.{host}:{port}/{path}") as response:
                assert response.status == 200 and not is_open(port), "on that address alone"
        assert (tmp_path / "rpc.url").read_text() == f"http://127.0.0.1:{stage.rpc.port}"
        await stage.close()


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
    async with running_rpc(status_enabled=True, pprof_enabled=True) as rpc:
        assert [task.name for task in rpc.stage.periodic_tasks] == ["progress", "status history"]
        assert len({server.port for server in rpc.stage.servers.values()} - {0}) == 3
        async with rpc.http.get(rpc.stage.servers["status"].local_url + "/status.json") as response:
            assert (await response.json())["chain"]["network"] == "test-net"
