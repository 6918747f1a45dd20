"""`python -m rollup_node.tools.devnet.conductor`: the conductor of a local network as a program."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rollup_node.node.options.value_types import HTTP_URL
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.logger import Level, configure, write_to_stderr
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application
from rollup_node.tools.devnet.conductor.control import Cluster, Control, HealthChecks
from rollup_node.tools.devnet.conductor.methods import ConductorMethods, OverviewMethods, ReplacedBlocks

L1_SECONDS = 2.0


async def serve(
    sequencers: dict[str, str], l1: str, rollup: RollupConfig, checks: HealthChecks, interval: float, port: int
) -> None:
    """Watch the sequencers and serve until it is cancelled; print the URL once it listens."""
    l1_client = JsonRpcClient(l1, timeout=L1_SECONDS)
    replaced = ReplacedBlocks(rollup, l1_client)
    control = Control(Cluster(tuple(sequencers)), sequencers, checks, replaced.check, interval)
    paths = {f"/{name}": JsonRpc(ConductorMethods(name, control, replaced).methods()) for name in sequencers}
    overview = JsonRpc(OverviewMethods(control.cluster, control).methods())
    listener = Listener(application(overview, others=paths), port)
    await listener.start()
    print(f"conductor {listener.url} of {', '.join(sequencers)}", flush=True)
    try:
        await control.run()
    finally:
        await listener.stop()
        await l1_client.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal stops it."""
    parser = argparse.ArgumentParser(prog="conductor", description="Conductor for development.", allow_abbrev=False)
    add = parser.add_argument
    add("--sequencer", action="append", required=True, metavar="NAME=URL", help="the first one leads at the start")
    add("--l1", required=True, metavar="URL")
    add("--rollup", type=Path, required=True, metavar="FILE")
    add("--port", type=int, default=0)
    add("--interval", type=float, default=0.5, metavar="SECONDS", help="between two looks at the sequencers")
    add("--unsafe-interval", type=float, default=6.0, metavar="SECONDS", help="greatest age of the unsafe head")
    add("--safe-interval", type=float, default=0.0, metavar="SECONDS", help="greatest age of the safe head; 0: any")
    add("--min-peers", type=int, default=0, metavar="N")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    configure("conductor", Level.INFO, write_to_stderr)
    try:
        sequencers = dict(map(_sequencer, args.sequencer))
        HTTP_URL.read(args.l1)
        rollup = parse_rollup_config(args.rollup.read_bytes()).config
        checks = HealthChecks(args.unsafe_interval, args.safe_interval, args.min_peers)
        asyncio.run(serve(sequencers, args.l1, rollup, checks, args.interval, args.port))
    except KeyboardInterrupt:
        return 0
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _sequencer(text: str) -> tuple[str, str]:
    """Name and URL. Raises ValueError."""
    name, separator, url = text.partition("=")
    if not separator or not name.replace("-", "").isalnum():
        raise ValueError(f"--sequencer {text}: must be NAME=URL")
    HTTP_URL.read(url)
    return name, url


if __name__ == "__main__":
    sys.exit(main())
