"""What the commands that read L1 share: their flags beside the options of the node, their processes, their output."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from rollup_node.node.checks.finding import Finding
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.rules import check_l1_options, worker_count
from rollup_node.node.options.values import Values, build_config
from rollup_node.node.setup.chain import ChosenChain, choose_chain
from rollup_node.node.setup.endpoint_checks import (
    EngineCheck,
    NodeEndpoints,
    RetryPolicy,
    check_beacon,
    check_engine,
    check_l1,
)
from rollup_node.node.setup.plan import blobs_config, l1_config
from rollup_node.node.setup.secrets import encoded_jwt_secret, stored_jwt_secret
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.exit_codes import PROGRAM, SetupError, version
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_table import ProcessSpec, node_processes
from rollup_node.node.system.runtime_dir import runtime_path
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.upgrade_transactions import unconfirmed_bundles
from rollup_node.stages.rpc.status.readiness import bundle_remedy, bundle_warning
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.commands.output_file import OutputFile
from rollup_node.tools.history.archived_stages import ArchiveFolder, archived

RETRY_POLICY = RetryPolicy(total=10.0)
HELP_EPILOG = (
    "Options of the node for its L1, beacon node, network and logs are accepted as well: rollup-node --help-all."
)


class ParsedCommand(NamedTuple):
    """A parsed command line: the flags of the command, the options of the node, and the chain they choose."""

    flags: argparse.Namespace
    values: Values
    chain: ChosenChain


def parse(
    parser: FlagParser, arguments: Sequence[str], environ: Mapping[str, str] = os.environ, derives: bool = False
) -> ParsedCommand:
    """Parse a command line; flags that are not of the command are options of the node.

    A command that `derives` blocks warns of upgrade bundles that may be wrong [UPG22]. Raises SetupError for anything
    that is wrong."""
    flags, rest = parser.parse_known_args(list(arguments))
    parsed = parse_options(rest, environ, parser.flags)
    values = parsed.values
    if not values["network"] and not values["rollup.config"]:
        raise SetupError(
            "flag network or rollup.config is required: name a built-in network or the chain's rollup.json"
        )
    check_l1_options(values)
    for warning in parsed.warnings:
        _warn(warning)
    if values["l1.checkpoint"] or values["l1.checkpoint.path"]:
        _warn(f"{parser.prog.removeprefix(PROGRAM).strip()} does not use --l1.checkpoint: it believes its L1 endpoints")
    chain = choose_chain(values, _warn)
    now = time.time()
    for bundle in unconfirmed_bundles(chain.config) if derives else ():
        if bundle.time <= now:
            _warn(f"{bundle_warning(bundle, now)}: {bundle_remedy(bundle.fork)} ({Code.BUNDLE_UNCONFIRMED.text})")
    return ParsedCommand(flags, values, chain)


def _warn(text: str) -> None:
    print(f"{PROGRAM}: warning: {text}", file=sys.stderr)


def check_batches_on_l1(command: ParsedCommand) -> None:
    """Raise SetupError for a chain whose batches are not on L1."""
    if command.chain.config.alt_da is not None:
        raise SetupError(f"the batches of {command.chain.name} are kept by a DA server, and not on L1")


class Outputs(NamedTuple):
    """Descriptors for results and for the one line of an error, apart from the log."""

    results: int
    errors: int

    @classmethod
    def open(cls, file: OutputFile | None = None) -> "Outputs":
        """Return duplicates of the output's and standard error's descriptors for the process of the command.

        The output is standard output or the file."""
        return cls(os.dup(1 if file is None else file.descriptor), os.dup(2))


def last_process(role: str, stage: str, config: object, outputs: Outputs) -> ProcessSpec:
    """Return the process that ends a command and writes to the outputs; `stage` is its module below tools."""
    return ProcessSpec(role, f"rollup_node.tools.{stage}:build", config, one_shot=True, keep_fds=tuple(outputs))


def run(
    command: ParsedCommand,
    specs: Sequence[ProcessSpec],
    inbox_hashes: bool = False,
    archive: ArchiveFolder | None = None,
    compute: Callable[[ProcessSpec], ProcessSpec] | None = None,
) -> int:
    """Run l1, blobs and compute with the processes of the command, the last of which ends it; the exit code.

    With `inbox_hashes` L1 blocks have the hashes of the inbox transactions. `archive` is read before an endpoint is
    asked. `compute` changes what the compute workers are."""
    values, chain = command.values, command.chain
    l1 = l1_config(values, chain, runtime_config=False, inbox_hashes=inbox_hashes)
    blobs = blobs_config(values)
    shared = node_processes({"": {"l1": l1, "blobs": blobs, "compute": ComputeConfig()}}, worker_count(values))
    if archive is not None:
        shared = tuple(archived(spec, archive) for spec in shared)
    if compute is not None:
        shared = tuple(compute(spec) if spec.role == "compute" else spec for spec in shared)
    log = build_config(LogSettings, values)
    if not values.given("log.level"):
        log = msgspec.structs.replace(log, level=Level.WARN)
    settings = NodeSettings(
        version=version(),
        log=log,
        runtime_dir=runtime_path(values["runtime.dir"]),
        precheck=partial(check_all, endpoints_of(command, l1, blobs, l2_secret(command))),
        log_output=2,
    )
    return run_node([*shared, *specs], settings)


def l2_secret(command: ParsedCommand) -> bytes | None:
    """Return the secret of --l2.jwt-secret or its encoded form, with which --l2 may be an engine's authenticated port.

    None if neither is given. Raises SetupError for a file without a secret."""
    values = command.values
    if getattr(command.flags, "l2", None) is None:
        return None
    if encoded := encoded_jwt_secret(values):
        return encoded.secret
    if not values.given("l2.jwt-secret"):
        return None
    stored = stored_jwt_secret(values["l2.jwt-secret"])
    if stored is None:
        raise SetupError(f"there is no secret in {values['l2.jwt-secret']}: give the engine's with --l2.jwt-secret")
    return stored.secret


def endpoints_of(command: ParsedCommand, l1: L1Config, blobs: BlobsConfig, secret: bytes | None) -> NodeEndpoints:
    """Return the endpoints of a command, to be checked."""
    return NodeEndpoints(
        rollup=command.chain.config,
        l1=l1.endpoints,
        l2=getattr(command.flags, "l2", None) or "",
        jwt_secret=secret or b"",
        jwt_source=command.values["l2.jwt-secret"] or "none given",
        beacon=blobs.beacon,
        beacon_header=blobs.header,
        beacon_may_fail=command.values["l1.beacon.ignore"],
        l1_genesis=False,
    )


class L2SourceCheck(EngineCheck):
    """The check of the L2 source of a command: an engine's JSON-RPC, without a JWT unless there is a secret."""

    what, kind = "the L2 source", "L2 source"

    async def find(self) -> list[Finding]:
        return await self.find_chain()


def check_endpoints(command: ParsedCommand) -> None:
    """Check L1, the beacon node and the L2 source of a command before its processes run. Raises SetupError."""
    l1 = l1_config(command.values, command.chain, runtime_config=False)
    endpoints = endpoints_of(command, l1, blobs_config(command.values), l2_secret(command))
    asyncio.run(check_all(endpoints))


async def check_all(endpoints: NodeEndpoints, most: float | None = None) -> None:
    """Check the endpoints of a command, for at most so many seconds. Raises SetupError for the first that fails."""
    policy = RETRY_POLICY if most is None else RETRY_POLICY._replace(total=min(most, RETRY_POLICY.total))
    await check_l1(endpoints, policy)
    if endpoints.l2:
        await check_engine(L2SourceCheck(endpoints, policy.timeout), policy)
    if endpoints.beacon is not None:
        await check_beacon(endpoints, policy)


def address(text: str) -> bytes:
    """Return the address in a flag, 20 bytes. Raises ArgumentTypeError for any other text."""
    try:
        value = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        value = b""
    if len(value) != 20:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address of 20 bytes in hex")
    return value
