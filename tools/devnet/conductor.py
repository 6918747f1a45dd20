"""The conductor of a local network as a program, and its JSON-RPC.

For each sequencer at a path of its own op-conductor's methods, as if it had a conductor of its own, and at `/` the
state of all of them."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollup_node.node.options.value_types import HTTP_URL
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.logger import Level, Logger, configure, write_to_stderr
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.errors import INVALID_PARAMS, SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, Method, application
from rollup_node.tools.devnet.conductor_control import (
    NOT_LEADER,
    Cluster,
    CommitRefused,
    Control,
    SequencerReport,
)

VOTER = 0
MAX_COMMITS = 5000

log = Logger("conductor")


class ReplacedBlocks:
    """Tells whether a committed block is off the chain, and others may take its place.

    L1 was reorganised below it, or derivation found another block at its height."""

    def __init__(self, rollup: RollupConfig, l1: JsonRpcClient) -> None:
        self._rollup, self._l1 = rollup, l1

    async def check(self, last: ExecutionPayload, report: SequencerReport) -> bool:
        """Whether the last committed block was replaced, by a sequencer's safe head and by L1.

        False when L1 does not answer."""
        if report.safe_number >= last.block_number:
            return report.safe_number > last.block_number or report.safe_hash != last.block_hash
        try:
            origin = l2_ref_of_payload(self._rollup, last).l1_origin
            result = await self._l1.call("eth_getBlockByNumber", hex(origin.number), False)
            return result is None or result["hash"] != to_hex(origin.hash)
        except (EndpointError, RpcFailure, BlockError, TypeError, KeyError):
            return False


class ConductorMethods:
    """The methods of the conductor of one sequencer."""

    def __init__(self, server: str, control: Control, replaced: ReplacedBlocks) -> None:
        self._server, self._control, self._replaced = server, control, replaced
        self._cluster = control.cluster

    def methods(self) -> dict[str, Method]:
        """Return the method table."""
        return {
            "conductor_leader": lambda: self._leads,
            "conductor_leaderWithID": lambda: _server_info(self._cluster.leader),
            "conductor_commitUnsafePayload": self.commit,
            "conductor_transferLeader": self.transfer,
            "conductor_transferLeaderToServer": self.transfer_to,
            "conductor_clusterMembership": self._membership,
            "conductor_sequencerHealthy": lambda: self._control.problems[self._server] is None,
            "conductor_active": lambda: not self._control.paused,
            "conductor_paused": lambda: self._control.paused,
            "conductor_pause": lambda: self._pause(True),
            "conductor_resume": lambda: self._pause(False),
        }

    @property
    def _leads(self) -> bool:
        return self._cluster.leader == self._server

    async def commit(self, envelope: Any) -> None:
        """conductor_commitUnsafePayload.

        Raises JsonRpcError for a server that does not lead, and for a block that does not extend the last one,
        unless that was replaced."""
        payload, report = envelope_from_json(envelope), self._control.sequencers[self._server].report
        last, is_replaced = self._cluster.last, False
        if last is not None and report is not None and self._leads and not self._cluster.extends(payload):
            is_replaced = await self._replaced.check(last, report) and self._cluster.last is last
        try:
            is_new = self._cluster.commit(self._server, payload, is_replaced=is_replaced)
        except CommitRefused as error:
            log.warn("refused a commit", server=self._server, number=payload.block_number, reason=str(error))
            raise JsonRpcError(SERVER_ERROR, str(error)) from None
        if is_new:
            log.debug("committed", server=self._server, number=payload.block_number, hash=to_hex(payload.block_hash))

    def transfer(self) -> None:
        """conductor_transferLeader: to the sequencer that comes next. Raises JsonRpcError unless this one leads."""
        servers = self._cluster.servers
        self.transfer_to(servers[(servers.index(self._server) + 1) % len(servers)], "")

    def transfer_to(self, server: Any, address: Any) -> None:
        """conductor_transferLeaderToServer. Raises JsonRpcError unless this one leads, and for an unknown server."""
        if not self._leads:
            raise JsonRpcError(SERVER_ERROR, NOT_LEADER)
        if server not in self._cluster.servers:
            raise JsonRpcError(INVALID_PARAMS, f"there is no server {server!r}: {', '.join(self._cluster.servers)}")
        if server == self._server:
            raise JsonRpcError(SERVER_ERROR, "this server leads already")
        self._control.transfer(server, "an operator transfers the lead")

    def _pause(self, paused: bool) -> None:
        self._control.paused = paused

    def _membership(self) -> dict[str, Any]:
        return {"servers": [_server_info(server) for server in self._cluster.servers], "version": 1}


def _server_info(server: str) -> dict[str, Any]:
    return {"id": server, "addr": server, "suffrage": VOTER}


class OverviewMethods:
    """The methods at `/`, for the local network and its checks."""

    def __init__(self, cluster: Cluster, control: Control) -> None:
        self._cluster, self._control = cluster, control

    def methods(self) -> dict[str, Method]:
        """Return the method table."""
        return {"dev_conductor": self.overview, "dev_commits": self.commits}

    def overview(self, first_event: int) -> dict[str, Any]:
        """Return who leads, the last committed number, and the number of failovers.

        With the problems of the sequencers, and the events from a number on."""
        if type(first_event) is not int or first_event < 0:
            raise JsonRpcError(INVALID_PARAMS, "the number of the first event must be 0 or more")
        control = self._control
        skipped = max(0, first_event - (control.event_count - len(control.events)))
        return {
            "leader": self._cluster.leader,
            "term": self._cluster.term,
            "last": 0 if self._cluster.last is None else self._cluster.last.block_number,
            "failovers": control.failovers,
            "problems": {name: text for name, text in control.problems.items() if text is not None},
            "events": list(control.events)[skipped:],
            "next_event": control.event_count,
        }

    def commits(self, first: int) -> list[list[Any]]:
        """Return number, hash and sequencer of at most MAX_COMMITS commits from that position on."""
        if type(first) is not int or first < 0:
            raise JsonRpcError(INVALID_PARAMS, "the position must be 0 or more")
        start = max(0, first - self._cluster.dropped)
        blocks = self._cluster.blocks[start : start + MAX_COMMITS]
        return [[block.number, to_hex(block.hash), block.server] for block in blocks]


L1_SECONDS = 2.0


async def serve(
    sequencers: dict[str, str], l1: str, rollup: RollupConfig, unsafe_interval: float, interval: float, port: int
) -> None:
    """Watch the sequencers and serve until it is cancelled; print the URL once it listens."""
    l1_client = JsonRpcClient(l1, timeout=L1_SECONDS)
    replaced = ReplacedBlocks(rollup, l1_client)
    control = Control(Cluster(tuple(sequencers)), sequencers, unsafe_interval, replaced.check, interval)
    paths = {f"/{name}": JsonRpc(ConductorMethods(name, control, replaced).methods()) for name in sequencers}
    overview = JsonRpc(OverviewMethods(control.cluster, control).methods())
    try:
        async with Listener(application(overview, others=paths), port) as listener:
            print(f"conductor {listener.url} of {', '.join(sequencers)}", flush=True)
            await control.run()
    finally:
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
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    configure("conductor", Level.INFO, write_to_stderr)
    try:
        sequencers = dict(map(_sequencer, args.sequencer))
        HTTP_URL.read(args.l1)
        rollup = parse_rollup_config(args.rollup.read_bytes()).config
        asyncio.run(serve(sequencers, args.l1, rollup, args.unsafe_interval, args.interval, args.port))
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
