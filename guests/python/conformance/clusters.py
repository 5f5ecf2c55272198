"""Cases about other clusters. Entry points: clusters, open and across."""

import windlass
from windlass import fleet, log
from windlass.operations import Create, Delete, Get
from words import CONFIG_MAP, Scene, at, color, names, refused, shown
from writes import answered


def clusters(_scene: Scene) -> None:
    """All granted clusters, some by label, and an invalid selector."""
    for known in fleet.clusters():
        labels, properties = (names(f"{k}:{v}" for k, v in each.items()) for each in (known.labels, known.properties))
        log.info("cluster", name=known.name, labels=labels, properties=properties, ready=shown(known.ready))
    log.info("by label", names=names(known.name for known in fleet.clusters("tier=second")))
    try:
        fleet.clusters("tier in (")
    except windlass.ApiError as error:
        refused("no selector", error)


def open(scene: Scene) -> None:
    """Reads and writes in a granted cluster; clusters that are not granted or not there."""
    with fleet.open("beta") as beta:
        log.info("opened", name=beta.name, color=color(beta.get(CONFIG_MAP, scene.at("apple"))))
        sent = beta.create(scene.config_map("sent", {"from": scene.cluster.name}))
    log.info("sent", **{"from": at(sent, "data", "from")})
    for name in ("gamma", "bye", ""):
        try:
            fleet.open(name)
        except windlass.ApiError as error:
            refused("not opened", error)


def across(scene: Scene) -> None:
    """A batch over several clusters."""
    get = Get(CONFIG_MAP, scene.at("apple"))
    operations = [
        ("alpha", get),
        ("beta", get),
        ("gamma", get),
        ("beta", Create(scene.config_map("pear", {"color": "green"}))),
        ("bye", Delete(CONFIG_MAP, scene.at("apple"))),
    ]
    for answer in fleet.batch(operations, return_errors=True):
        answered(answer)
