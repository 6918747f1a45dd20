"""The metrics of all processes, on any path [MET1]."""

from pathlib import Path

from aiohttp import web

from rollup_node.stages.rpc.metrics_merge import merge_expositions

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """Merges the `<process>.prom` files of a directory, which the processes keep writing."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One scrape."""
        return web.Response(body=merge_expositions(self._texts()).encode(), headers={"Content-Type": CONTENT_TYPE})

    def _texts(self) -> dict[str, str]:
        """The readable files' texts by process."""
        texts: dict[str, str] = {}
        for path in sorted(self._directory.glob("*.prom")):
            try:
                texts[path.stem] = path.read_text()
            except (OSError, UnicodeDecodeError):
                continue
        return texts
