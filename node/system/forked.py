"""The first acts of a process that was forked: which descriptors it keeps, and whose end is its own."""

import ctypes
import os
import signal
from collections.abc import Collection

_PR_SET_PDEATHSIG = 1
_MAX_FD = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


def signal_when_parent_ends(number: signal.Signals) -> None:
    """Has the kernel send this process a signal when its parent ends.

    The parent may have ended before the call: then no signal comes, and os.getppid() is another process."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def close_all_but(keep_fds: Collection[int]) -> None:
    """Close every other descriptor of this process."""
    low = 0
    for fd in sorted(keep_fds):
        if low < fd:
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, _MAX_FD)


STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
