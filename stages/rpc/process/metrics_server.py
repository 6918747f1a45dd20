"""The metrics of all processes, on any path [MET1]."""

import time
from pathlib import Path

from aiohttp import web

from rollup_node.stages.io.metrics.meter import LABELLED_FAMILIES
from rollup_node.stages.rpc.metrics_merge import merge_expositions
from rollup_node.stages.rpc.process.listener import Exchange

KEPT_SECONDS = 1.0
"""How long a merged text answers further scrapes; the processes write theirs every 2 s."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """Merges the `<process>.prom` files of a directory, which the processes keep writing."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._merged = b""
        self._merged_at = -KEPT_SECONDS

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """One scrape."""
        if time.monotonic() - self._merged_at >= KEPT_SECONDS:
            self._merged = merge_expositions(self._texts(), LABELLED_FAMILIES).encode()
            self._merged_at = time.monotonic()
        return web.Response(body=self._merged, headers={"Content-Type": CONTENT_TYPE})

    def _texts(self) -> dict[str, str]:
        """Return the readable files' texts by process."""
        texts: dict[str, str] = {}
        for path in sorted(self._directory.glob("*.prom")):
            try:
                texts[path.stem] = path.read_text()
            except (OSError, UnicodeDecodeError):
                continue
        return texts


def process_names(directory: Path) -> tuple[str, ...]:
    """Return the processes that write metrics there, but for the supervisor, which serves nobody."""
    return tuple(sorted(path.stem for path in directory.glob("*.prom") if path.stem != "supervisor"))
