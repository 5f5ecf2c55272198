"""Cases about calls that fail, by the code of their errors. Entry points: codes, limits and cancelled."""

import windlass
from windlass import log
from windlass.operations import Get
from words import CONFIG_MAP, Scene, refused


def codes(scene: Scene) -> None:
    """Errors of a server, errors of the host, and answers that cannot be read."""
    for answer in ("400", "401", "403", "409", "410", "418", "429", "500", "503", "504", "cut", "endless"):
        try:
            scene.cluster.get(CONFIG_MAP, scene.at(f"answers-{answer}"), live=True)
        except windlass.ApiError as error:
            refused(answer, error)
    for kind in ("v1/Pod", "apps/v1/Submarine"):
        try:
            scene.cluster.get(kind, scene.at("nothing"))
        except windlass.ApiError as error:
            refused(kind.rpartition("/")[2], error)


def limits(scene: Scene) -> None:
    """More operations than a batch may have."""
    replies = scene.cluster.batch([Get(CONFIG_MAP, scene.at("apple"))] * 21, return_errors=True)
    log.info("limits", replies=len(replies))
    if isinstance(replies[0], windlass.ApiError):
        refused("too many", replies[0])


def cancelled(scene: Scene) -> None:
    """A call that the host ends at its deadline."""
    try:
        scene.cluster.get(CONFIG_MAP, scene.at("answers-never"), live=True)
    except windlass.Cancelled as error:
        refused("cancelled", error)
