"""What a check found [LIF24]."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code


class FindingLevel(Enum):
    """How severe a finding is: ERROR keeps a node from its work, and ends its start if the start checks it as well."""

    OK = "ok"
    NOT_CHECKED = "not checked"
    WARNING = "warning"
    ERROR = "error"


class Finding(NamedTuple):
    """One line of a report.

    `check` names what was checked, such as `L1 127.0.0.1:8545`; `advice` takes the place of the remedy of the code."""

    level: FindingLevel
    check: str
    text: str
    code: Code | None = None
    advice: str = ""

    @property
    def remedy(self) -> str:
        """What the operator can do; empty where nothing is wrong."""
        return self.advice or ("" if self.code is None else self.code.remedy)

    @property
    def is_error(self) -> bool:
        """Whether the level is ERROR."""
        return self.level is FindingLevel.ERROR


def ok(check: str, text: str) -> Finding:
    """Return a check that has passed."""
    return Finding(FindingLevel.OK, check, text)


def not_checked(check: str, why: str) -> Finding:
    """Return a check that needs what another one did not find."""
    return Finding(FindingLevel.NOT_CHECKED, check, why)


def warning(check: str, code: Code, text: str, advice: str = "") -> Finding:
    """Return a finding with which a node can start."""
    return Finding(FindingLevel.WARNING, check, text, code, advice)


def error(check: str, code: Code, text: str, advice: str = "") -> Finding:
    """Return a finding with which a node cannot work."""
    return Finding(FindingLevel.ERROR, check, text, code, advice)


def require(findings: Iterable[Finding], log: Logger) -> None:
    """Log the warnings. Raises SetupError for the first error."""
    for finding in findings:
        if finding.is_error:
            code = "" if finding.code is None else f" ({finding.code.text})"
            raise SetupError(f"{finding.text}: {finding.remedy}{code}")
        if finding.level is FindingLevel.WARNING and finding.code is not None:
            log.warn(finding.text, code=finding.code.text, do=finding.remedy)
