"""The upgrade bundles that the options choose instead of the package's [UPG22, UPG23, UPG26]."""

from pathlib import Path

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.values import Values
from rollup_node.node.setup.chain_files import read_chain_file
from rollup_node.stages.protocol.config import RollupConfig, UpgradeBundle
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CHOSEN_FILE, SELECTABLE
from rollup_node.stages.protocol.upgrade_bundle import (
    BundleError,
    BundleFile,
    check_bundle,
    parse_bundle,
)
from rollup_node.stages.protocol.upgrade_transactions import encode_bundle

AUTO = "auto"
BY_OPERATOR, BY_CHAIN = "the operator", "the chain"


def option_of(fork: str) -> str:
    """The option that names the bundle of a fork."""
    return f"rollup.{fork}-bundle"


def chosen_bundles(config: RollupConfig, values: Values) -> dict[str, UpgradeBundle]:
    """The bundles of forks that the operator gives, or that `auto` has chosen before. Raises OptionError for a file
    that is unreadable or wrong, and for a fork that the chain does not schedule."""
    found = {}
    for fork in SELECTABLE:
        option = option_of(fork)
        path = values[option]
        if path is None:
            continue
        if fork not in config.fork_times:
            raise OptionError(
                f"{option}: the chain has no time for {fork}: leave the option out, or give the time in the rollup"
                f" config or with --override.{fork}"
            )
        if path == AUTO:
            chosen = Path(values["rollup.bundle-dir"]) / CHOSEN_FILE.format(fork=fork)
            if chosen.exists():
                found[fork] = _chosen_before(fork, chosen)
        else:
            file = read_bundle(fork, path, f"{option}: ")
            found[fork] = encode_bundle(fork, file, f"file {path}", BY_OPERATOR)
    return found


def _chosen_before(fork: str, path: Path) -> UpgradeBundle:
    """What `auto` wrote, which is one of the bundles of the package."""
    file = read_bundle(fork, str(path), f"{option_of(fork)}={AUTO}: ", "remove the file: the node writes it again")
    if all(file.sha256 != carried.sha256 for carried in BUNDLE_FORKS[fork].carried):
        raise OptionError(
            f"{option_of(fork)}={AUTO}: {path} is none of the bundles of this version: remove the file, or give it with"
            f" --{option_of(fork)}={path}"
        )
    return encode_bundle(fork, file, f"file {path}", BY_CHAIN)


def read_bundle(fork: str, path: str, prefix: str = "", remedy: str = "") -> BundleFile:
    """The checked bundle of a fork in a file. Raises OptionError for any other file, also for another fork's bundle;
    the line ends with `remedy`, or with where the file is."""
    error_prefix = f"{prefix}failed to read upgrade bundle"
    content = read_chain_file(path, error_prefix)
    try:
        file = parse_bundle(content)
        check_bundle(file)
    except BundleError as error:
        remedy = remedy or f"take op-core/nuts/bundles/{fork}_nut_bundle.json as it is in op-node's repository"
        raise OptionError(f"{error_prefix}: {path}: {error}; {remedy}") from None
    for other, bundles in BUNDLE_FORKS.items():
        if other != fork and any(file.sha256 == each.sha256 for each in bundles.carried):
            shown = f"rollup-node bundle-check --fork={other} shows it"
            raise OptionError(f"{error_prefix}: {path}: it is the bundle of {other}, not of {fork} ({shown})")
    return file
