"""The metrics of all processes on any path (node-behaviour 3.1)."""

from pathlib import Path

from aiohttp import web

from rollup_node.stages.rpc.metrics_merge import merge

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """Merges the files that the processes write."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One scrape."""
        return web.Response(body=merge(self._texts()).encode(), headers={"Content-Type": CONTENT_TYPE})

    def _texts(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for path in sorted(self._directory.glob("*.prom")):
            try:
                texts[path.stem] = path.read_text()
            except (OSError, UnicodeDecodeError):
                continue
        return texts
