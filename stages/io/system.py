"""The end of a server: its port, and the connections that it has accepted."""

import asyncio
import ctypes

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


LARGE_BYTES = 1 << 20
_M_MMAP_THRESHOLD = -3


def map_large_blocks() -> bool:
    """Has the C library map each block of a megabyte or more by itself, so that its memory is given back as soon as it
    is freed; by default glibc stops doing so once such a block was freed. Returns whether the C library can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
