"""The server of crafted states."""

import msgspec
from aiohttp import ClientSession

from rollup_node.stages.rpc.status.node_status import NodeStatus, State
from rollup_node.tools.status_page.scenes import scene
from rollup_node.tools.status_page.server import SceneServer


async def test_the_real_page_with_the_status_of_a_scene() -> None:
    async with SceneServer(scene("in-step")).running() as server, ClientSession() as http:
        async with http.get(server.url) as response:
            assert "<h1 id=" in await response.text()
        states = []
        for name in ("in-step", "syncing"):
            server.show(scene(name))
            async with http.get(server.url + ".json") as response:
                states.append(msgspec.json.decode(await response.read(), type=NodeStatus).state)
        assert states == [State.SYNCED, State.SYNCING]
