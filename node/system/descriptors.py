"""How many file descriptors a process may open, and why the system refuses the files of shared memory."""

import errno
import resource

from rollup_node.node.system.exit_codes import SetupError

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
