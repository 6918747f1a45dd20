"""What asyncio and the C library leave undone: connections of a closing server, memory of freed blocks; datagrams."""

import asyncio
import ctypes
import os
import socket
from contextlib import suppress

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


def tell_service_manager(*lines: str) -> None:
    """Send a service manager such as systemd lines, `READY=1` or others, to the socket in NOTIFY_SOCKET [LIF36].

    Nothing where no service manager waits for them, or takes none at the moment."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # A name that begins with @ is no file.
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        sender.sendto("\n".join(lines).encode(), name)
