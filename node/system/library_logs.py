"""The standard `logging` of libraries, and Python's warnings, as lines of our log."""

import logging
import traceback

from rollup_node.stages.io.log.logger import Level, get_logger


class LibraryHandler(logging.Handler):
    """Passes records of libraries to our log. Their info counts as debug, their debug as trace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line of a library, with its traceback if it has one."""
        if record.levelno >= logging.ERROR:
            level = Level.ERROR
        elif record.levelno >= logging.WARNING:
            level = Level.WARN
        else:
            level = Level.DEBUG if record.levelno >= logging.INFO else Level.TRACE
        trace = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info else None
        get_logger(record.name).write(level, record.getMessage(), {}, trace)


def capture_library_logs(level: Level) -> None:
    """Replace the handlers of the root logger by ours, for lines up to `level`, and logs Python's warnings."""
    logging.getLogger().handlers[:] = [LibraryHandler()]
    set_library_level(level)
    logging.captureWarnings(True)


def set_library_level(level: Level) -> None:
    """Spares libraries the records that `level` does not let through."""
    known = {Level.TRACE: logging.DEBUG, Level.DEBUG: logging.INFO}
    logging.getLogger().setLevel(known.get(level, logging.WARNING))
