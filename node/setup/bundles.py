"""The upgrade bundles that the options choose instead of the package's [UPG22, UPG23, UPG26]."""

import os
from pathlib import Path

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.given_files import MAX_FILE, read_chain_file
from rollup_node.node.options.values import Values
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.files.private_files import open_private_folder, read_private_file
from rollup_node.stages.protocol.config import RollupConfig, UpgradeBundle
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CHOSEN_FILE, SELECTABLE
from rollup_node.stages.protocol.upgrade_bundle import BundleError, BundleFile, check_bundle, parse_bundle
from rollup_node.stages.protocol.upgrade_transactions import encode_bundle

AUTO = "auto"
BY_OPERATOR, BY_CHAIN = "the operator", "the chain"


def option_of(fork: str) -> str:
    return f"rollup.{fork}-bundle"


def chosen_bundles(config: RollupConfig, values: Values) -> dict[str, UpgradeBundle]:
    """Return the bundles of forks that the operator gives, or that `auto` has chosen before.

    Raises OptionError for a file that is unreadable or wrong, and for a fork that the chain does not schedule."""
    result = {}
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
            if (chosen := _chosen_before(fork, values)) is not None:
                result[fork] = chosen
        else:
            file = read_bundle(fork, path, f"{option}: ")
            result[fork] = encode_bundle(fork, file, f"file {path}", BY_OPERATOR)
    return result


def _chosen_before(fork: str, values: Values) -> UpgradeBundle | None:
    """Return what `auto` wrote, which is one of the bundles of the package; None before that."""
    option = f"{option_of(fork)}={AUTO}"
    if values["sequencer.enabled"]:
        raise OptionError(
            f"{option}: a sequencer makes the block, and cannot learn its transactions from others: give their file"
        )
    path = Path(values["rollup.bundle-dir"]) / CHOSEN_FILE.format(fork=fork)
    try:
        content = read_private_file(path, MAX_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise OptionError(f"{option}: failed to read upgrade bundle: {path}: {error.strerror or error}") from None
    remedy = "remove the file: the node writes it again"
    file = _checked(fork, content, f"{option}: failed to read upgrade bundle: {path}", remedy)
    if all(file.sha256 != carried.sha256 for carried in BUNDLE_FORKS[fork].carried):
        raise OptionError(
            f"{option}: {path} is none of the bundles of this version: remove the file, or give it with"
            f" --{option_of(fork)}={path}"
        )
    return encode_bundle(fork, file, f"file {path}", BY_CHAIN)


def read_bundle(fork: str, path: str, prefix: str = "") -> BundleFile:
    """Return the checked bundle of a fork in a file. Raises OptionError for other files and other forks' bundles."""
    error_prefix = f"{prefix}failed to read upgrade bundle"
    remedy = f"take op-core/nuts/bundles/{fork}_nut_bundle.json as it is in op-node's repository"
    return _checked(fork, read_chain_file(path, error_prefix), f"{error_prefix}: {path}", remedy)


def _checked(fork: str, content: bytes, error_prefix: str, remedy: str) -> BundleFile:
    try:
        file = parse_bundle(content)
        check_bundle(file)
    except BundleError as error:
        raise OptionError(f"{error_prefix}: {error}; {remedy}") from None
    for other, bundles in BUNDLE_FORKS.items():
        if other != fork and any(file.sha256 == item.sha256 for item in bundles.carried):
            shown = f"rollup-node bundle-check --fork={other} shows it"
            raise OptionError(f"{error_prefix}: it is the bundle of {other}, not of {fork} ({shown})")
    return file


def folder_of_choice(values: Values) -> str | None:
    """Return the folder in which the node keeps the bundle that it chooses; None if it may choose none."""
    chooses = any(values[option_of(fork)] == AUTO for fork in SELECTABLE)
    return str(values["rollup.bundle-dir"]) if chooses else None


def check_folder_of_choice(values: Values) -> None:
    """Make the folder. Raises SetupError if the choice cannot be written, as it would wait for ever at the fork."""
    folder = folder_of_choice(values)
    if folder is None:
        return
    path = Path(folder).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        os.close(open_private_folder(path))
        writable = os.access(path, os.W_OK | os.X_OK)
    except OSError as error:
        raise SetupError(f"{path} cannot be used: {error.strerror or error} (--rollup.bundle-dir)") from None
    if not writable:
        raise SetupError(f"{path} cannot be written (--rollup.bundle-dir)")
