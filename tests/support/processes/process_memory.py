"""What a process has of memory and descriptors, as the kernel counts it."""

from pathlib import Path


def peak_memory(pid: int) -> int:
    """Return the largest resident size of a process so far, or since `reset_peak_memory`, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def reset_peak_memory(pid: int) -> None:
    """Lets `peak_memory` begin again at the present resident size of the process."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def open_descriptors(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
