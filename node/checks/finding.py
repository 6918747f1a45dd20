"""What the checks before a start find, and whether its addresses can be listened on."""

import errno
import socket
from collections.abc import Iterable, Sequence
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
    """A line of a report on `check`, such as `L1 127.0.0.1:8545`; `advice` replaces the remedy of the code."""

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
            raise SetupError(f"{finding.text}: {finding.remedy}{code}", finding.code)
        if finding.level is FindingLevel.WARNING and finding.code is not None:
            log.warn(finding.text, code=finding.code.text, do=finding.remedy)


class ListenAddress(NamedTuple):
    """A socket on which the node listens, and the options that set its address."""

    address_option: str
    port_option: str
    address: str
    port: int
    is_udp: bool = False

    @property
    def name(self) -> str:
        return f"UDP port {self.port}" if self.is_udp else f"port {self.port}"


def check_port(listener: ListenAddress) -> Finding:
    """Whether it is possible to listen there now; port 0 is always free."""
    address, port, check = listener.address, listener.port, f"--{listener.port_option}"
    if port == 0:
        return ok(check, "any free port")
    kind = socket.SOCK_DGRAM if listener.is_udp else socket.SOCK_STREAM
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as opened:
            if not listener.is_udp:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(target)
            if not listener.is_udp:
                opened.listen(1)
    except OSError as failure:
        if failure.errno == errno.EADDRINUSE:
            advice = f"stop the program that uses it, or give another --{listener.port_option}"
            return error(check, Code.PORT_TAKEN, f"{listener.name} is in use on {address}", advice)
        options = f"(--{listener.address_option}, --{listener.port_option})"
        text = f"cannot listen on {address} {listener.name} {options}: {failure.strerror or failure}"
        return error(check, Code.PORT_ADDRESS, text)
    return ok(check, f"{listener.name} is free on {address}")


def check_ports(listeners: Sequence[ListenAddress]) -> list[Finding]:
    """Check every listener of the node, also against each other."""
    taken: dict[tuple[int, bool], str] = {}
    result = []
    for listener in listeners:
        key, option = (listener.port, listener.is_udp), listener.port_option
        if listener.port and key in taken:
            text = f"--{taken[key]} and --{option} are both {listener.port}"
            result.append(error(f"--{option}", Code.PORT_TAKEN, text, "give one another port"))
        else:
            result.append(check_port(listener))
        taken[key] = option
    return result
