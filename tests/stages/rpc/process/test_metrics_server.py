"""Metrics of all processes on any path [MET1]."""

from pathlib import Path

import pytest

from rollup_node.stages.rpc.process import metrics_server
from tests.support.rpc.harness import RpcHarness, RunWithRpc


@pytest.mark.option("metrics.enabled")
def test_metrics_on_any_path(with_rpc: RunWithRpc, tmp_path: Path) -> None:
    name = "op_node_default_activity_problems"
    (tmp_path / "engine.prom").write_text(f"# HELP {name} A\n# TYPE {name} gauge\n{name} 3\na_total 2\n")
    (tmp_path / "l1.prom").write_text(f"{name} 1\n")
    (tmp_path / "broken.prom").write_bytes(b"\xff\xfe")

    async def scenario(rpc: RpcHarness) -> None:
        assert rpc.stage.metrics is not None
        for path in ("/", "/metrics", "/x/y"):
            async with rpc.http.get(f"http://127.0.0.1:{rpc.stage.metrics.port}{path}") as response:
                assert response.status == 200
                assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                text = await response.text()
        assert f'{name}{{process="engine"}} 3' in text and f'{name}{{process="l1"}} 1' in text
        assert "\na_total 2\n" in text

    with_rpc(scenario, metrics_enabled=True)


def test_scrapes_within_a_second_share_one_merge(
    with_rpc: RunWithRpc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        assert rpc.stage.metrics is not None
        url = f"http://127.0.0.1:{rpc.stage.metrics.port}/"

        async def scrape() -> str:
            async with rpc.http.get(url) as response:
                return await response.text()

        (tmp_path / "l1.prom").write_text("op_node_default_activity_problems 1\n")
        first = await scrape()
        (tmp_path / "l1.prom").write_text("op_node_default_activity_problems 2\n")
        assert await scrape() == first
        monkeypatch.setattr(metrics_server, "KEPT_SECONDS", 0.0)
        assert 'op_node_default_activity_problems{process="l1"} 2' in await scrape()

    with_rpc(scenario, metrics_enabled=True)
