"""A process's descriptors and their limits, its signals, and its end with its parent."""

import ctypes
import errno
import os
import resource
import signal
from collections.abc import Collection

from rollup_node.node.system.exit_codes import SetupError

_PR_SET_PDEATHSIG = 1
_MAX_FD = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


def signal_when_parent_ends(number: signal.Signals) -> None:
    """Have the kernel signal the end of the parent; if it has ended before, os.getppid() is another process."""
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
RELOAD_SIGNAL = signal.SIGUSR1
"""As SIGHUP, also under nohup: that of the rpc process for admin_reload."""


OWN_DESCRIPTORS = 64
"""What a process needs besides its connections to others: files, sockets to other processes, clients of endpoints."""

DESCRIPTORS_PER_PROCESS = 8
"""For each process of the node: its shared memory, its pipes, and the connections to it."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, as programs may that do not use select(); the limit that is in force."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def check_descriptor_limit(limit: int, processes: int, connections: int) -> None:
    """Raise SetupError when `limit` descriptors are too few for so many processes and connections."""
    needed = OWN_DESCRIPTORS + DESCRIPTORS_PER_PROCESS * processes + connections
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise SetupError(
            f"the node needs {needed} open files, and the limit is {limit}: raise the hard limit"
            f" (ulimit -Hn {needed}, LimitNOFILE={needed} of systemd, --ulimit nofile={needed} of docker)"
        )


def shared_memory_refusal(error: OSError) -> str:
    """Why the shared memory of the processes, files without names, cannot be made, and what to do."""
    advice = {
        errno.EFBIG: "raise the limit of file sizes (ulimit -f unlimited, LimitFSIZE=infinity of systemd)",
        errno.EMFILE: "raise the limit of open files (ulimit -n, LimitNOFILE of systemd)",
        errno.ENFILE: "the machine has too many open files (sysctl fs.file-max)",
    }
    what = advice.get(error.errno or 0, "see how much memory the machine or the container has left")
    return f"cannot make the shared memory of the processes: {error.strerror or error}: {what}"
