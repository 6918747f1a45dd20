"""Lines that are logged once, at the start, about options and files."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.log_formats import formatter
from rollup_node.node.system.log_pipes import Output
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.messages.codes import Code


class Notice(NamedTuple):
    """A line to log at the start, with its fields."""

    level: Level
    text: str
    fields: Mapping[str, object] = MappingProxyType({})


def log_notices(notices: Iterable[Notice], settings: NodeSettings) -> None:
    """Log the notices to the output of the node, in its format.

    A warning or an error without a code is one of the options."""
    to_line = formatter(settings.log)
    output = Output(settings.log_output, lambda lines: b"")
    log.configure(SUPERVISOR, settings.log.level, lambda record: output.write(to_line(record)))
    logger = log.get_logger("options")
    for notice in notices:
        coded = notice.fields if notice.level > Level.WARN else {"code": Code.OPTIONS.text, **notice.fields}
        logger.write(notice.level, notice.text, coded)
    output.flush()
