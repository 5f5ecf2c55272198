"""Cases about events, the log, the configuration and the time. Entry points: a function for each."""

import random

import windlass
from windlass import log
from words import Scene, names, shown


def events(scene: Scene) -> None:
    """One event of each type."""
    scene.cluster.event(scene.primary, "Checked", "all is well")
    scene.cluster.event(scene.config_map("apple"), "Odd", 'the apple is odd: "żółty"', warning=True)
    log.info("told")


# Text whose last character is cut: half of a pair of UTF-16.
CUT = "half \ud83c"


def lines(_scene: Scene) -> None:
    """Each level; values that have to be quoted, are empty or have control characters; no values."""
    log.debug("looked", at="apple")
    log.info("did", what="two words", count=2)
    log.warn("odd", text='żółty = "yellow"', empty="")
    log.error("broken", line="one\ntwo")
    log.info("no values")
    log.info("cut", text=CUT)


def config(_scene: Scene) -> None:
    """Values of every type."""
    configured = windlass.config()
    log.info(
        "config",
        greeting=configured["greeting"],
        count=configured["count"],
        list=names(configured["list"]),
        deep=shown(configured["nested"]["deep"]),
    )


def clock(_scene: Scene) -> None:
    """The format of the time, and that it goes forward."""
    first, second = windlass.now(), windlass.now()
    text = windlass.timestamp(first)
    log.info("clock", length=len(text), zone=text[-1], forward=shown(second >= first))


def draws(_scene: Scene) -> None:
    """Two random numbers."""
    log.info("random", first=random.random(), second=random.random())
