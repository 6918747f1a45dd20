"""The files of upgrade bundles that the chain has.

One that differs from ours is written for the operator [UPG25], and one that is chosen among those of the package for
the next start [UPG26]."""

from pathlib import Path

from rollup_node.stages.engine.attributes.activation_hold import OtherUpgrade
from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import RestartError
from rollup_node.stages.protocol.forks.bundles import CHOSEN_FILE, DRAFTS
from rollup_node.stages.protocol.hex_encoding import to_hex


class UpgradeFiles:
    """Writes to `folder`, which is `rollup.bundle-dir`."""

    def __init__(self, folder: str, log: Logger) -> None:
        self._folder, self._log = Path(folder).absolute(), log

    def differs(self, other: OtherUpgrade, confirmed: bool) -> None:
        """Says that derivation waits before a block with another bundle, and writes that bundle."""
        fields: dict[str, object] = {"fork": other.fork, "block": other.number, "hash": to_hex(other.hash)}
        fields |= {"difference": other.difference, "used": other.used, "confirmed_by_l1": confirmed}
        if not other.same_bundle:
            path = self._folder / other.file_name
            fields |= {"seen": other.sha256, "known": _known(other), "file": self._written(path, other.file)}
        text = "the chain has other upgrade transactions than this node"
        self._log.error(text, code=Code.BUNDLE_DIFFERS.text, **fields, do=Code.BUNDLE_DIFFERS.remedy)

    def choose(self, other: OtherUpgrade) -> None:
        """Keep the chain's bundle for this and the next starts. Raises RestartError once it is written."""
        path = self._folder / CHOSEN_FILE.format(fork=other.fork)
        written = self._written(path, other.file)
        if written == str(path):
            text = "taking the upgrade bundle of the chain, which this package has and L1 confirms"
            self._log.warn(text, code=Code.BUNDLE_CHOSEN.text, fork=other.fork, sha256=other.sha256, file=written)
            raise RestartError(f"the bundle {other.sha256[:8]} takes the place of {other.used[:8]}")

    def _written(self, path: Path, content: bytes) -> str:
        """Return the path from the root on, or why nothing could be written to it."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_private_file(path, content, 0o644, durable=True)
        except OSError as error:
            return f"not written to {path}: {error.strerror or error}"
        return str(path)


def _known(other: OtherUpgrade) -> str:
    if other.carried is not None:
        return f"this package has it ({other.carried.found})"
    return DRAFTS.get(other.sha256, "not known to this version")
