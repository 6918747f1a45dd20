"""What asyncio and the C library leave undone: connections of a closing server, memory of freed blocks."""

import asyncio
import ctypes

_ITERATIONS = 3
"""Iterations of the loop after which asyncio has made each connection that it has accepted."""
LARGE_BYTES = 1 << 20
_M_MMAP_THRESHOLD = -3


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


def map_large_blocks() -> bool:
    """Have the C library map each block of a megabyte or more by itself; return whether it can.

    The memory of such a block is then given back when it is freed; by default glibc stops that after the first."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
