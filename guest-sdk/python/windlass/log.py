"""Lines in the host's log: a constant message, values as fields. Entry points: :func:`debug`, :func:`info`, :func:`warn`,
:func:`error`. The host adds tenant, reconciler, cluster and reconcile id. Printed lines become lines of the log too.
"""

from typing import Any

from .host import current


def debug(message: str, /, **fields: Any) -> None:
    """For the guest's author."""
    _write("debug", message, fields)


def info(message: str, /, **fields: Any) -> None:
    """A step that was done: ``log.info("greeted", who=name)``. Values are written as ``str`` shows them."""
    _write("info", message, fields)


def warn(message: str, /, **fields: Any) -> None:
    """A problem that was handled."""
    _write("warn", message, fields)


def error(message: str, /, **fields: Any) -> None:
    """A problem that was not handled."""
    _write("error", message, fields)


def _write(level: str, message: str, fields: dict[str, Any]) -> None:
    current().log(level, message, [(key, str(value)) for key, value in fields.items()])
