"""Where exceptions were raised, in the author's files. Entry points: :func:`located` and :func:`frames`."""

import os
import sys
import traceback

_MOST_FRAMES = 8
_MOST_CAUSES = 4

# The standard library, the SDK and generated code: their lines say nothing about the guest.
_OTHERS = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(__file__) + os.sep, "<")


def located(error: BaseException) -> str:
    """``KeyError: 'data'``, a line for each frame, as ``at helper guest.py:23``, and what caused it, as ``after ValueError: …``."""
    told: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(told) < _MOST_CAUSES:
        told.append("\n".join([f"{type(cause).__name__}: {cause}", *frames(cause)]))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\nafter ".join(told)


def frames(error: BaseException) -> list[str]:
    """The frames in the author's files, the innermost first."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OTHERS)]
    return [f"at {frame.name} {_file(frame.filename)}:{frame.lineno}" for frame in own[::-1][:_MOST_FRAMES]]


def _file(path: str) -> str:
    """The path within the folder of modules that it was found in."""
    folders = [os.path.join(folder, "") for folder in sys.path if folder]
    return path.removeprefix(max((folder for folder in folders if path.startswith(folder)), key=len, default=""))
