"""Cases about how a reconcile ends. Entry points: a function for each."""

import around
import windlass
from windlass import DONE, Action, requeue_after
from words import CONFIG_MAP, Scene


def done(_scene: Scene) -> Action:
    """Well."""
    return DONE


def requeue(_scene: Scene) -> Action:
    """Well, and again later."""
    return requeue_after(90)


def requeue_now(_scene: Scene) -> Action:
    """Well, and again at once."""
    return requeue_after(0)


def retry(_scene: Scene) -> Action:
    """Badly, for now."""
    raise windlass.Retry("not yet")


def terminal(_scene: Scene) -> Action:
    """Badly, for good."""
    raise windlass.Terminal("never")


def terminal_cut(_scene: Scene) -> Action:
    """Badly, for good, with half a character."""
    raise windlass.Terminal(around.CUT)


def retry_api(scene: Scene) -> None:
    """With the error of a call."""
    scene.cluster.get(CONFIG_MAP, scene.at("answers-503"), live=True)


def terminal_api(scene: Scene) -> None:
    """With the error of a call, for good."""
    try:
        retry_api(scene)
    except windlass.ApiError as error:
        raise windlass.Terminal(f"reading: {error}") from error


def exception(_scene: Scene) -> Action:
    """With an exception of the language."""
    raise RuntimeError("broken")
