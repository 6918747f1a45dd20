"""Shows crafted states on the real page: what the tests and the pictures look at.

python -m rollup_node.tools.status_page.server syncing      # on a free port of the loopback interface
"""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.rpc.process.listener import Listener
from rollup_node.stages.rpc.process.stage import STATUS_LIMITS
from rollup_node.stages.rpc.process.status_server import ChainsPage, StatusServer
from rollup_node.stages.rpc.process.supernode import route
from rollup_node.stages.rpc.status.node_status import NodeStatus
from rollup_node.tools.status_page.scenes import SCENES, Scene, scene

ADDRESS = "127.0.0.1"


class SceneSource:
    """The status of a scene, which may be replaced by another one."""

    def __init__(self, shown: Scene) -> None:
        self.scene = shown

    def status(self) -> NodeStatus:
        """Return the status of the scene."""
        return self.scene.status

    def json(self) -> bytes:
        """Return the same as JSON."""
        return msgspec.json.encode(self.scene.status)


class SceneServer:
    """The page of a scene at `url`, and at `chains_url` that of a supernode whose chains are in all scenes."""

    def __init__(self, shown: Scene, port: int = 0) -> None:
        self._source = SceneSource(shown)
        self.server = StatusServer(self._source, ())
        self.server.history = shown.history
        self.chains = {str(number): SceneSource(item) for number, item in enumerate(map(scene, SCENES), 1)}
        chains = ChainsPage(self.chains, lambda: b"{}", ())
        handle = route(chains.handle, {"node": self.server.handle})
        self._listener = Listener(handle, "status", ADDRESS, port, STATUS_LIMITS, Meter("rpc"))

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{self.chains_url}/node/status"

    @property
    def chains_url(self) -> str:
        """The address of the page of all chains."""
        return f"http://{ADDRESS}:{self._listener.port}"

    def show(self, shown: Scene) -> None:
        """Replace the scene; viewers get its status with their next event, and its history when they connect."""
        self._source.scene = shown
        self.server.history = shown.history

    @asynccontextmanager
    async def running(self) -> AsyncIterator["SceneServer"]:
        """Serve until the end of the block."""
        await self._listener.start()
        try:
            yield self
        finally:
            await self.server.close()
            await self._listener.close()


async def _serve(name: str, port: int) -> None:
    async with SceneServer(scene(name), port).running() as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


def main(arguments: list[str] | None = None) -> int:
    """Return the command: serves until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Shows a crafted state on the status page.", allow_abbrev=False)
    parser.add_argument("scene", choices=sorted(SCENES))
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args(arguments)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.scene, options.port))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
