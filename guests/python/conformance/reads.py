"""Cases that read. Entry points: read, list_all and many."""

from windlass import Page, log
from words import CONFIG_MAP, DEPLOYMENT, Scene, at, color, named, shown


def read(scene: Scene) -> None:
    """From the cache and from the server; parts of an object; absent objects."""
    cluster, apple, nothing = scene.cluster, scene.at("apple"), scene.at("nothing")
    log.info("cluster", name=cluster.name)

    cached = cluster.get(CONFIG_MAP, apple)
    log.info("color", cached=color(cached), live=color(cluster.get(CONFIG_MAP, apple, live=True)))

    for call, live in ("cached metadata", False), ("live metadata", True):
        found = cluster.get(CONFIG_MAP, apple, live=live, metadata_only=True)
        log.info(call, fruit=at(found, "metadata", "labels", "fruit"), color=color(found))

    scale = cluster.get(DEPLOYMENT, scene.at("web"), subresource="scale")
    log.info("scale", kind=at(scale, "kind"), replicas=at(scale, "spec", "replicas"))

    absent = [cluster.get(CONFIG_MAP, nothing, live=live) is None for live in (False, True)]
    log.info("absent", cached=shown(absent[0]), live=shown(absent[1]))

    log.info("namespace", phase=at(cluster.get("v1/Namespace", scene.namespace, live=True), "status", "phase"))


def list_all(scene: Scene) -> None:
    """By label, index and field; page by page; in one namespace and in all."""
    cluster, here = scene.cluster, scene.namespace
    log.info("by label", names=named(cluster.list_all(CONFIG_MAP, namespace=here, labels="set=fruit")))
    log.info("by index", names=named(cluster.list_all(CONFIG_MAP, namespace=here, index=("color", "red"))))
    log.info("by field", names=named(cluster.list_all(CONFIG_MAP, namespace=here, fields="metadata.name=banana")))

    first = cluster.list(CONFIG_MAP, namespace=here, labels="set=fruit", limit=2)
    _page("first page", first)
    rest = cluster.list(CONFIG_MAP, namespace=here, labels="set=fruit", limit=2, continue_token=first.continue_token)
    _page("second page", rest)

    paged = cluster.list_all(CONFIG_MAP, namespace=here, labels="set=fruit", page_size=2, live=True)
    log.info("page by page", names=named(paged))

    metadata = cluster.list(CONFIG_MAP, namespace=here, labels="set=fruit", live=True, metadata_only=True)
    log.info("metadata", names=named(metadata), with_data=sum("data" in obj for obj in metadata))

    log.info("everywhere", names=named(cluster.list_all(CONFIG_MAP, labels=f"of={here}", live=True)))


def _page(which: str, page: Page) -> None:
    log.info(
        which,
        names=named(page),
        more=shown(page.continue_token is not None),
        versioned=shown(page.resource_version != ""),
    )


def many(scene: Scene) -> None:
    """So many reads that a garbage collector must run."""
    apple = scene.at("apple")
    log.info("many", read=sum(scene.cluster.get(CONFIG_MAP, apple) is not None for _ in range(3000)))
