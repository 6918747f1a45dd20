"""The benchmark of HTTP clients measures calls that are answered."""

import asyncio

from rollup_node.tools.bench.http_client import Server, bare_socket, clients
from tests.support.processes.stage_runner import run_within


def test_each_client_gets_its_answers() -> None:
    async def main() -> None:
        listener = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        measured = await clients(f"http://127.0.0.1:{port}/", 2, 1)
        assert [len(runs) for runs in measured] == [1, 1]
        assert all(micro > 0 for runs in measured for micro in runs)
        assert await asyncio.to_thread(bare_socket, port, 2) > 0
        listener.close()
        # The next round of the loop sees that the clients have gone.
        await asyncio.sleep(0)

    run_within(30, main)
