"""An address of the loopback interface that no other process uses: a port that was free there stays free."""

import os
import socket


def own_address() -> str:
    """127.1.0.0 and beyond, by the pid of this process; the kernel assigns ports on it to no other process."""
    pid = os.getpid()
    return f"127.{1 + (pid >> 16 & 0x7F)}.{pid >> 8 & 0xFF}.{pid & 0xFF}"


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a free port on that address."""
    with socket.socket(type=kind) as probe:
        probe.bind((own_address(), 0))
        return int(probe.getsockname()[1])
