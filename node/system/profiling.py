"""Which profiles a node makes [LIF16, LIF18, LIF19]."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProfilingSettings:
    """`is_served`: the rpc process serves profiles, so each process looks for requests.

    `kind` is the profile that is written to `path` when the node stops; without both, nothing runs."""

    is_served: bool = False
    kind: str | None = None
    path: Path = Path()


def profile_path(given: str | None, kind: str) -> Path:
    """Return the file of `pprof.path`: `<kind>.prof` in an existing folder, or else the file itself [LIF19].

    The folder is the working directory when it is not set."""
    path = Path(given or ".").absolute()
    return path / f"{kind}.prof" if path.is_dir() else path
