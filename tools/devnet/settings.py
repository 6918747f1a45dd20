"""The flags of `rollup-node devnet` and their checks."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rollup_node.node.options.value_types import HTTP_URL, LOG_LEVEL
from rollup_node.node.setup.bundles import AUTO
from rollup_node.stages.l1.light_client.network import Preset
from rollup_node.tools.devnet.engine.engine_api import Trait
from rollup_node.tools.devnet.fork_offsets import MAX_OFFSET_DIGITS, SettingsError, fork_offsets, l1_fork_offsets
from rollup_node.tools.devnet.l1.signed_headers import DEVELOPMENT

if TYPE_CHECKING:
    from rollup_node.tools.faults.scenario import Scenario

SEQUENCER, VERIFIER = "sequencer", "verifier"
MAX_VERIFIERS = 50
MAX_SEQUENCERS = 5
LEAST_PERIOD = 8
"""Slots of a sync committee: some blocks must be final before the next one signs."""
LEAST_CHAOS_SECONDS = 2.0
FAULTS = "rollup_node.tools.devnet.faults"
"""The package of what --chaos and --faults do, in a checkout only."""
DA_MODES = ("honest", "lying", "slow", "losing", "withholding")
"""What the DA server of `--altda` does."""


DEEP_FINALIZED_DISTANCE = 160
"""Blocks below L1's head that are final on a network with the deepest reorgs: one, and then the way back."""
GLOAS_OFFSET = "gloas=16"
"""L1 enters Gloas after the network's start, and before the first scenario."""
LATE_FORKS = ("isthmus=0", "jovian=62")
"""Jovian activates so late that a reorg of 64 blocks of a second goes across it as soon as L1 has them."""


@dataclass(frozen=True)
class ExternalServices:
    """Programs of the user in place of the embedded ones; an engine is its public and its authenticated URL."""

    l1: str | None = None
    beacon: str | None = None
    anvil: str | None = None
    sequencer_engine: tuple[str, str] | None = None
    verifier_engine: tuple[str, str] | None = None


@dataclass(frozen=True)
class DevnetSettings:
    """The network to run and when to end it; times in seconds.

    `forks` is as of `fork_offsets`, `l1_forks` as of `l1_fork_offsets`; with `ipc` nodes reach the embedded engines
    over sockets, and with `keeps_engines` these keep their chains, so that they can be restarted. An entry of
    `engine_traits` is for the embedded engine of one node, or for all. L1's finalized block is `finalized_distance`
    below its head, 4 without one. `dependencies` are the other chains of the dependency set; `lagoon_bundles` has what
    `rollup.lagoon-bundle` is for a node, or under the empty name for the others. With a `checkpoint` the nodes start
    from the genesis of L1's beacon chain, which has these sizes, and with `forged_l1` they ask an L1 with another chain
    before the honest one. `sequencing_window` is in L1 blocks. The verifier's files are on a disk of their own with
    `small_disk`, and its clock is set by `clock_library`."""

    blocks: int | None
    duration: float | None
    verifiers: int
    l1_block_time: int
    l2_block_time: int
    forks: dict[str, int]
    l2_alloc: Path | None
    batch: str
    compression: str
    da: str
    base_port: int
    data_dir: Path | None
    json: bool
    prepare: bool
    log_level: str
    signer: bool
    el_sync: bool
    external: ExternalServices
    sequencers: int = 1
    conductor: bool = False
    batcher: bool = True
    chaos: float | None = None
    chaos_faults: int | None = None
    seed: int = 0
    altda: str | None = None
    scenarios: "tuple[Scenario, ...]" = ()
    scenario_seconds: float | None = None
    keeps_engines: bool = False
    ipc: bool = False
    finalized_distance: int | None = None
    small_disk: bool = False
    clock_library: Path | None = None
    dependencies: tuple[int, ...] = ()
    lagoon_bundles: Mapping[str, str] = field(default_factory=dict)
    l1_forks: dict[str, int] = field(default_factory=dict)
    engine_traits: tuple[tuple[str | None, Trait], ...] = ()
    checkpoint: Preset | None = None
    sequencing_window: int = 200
    forged_l1: bool = False

    @property
    def sequencer_names(self) -> tuple[str, ...]:
        """The names of the nodes that can sequence."""
        return _numbered(SEQUENCER, self.sequencers)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all rollup nodes, the sequencers first."""
        return _names(self.sequencers, self.verifiers)


def _names(sequencers: int, verifiers: int) -> tuple[str, ...]:
    return *_numbered(SEQUENCER, sequencers), *_numbered(VERIFIER, verifiers)


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return (name, *(f"{name}-{number}" for number in range(2, count + 1)))


def parse(argv: Sequence[str]) -> DevnetSettings:
    """Parse the flags. Raises SettingsError, or SystemExit(0) after --help."""
    args = _parser().parse_args(argv)
    _check_numbers(args)
    _check_log_level(args.log_level)
    _check_services(args)
    _check_sequencers(args)
    values = {name: value for name, value in vars(args).items() if name in DevnetSettings.__dataclass_fields__}
    read: dict[str, Any] = {
        "verifiers": args.nodes,
        "forks": fork_offsets(args.fork),
        "external": _external_services(args),
        "batcher": not args.no_batcher,
        "scenarios": _scenarios(args),
        "dependencies": _dependencies(args.dependency_set),
        "lagoon_bundles": _lagoon_bundles(args),
        "l1_forks": l1_fork_offsets(args.l1_forks),
        "engine_traits": _engine_traits(args),
        "checkpoint": _checkpoint(args),
    }
    return DevnetSettings(**values | read)


def _checkpoint(namespace: argparse.Namespace) -> Preset | None:
    """Return the sizes of a beacon chain on which nodes start from a checkpoint; its forks activate with epochs."""
    slots = namespace.committee_period
    if namespace.checkpoint is None:
        if slots is not None:
            raise SettingsError("--committee-period: the nodes do not look at sync committees; add --checkpoint")
        return None
    if namespace.l1 or namespace.anvil:
        raise SettingsError("--checkpoint: it needs the embedded L1; leave out --l1 and --anvil")
    epoch = DEVELOPMENT.slots_per_epoch
    slots = DEVELOPMENT.slots_per_epoch * DEVELOPMENT.epochs_per_period if slots is None else slots
    if slots < LEAST_PERIOD or slots % epoch:
        problem = f"must be at least {LEAST_PERIOD} slots, and whole epochs of {epoch}"
        raise SettingsError(f"--committee-period {slots}: {problem}")
    seconds = epoch * namespace.l1_block_time
    for fork, offset in l1_fork_offsets(namespace.l1_forks).items():
        if offset % seconds:
            raise SettingsError(f"--l1-forks {fork}={offset}: with --checkpoint a multiple of {seconds} s, an epoch")
    return replace(DEVELOPMENT, sync_committee_size=namespace.checkpoint, epochs_per_period=slots // epoch)


def _dependencies(text: str | None) -> tuple[int, ...]:
    result = (text or "").split(",") if text else []
    if not all(item.isascii() and item.isdigit() and len(item) <= MAX_OFFSET_DIGITS for item in result):
        raise SettingsError(f"--dependency-set {text}: must be chain ids, separated by commas")
    return tuple(map(int, result))


def _lagoon_bundles(namespace: argparse.Namespace) -> dict[str, str]:
    """Files are absolute: nodes have working directories of their own."""
    if namespace.lagoon_bundle and not fork_offsets(namespace.fork).get("lagoon"):
        raise SettingsError("--lagoon-bundle: the chain does not cross Lagoon; add --fork lagoon=OFFSET")
    lagoon_bundles = {}
    for entry in namespace.lagoon_bundle:
        name, separator, value = entry.rpartition("=")
        if separator and name not in _names(namespace.sequencers, namespace.nodes):
            raise SettingsError(f"--lagoon-bundle {entry}: there is no node {name!r}")
        lagoon_bundles[name] = value if value == AUTO else str(Path(value).absolute())
    return lagoon_bundles


def with_scenarios(settings: DevnetSettings, scenarios: "Sequence[Scenario]") -> DevnetSettings:
    """Return the settings of a network for scenarios, with all that they need."""
    if not scenarios:
        return settings
    from rollup_node.tools.devnet.faults.events import find_clock_library
    from rollup_node.tools.faults.scenario import Need

    needs = {need for scenario in scenarios for need in scenario.needs}
    changes: dict[str, Any] = {"scenarios": tuple(scenarios)}
    if Need.SERVICES in needs:
        changes |= {"altda": settings.altda or DA_MODES[0], "signer": True, "conductor": True}
    if Need.FINALITY in needs:
        changes |= {"l1_block_time": settings.l2_block_time, "finalized_distance": DEEP_FINALIZED_DISTANCE}
    if Need.FORK in needs:
        changes |= {"forks": fork_offsets(LATE_FORKS)}
    if Need.CLOCK in needs:
        changes |= {"clock_library": find_clock_library()}
    if Need.GLOAS in needs:
        changes |= {"l1_forks": l1_fork_offsets(GLOAS_OFFSET)}
    if Need.CHECKPOINT in needs:
        changes |= {"checkpoint": DEVELOPMENT, "forged_l1": True}
    return dataclasses.replace(settings, small_disk=Need.DISK in needs, **changes)


def unmet(scenario: "Scenario") -> str | None:
    """Return why a scenario cannot run on this machine; None if it can."""
    from rollup_node.tools.devnet.faults.events import LIBRARY_NAME, LIBRARY_VARIABLE, find_clock_library
    from rollup_node.tools.faults.scenario import Need

    if Need.CLOCK in scenario.needs and find_clock_library() is None:
        return f"{LIBRARY_NAME} is not installed; {LIBRARY_VARIABLE} can name its file"
    return None


def _check_numbers(namespace: argparse.Namespace) -> None:
    for name, value in (
        ("--blocks", namespace.blocks),
        ("--duration", namespace.duration),
        ("--nodes", namespace.nodes),
        ("--l1-block-time", namespace.l1_block_time),
        ("--l2-block-time", namespace.l2_block_time),
        ("--chaos-faults", namespace.chaos_faults),
        ("--sequencing-window", namespace.sequencing_window),
    ):
        if value is not None and not value >= 1:
            raise SettingsError(f"{name}: must be at least 1, not {value}")
    if namespace.nodes > MAX_VERIFIERS:
        raise SettingsError(f"--nodes: must be at most {MAX_VERIFIERS}, not {namespace.nodes}")
    if namespace.l2_block_time > namespace.l1_block_time:
        raise SettingsError("--l2-block-time: must not be longer than --l1-block-time")
    if namespace.base_port and not 1024 <= namespace.base_port <= 65_500:
        raise SettingsError(f"--base-port: must be 0 or 1024 to 65500, not {namespace.base_port}")


def _check_services(namespace: argparse.Namespace) -> None:
    for name, address in (("--l1", namespace.l1), ("--beacon", namespace.beacon)):
        if address is not None and not _is_url(address):
            raise SettingsError(f"{name} {address}: must be {HTTP_URL.expected}")
    if namespace.anvil and namespace.l1:
        raise SettingsError("--anvil: --l1 gives another L1; give one of the two")
    if namespace.beacon and not namespace.l1:
        raise SettingsError("--beacon: give its --l1 as well")
    if namespace.anvil and namespace.da == "blobs":
        raise SettingsError(
            "--anvil: its blocks with blob transactions have a wrong transactions root; add --da calldata"
        )
    if namespace.el_sync and namespace.verifier_engine:
        raise SettingsError("--el-sync: it needs the embedded engine for the verifier; leave out --verifier-engine")
    if namespace.l1_forks and (namespace.l1 or namespace.anvil):
        raise SettingsError("--l1-forks: it needs the embedded L1; leave out --l1 and --anvil")
    if namespace.forged_l1 and namespace.checkpoint is None:
        raise SettingsError("--forged-l1: without --checkpoint the nodes may follow it; add --checkpoint")
    if namespace.l1 and not namespace.beacon and namespace.da == "blobs":
        raise SettingsError("--l1: blobs need --beacon as well, or --da calldata")


def _external_services(namespace: argparse.Namespace) -> ExternalServices:
    return ExternalServices(
        l1=namespace.l1,
        beacon=namespace.beacon,
        anvil=namespace.anvil,
        sequencer_engine=_engine("--sequencer-engine", namespace.sequencer_engine),
        verifier_engine=_engine("--verifier-engine", namespace.verifier_engine),
    )


def _need_checkout(flag: str) -> None:
    """Faults are no part of the wheel."""
    if find_spec(FAULTS) is None:
        raise SettingsError(f"{flag}: it needs a checkout of the repository; an installed package has no faults")


def _scenarios(namespace: argparse.Namespace) -> "tuple[Scenario, ...]":
    if namespace.faults is None:
        return ()
    for flag, value in (("--chaos", namespace.chaos), ("--l1", namespace.l1), ("--anvil", namespace.anvil)):
        if value is not None:
            raise SettingsError(f"--faults: it needs the embedded L1 and engines, without {flag}")
    others = namespace.no_batcher, namespace.verifier_engine, namespace.sequencers > 1, namespace.el_sync, namespace.ipc
    if any(others):
        raise SettingsError("--faults: leave out --no-batcher, --verifier-engine, --sequencers, --el-sync and --ipc")
    _need_checkout("--faults")
    from rollup_node.tools.faults.scenario import ScenarioError, parse_scenarios

    try:
        return parse_scenarios(namespace.faults.read_text())
    except OSError as error:
        raise SettingsError(f"--faults {namespace.faults}: {error.strerror}") from None
    except (ScenarioError, UnicodeDecodeError) as error:
        raise SettingsError(f"--faults {namespace.faults}: {error}") from None


def _check_sequencers(namespace: argparse.Namespace) -> None:
    if not 1 <= namespace.sequencers <= MAX_SEQUENCERS:
        raise SettingsError(f"--sequencers: must be 1 to {MAX_SEQUENCERS}, not {namespace.sequencers}")
    if namespace.sequencers > 1 and not namespace.conductor:
        raise SettingsError("--sequencers: without a conductor each builds a chain of its own; add --conductor")
    if namespace.chaos is None:
        if namespace.chaos_faults is not None:
            raise SettingsError("--chaos-faults: there are no faults to count; add --chaos SECONDS")
        return
    if not LEAST_CHAOS_SECONDS <= namespace.chaos < float("inf"):
        raise SettingsError(f"--chaos: must be at least {LEAST_CHAOS_SECONDS:g}, not {namespace.chaos:g}")
    if namespace.sequencers < 2:
        raise SettingsError("--chaos: there must be another sequencer to fail over to; add --sequencers 2 --conductor")
    if namespace.no_batcher:
        raise SettingsError("--chaos: it ends with a comparison of safe blocks; leave out --no-batcher")
    if namespace.sequencer_engine or namespace.verifier_engine:
        raise SettingsError("--chaos: it restarts the engines, which must be the embedded ones; leave out --*-engine")
    _need_checkout("--chaos")


def _check_log_level(text: str) -> None:
    try:
        LOG_LEVEL.read(text)
    except ValueError:
        raise SettingsError(f"--log-level {text}: must be {LOG_LEVEL.expected}") from None


def _engine_traits(namespace: argparse.Namespace) -> tuple[tuple[str | None, Trait], ...]:
    result: list[tuple[str | None, Trait]] = []
    for entry in namespace.engine_like:
        node, _, name = entry.rpartition("=")
        if name not in [*Trait]:
            raise SettingsError(f"--engine-like {entry}: unknown behaviour {name!r}; one of {', '.join(Trait)}")
        if node and node not in _names(namespace.sequencers, namespace.nodes):
            raise SettingsError(f"--engine-like {entry}: there is no node {node!r}")
        result.append((node or None, Trait(name)))
    return tuple(result)


def _engine(flag: str, value: str | None) -> tuple[str, str] | None:
    if value is None:
        return None
    public, separator, authenticated = value.partition(",")
    if not separator or not _is_url(public) or not _is_url(authenticated):
        raise SettingsError(f"{flag} {value}: must be two URLs, PUBLIC,AUTHENTICATED")
    return public, authenticated


def _directory(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("must be a directory, not ''")
    return Path(text).absolute()


def _is_url(text: str) -> bool:
    try:
        HTTP_URL.read(text)
    except ValueError:
        return False
    return True


class _FlagParser(argparse.ArgumentParser):
    def error(self, message: str) -> "None":  # type: ignore[override]
        raise SettingsError(message)


_FORK_HELP = (
    "activate a fork OFFSET seconds after genesis; may be repeated. Forks before the first one given are active at "
    "genesis, forks between two given ones activate with the later one, forks after the last one never; without this "
    "flag all forks up to Jovian are active at genesis"
)
_L1_FORKS_HELP = (
    "activate forks of L1 OFFSET seconds after its genesis: osaka, bpo1, bpo2, amsterdam, or by their names on the "
    "consensus layer fulu, gloas. Forks before the first one given are active at genesis, forks between two given ones "
    "activate with the later one; without this flag L1 stays at Prague"
)
_CHECKPOINT_HELP = (
    "the nodes believe in L1 only what its sync committees, of 32 members or of 512, have signed: they start from the "
    "genesis block of its beacon chain (l1.checkpoint)"
)
_FORGED_HELP = (
    "list another L1 before the honest one: a chain of valid blocks from the same genesis, which a third of each sync "
    "committee signs (needs --checkpoint)"
)
_ALLOC_HELP = (
    "genesis file with the accounts (`alloc`) that the L2 starts with instead of the development contracts; upgrade "
    "transactions of forks that are active at genesis and missing in its `config` are run on them"
)
_CHAOS_HELP = (
    "every so many seconds stop and start, kill or fail over the leading sequencer, or restart an engine, and check at "
    "the end that no height was signed twice (needs --conductor, and a checkout of the repository)"
)
_ENGINE_LIKE_HELP = (
    "have the embedded engine of a node, or of all, answer as op-reth does in one respect: "
    f"{', '.join(Trait)}; may be repeated"
)
_FAULTS_HELP = (
    "run the scenarios of a TOML file: faults of L1, Beacon API, engine, DA server, signer and conductor, reorgs,"
    " kills, a full disk, a clock that jumps; ends with a table (needs a checkout of the repository)"
)
_ALTDA_HELP = (
    "keep the batches on a DA server and post commitments. The server is honest, or MODE: lying (wrong bytes at first),"
    " slow, losing (loses inputs, which the batcher then publishes on L1), withholding (loses them for good)"
)


_BUNDLE_HELP = (
    "upgrade transactions of Lagoon for all nodes, or for NODE, instead of the package's; auto as the node's option;"
    " may be repeated"
)


def _parser() -> argparse.ArgumentParser:
    parser = _FlagParser(
        prog="rollup-node devnet",
        allow_abbrev=False,
        description="Runs a whole rollup on this machine: L1 with Beacon API, execution engines, a sequencer node, "
        "verifier nodes and a batcher. Ends by comparing the output roots of all nodes for every block.",
    )
    add = parser.add_argument
    add("--blocks", type=int, metavar="N", help="stop when the safe heads of all nodes reach N")
    add("--duration", type=float, metavar="SECONDS", help="stop after this time")
    add("--nodes", type=int, default=1, metavar="N", help="number of verifiers, each with an engine of its own")
    add("--l1-block-time", type=int, default=2, metavar="SECONDS")
    add("--l2-block-time", type=int, default=1, metavar="SECONDS")
    add("--fork", action="append", default=[], metavar="NAME=OFFSET", help=_FORK_HELP)
    add("--dependency-set", metavar="IDS", help="other chains of the dependency set, which are not run")
    add("--lagoon-bundle", action="append", default=[], metavar="[NODE=]FILE", help=_BUNDLE_HELP)
    add("--l1-forks", metavar="NAME=OFFSET,...", help=_L1_FORKS_HELP)
    add("--checkpoint", nargs="?", const=32, type=int, choices=(32, 512), metavar="SIZE", help=_CHECKPOINT_HELP)
    add("--committee-period", type=int, metavar="SLOTS", help="for which a sync committee signs, with --checkpoint")
    add("--forged-l1", action="store_true", help=_FORGED_HELP)
    add("--sequencing-window", type=int, default=200, metavar="BLOCKS", help="L1 blocks in which a batch can be posted")
    add("--l2-alloc", type=Path, metavar="FILE", help=_ALLOC_HELP)
    add("--batch", choices=("span", "singular"), default="span", help="type of batches, once Delta is active")
    add("--ipc", action="store_true", help="nodes reach the embedded engines over IPC sockets instead of HTTP")
    add("--el-sync", action="store_true", help="start the verifiers late; their engines fetch the chain by themselves")
    add("--compression", choices=("brotli", "zlib"), default="brotli", help="of channels, once Fjord is active")
    add("--da", choices=("blobs", "calldata"), default="blobs", help="data availability, once Ecotone is active")
    add("--altda", nargs="?", const=DA_MODES[0], choices=DA_MODES, metavar="MODE", help=_ALTDA_HELP)
    add("--base-port", type=int, default=0, metavar="PORT", help="first of consecutive ports; 0: free ones")
    add(
        "--data-dir",
        type=_directory,
        metavar="DIR",
        help="keep genesis, keys, logs, network.json and processes.json here",
    )
    add("--json", action="store_true", help="print only the result, as one line of JSON")
    add("--prepare", action="store_true", help="write the files for external engines into --data-dir and stop")
    add("--log-level", default="info", help="of the nodes, which log to files in the data directory")
    add("--signer", action="store_true", help="the sequencer's blocks are signed by a program of their own")
    add("--sequencers", type=int, default=1, metavar="N", help="number of sequencer nodes, of which one leads")
    add("--conductor", action="store_true", help="a conductor decides which sequencer leads, and fails over to another")
    add("--no-batcher", action="store_true", help="start no batcher: attach one, such as op-batcher, by network.json")
    add("--chaos", type=float, metavar="SECONDS", help=_CHAOS_HELP)
    add("--chaos-faults", type=int, metavar="N", help="go on until --chaos has made N faults, beyond --blocks too")
    add("--faults", type=Path, metavar="FILE", help=_FAULTS_HELP)
    add("--seed", type=int, default=0, metavar="N", help="of the random pauses of --chaos, and of --faults")
    add("--anvil", metavar="BINARY", help="run this anvil as L1 instead of the embedded one (needs --da calldata)")
    add("--l1", metavar="URL", help="use this L1 instead of the embedded one")
    add("--beacon", metavar="URL", help="the Beacon API of --l1")
    add("--sequencer-engine", metavar="URL,AUTHURL", help="external execution engine of the sequencer")
    add("--engine-like", action="append", default=[], metavar="[NODE=]BEHAVIOUR", help=_ENGINE_LIKE_HELP)
    add("--verifier-engine", metavar="URL,AUTHURL", help="external execution engine of the first verifier")
    return parser
