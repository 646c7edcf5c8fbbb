"""Loggers with short, coloured lines."""
import logging
import sys

__all__ = ["CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger"]

CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING = (logging.CRITICAL, logging.DEBUG, logging.ERROR, logging.INFO,
                                                 logging.NOTSET, logging.WARNING)
_COLOURS = {logging.DEBUG: "\x1b[32m", logging.INFO: "\x1b[32m", logging.WARNING: "\x1b[33m"}  # others: red


class _Formatter(logging.Formatter):
    """I1115 12:30:01 4711 file:function:line] message"""

    def __init__(self, colored):
        super().__init__(datefmt="%m%d %H:%M:%S")
        self._colored = colored

    def format(self, record):
        """The line of a record."""
        head = (f"{record.levelname[:1]}{self.formatTime(record, self.datefmt)} {record.process} "
                f"{record.filename}:{record.funcName}:{record.lineno}]")
        if self._colored:
            head = _COLOURS.get(record.levelno, "\x1b[31m") + head + "\x1b[0m"
        self._style._fmt = head.replace("%", "%%") + " %(message)s"
        return super().format(record)


def get_logger(name=None, filename=None, filemode=None, level=WARNING):
    """A logger that writes to a file, or to the terminal in colours; one per name."""
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_init_done", None):
        logger._init_done = True
        if filename:
            handler = logging.FileHandler(filename, filemode or "a")
        else:
            handler = logging.StreamHandler()
        handler.setFormatter(_Formatter(not filename and getattr(sys.stderr, "isatty", lambda: False)()))
        logger.addHandler(handler)
        logger.setLevel(level)
    return logger


def getLogger(name=None, filename=None, filemode=None, level=WARNING):  # noqa: N802
    """The old name of get_logger."""
    return get_logger(name, filename, filemode, level)
