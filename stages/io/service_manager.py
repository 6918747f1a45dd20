"""What a service manager such as systemd is told, by datagrams to the socket in NOTIFY_SOCKET [LIF36]."""

import os
import socket
from contextlib import suppress


def tell_service_manager(*lines: str) -> None:
    """Send lines such as `READY=1`; nothing where no service manager waits for them, or takes none at the moment."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # A name that begins with @ is no file.
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        sender.sendto("\n".join(lines).encode(), name)
