"""The end of a server: its port, and the connections that it has accepted."""

import asyncio

_ITERATIONS = 3
"""Iterations of the loop after which asyncio has made each connection that it has accepted."""


async def stop_accepting(server: asyncio.Server) -> None:
    """Close the port of a server.

    Afterwards its protocols know all connections that it has accepted, so that closing those closes all. Without the
    wait before `close`, Python 3.11 forgets the socket of a connection accepted just before."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(_ITERATIONS):
        await asyncio.sleep(0)
    server.close()
