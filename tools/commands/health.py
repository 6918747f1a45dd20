"""`rollup-node health`: whether the node on this machine answers, for the health check of a container [LIF31]."""

import http.client
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.system.exit_codes import PROGRAM, ExitCode, SetupError
from rollup_node.node.system.runtime_dir import LOCK, RPC_URL
from rollup_node.stages.io.files.private_files import read_private_file
from rollup_node.stages.protocol.texts import without_logins
from rollup_node.tools.commands.flags import FlagParser, url

DESCRIPTION = """Asks the JSON-RPC server of the node on this machine whether it is alive (/healthz), wherever
--rpc.port has put it and without a proxy. It is the health check of docker/Dockerfile. Whether the node is synced is
what /readyz and `rollup-node status` say."""
SECONDS = 4.0
MAX_FILE = 256
PROC = Path("/proc")


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the node answers. Raises SetupError when it does not."""
    parser = FlagParser("health", DESCRIPTION)
    help_text = "JSON-RPC of the node; default: that of the node which this user runs here"
    parser.add_argument("--rpc", type=url, metavar="URL", help=help_text)
    asked = parser.parse_all(arguments).rpc
    urls = [asked] if asked else list(own_urls())
    if not urls:
        raise SetupError("this user runs no node here whose RPC server has started: give its address with --rpc")
    for address in urls:
        _ask(address)
        print(f"{without_logins(address)} is alive")
    return ExitCode.OK


def _ask(address: str) -> None:
    # urllib would ask the proxy of the environment, which Docker sets in every container.
    parts = urlsplit(address)
    address = without_logins(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise SetupError(f"{address} does not answer: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if status != http.client.OK:
        raise SetupError(f"{address}/healthz answers with status {status}")


def own_urls() -> Iterator[str]:
    """Yield the URLs of the RPC servers of the nodes that this user runs here."""
    for directory in own_directories():
        with suppress(OSError, UnicodeDecodeError):
            yield read_private_file(directory / RPC_URL, MAX_FILE).decode()


def own_directories() -> Iterator[Path]:
    """Yield the runtime directories of the nodes that this user runs here: their supervisors hold locks in them."""
    for process in PROC.glob("[0-9]*"):
        # Processes end while they are looked at, and those of others cannot be.
        with suppress(OSError):
            # Root sees those of all users, and must read no file that another one names.
            if process.stat().st_uid != os.geteuid():
                continue
            if not (process / "cmdline").read_bytes().startswith(f"{PROGRAM}: {SUPERVISOR}\0".encode()):
                continue
            locks = [path for path in map(os.readlink, (process / "fd").iterdir()) if path.endswith(f"/{LOCK}")]
            yield from (Path(lock).parent for lock in locks)
