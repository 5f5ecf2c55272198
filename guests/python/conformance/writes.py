"""Cases that write. Entry points: a function for each."""

import json

import windlass
from windlass import Object, Page, log
from windlass.operations import Apply, Create, Delete, Get, List, Patch, Update
from words import CONFIG_MAP, DEPLOYMENT, Scene, at, color, named, refused, shown

# Text that differs in every encoding.
TEXT = 'żółć 🍐 "quoted" \\ back\tslash\x7f </end>\n'


def size(config_map: Object | None) -> str:
    """The size of a ConfigMap."""
    return at(config_map, "data", "size")


def create(scene: Scene) -> None:
    """A new object, an existing one, and an invalid one."""
    cluster = scene.cluster
    pear = scene.config_map("pear", {"color": "green"}, {"fruit": "pear"})
    created = cluster.create(pear)
    log.info("created", color=color(created), stored=shown("uid" in created["metadata"]))
    try:
        cluster.create(pear)
    except windlass.AlreadyExists as error:
        refused("again", error)
    try:
        cluster.create(scene.config_map("Wrong"))
    except windlass.Invalid as error:
        refused("wrong", error)
    log.info("read", color=color(cluster.get(CONFIG_MAP, scene.at("pear"))))


def update(scene: Scene) -> None:
    """A conflict, solved by a new read; without a version; dry; numbers that do not fit 32 bits."""
    cluster = scene.cluster
    stale = scene.read("apple")
    cluster.patch(CONFIG_MAP, scene.at("apple"), {"data": {"size": "2"}})
    stale["data"]["color"] = "green"
    try:
        updated = cluster.update(stale)
    except windlass.Conflict as error:
        refused("stale", error)
        fresh = scene.read("apple")
        fresh["data"]["color"] = "green"
        updated = cluster.update(fresh)
    log.info("updated", color=color(updated), size=size(updated))

    updated["data"]["color"] = "blue"
    answered = cluster.update(updated, dry_run=True)
    log.info("dry", answered=color(answered), stored=color(scene.read("apple")))

    replaced = cluster.update(scene.config_map("apple", {"color": "brown"}, {"set": "fruit"}))
    log.info("replaced", color=color(replaced), size=size(replaced))

    web = scene.web()
    web["spec"]["replicas"] = 3
    scaled = cluster.update(web)
    grace = at(scaled, "spec", "template", "spec", "terminationGracePeriodSeconds")
    log.info("scaled", replicas=at(scaled, "spec", "replicas"), grace=grace)


def patch(scene: Scene) -> None:
    """The three types of patch; dry run; of an absent object."""
    cluster, apple = scene.cluster, scene.at("apple")
    steps = [
        {"op": "test", "path": "/data/color", "value": "red"},
        {"op": "add", "path": "/data/shape", "value": "round"},
    ]
    patched = cluster.patch(CONFIG_MAP, apple, steps, type="json-patch")
    log.info("json", color=color(patched), shape=at(patched, "data", "shape"))

    patched = cluster.patch(CONFIG_MAP, apple, {"data": {"color": None, "size": "3"}})
    log.info("merge", color=color(patched), size=size(patched))

    image = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}}
    web = cluster.patch(DEPLOYMENT, scene.at("web"), image, type="strategic-merge")
    first, second = (at(web, "spec", "template", "spec", "containers", index, "image") for index in (0, 1))
    log.info("strategic", first=first, second=second)

    wanted = {"data": {"size": "4"}}
    answered = cluster.patch(CONFIG_MAP, apple, wanted, dry_run=True)
    log.info("dry", answered=size(answered), stored=size(cluster.get(CONFIG_MAP, apple)))
    try:
        cluster.patch(CONFIG_MAP, scene.at("nothing"), wanted)
    except windlass.NotFound as error:
        refused("absent", error)


def apply(scene: Scene) -> None:
    """With an owner; fields that are dropped; a field of another manager, and taking it over; dry."""
    cluster = scene.cluster
    wanted = scene.config_map("fig", {"color": "purple", "size": "1"})
    wanted["metadata"]["ownerReferences"] = [windlass.owner_reference(scene.primary)]
    applied = cluster.apply(wanted)
    owner = at(windlass.controller_of(applied), "name")
    log.info("applied", color=color(applied), size=size(applied), owner=owner)

    del wanted["data"]["size"]
    applied = cluster.apply(wanted)
    log.info("dropped", color=color(applied), size=size(applied))

    apple = scene.config_map("apple", {"color": "blue"})
    try:
        cluster.apply(apple)
    except windlass.Conflict as error:
        refused("theirs", error)
    log.info("taken", color=color(cluster.apply(apple, force=True)))

    wanted["data"]["color"] = "white"
    answered = cluster.apply(wanted, dry_run=True)
    log.info("dry", answered=color(answered), stored=color(cluster.get(CONFIG_MAP, scene.at("fig"))))


def status(scene: Scene) -> None:
    """The status without the other fields, by patch and by update."""
    cluster = scene.cluster
    wanted = {"status": {"replicas": 2, "readyReplicas": 1}}
    patched = cluster.patch(DEPLOYMENT, scene.at("web"), wanted, subresource="status")
    log.info("patched", ready=at(patched, "status", "readyReplicas"))

    web = scene.web()
    web["status"]["readyReplicas"] = 2
    web["spec"]["replicas"] = 9
    updated = cluster.update(web, subresource="status")
    log.info("updated", ready=at(updated, "status", "readyReplicas"), replicas=at(updated, "spec", "replicas"))


def delete(scene: Scene) -> None:
    """With preconditions that fail and that hold; dry; with every option; of what is not there."""
    cluster, apple, banana = scene.cluster, scene.at("apple"), scene.at("banana")
    try:
        cluster.delete(CONFIG_MAP, apple, uid="another")
    except windlass.Conflict as error:
        refused("uid", error)
    try:
        cluster.delete(CONFIG_MAP, banana, resource_version="1")
    except windlass.Conflict as error:
        refused("version", error)

    metadata = scene.read("apple")["metadata"]
    deleted = cluster.delete(CONFIG_MAP, apple, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    again = cluster.delete(CONFIG_MAP, apple)
    gone = cluster.get(CONFIG_MAP, apple) is None
    log.info("deleted", deleted=shown(deleted), again=shown(again), gone=shown(gone))

    deleted = cluster.delete(CONFIG_MAP, banana, dry_run=True)
    there = cluster.get(CONFIG_MAP, banana) is not None
    log.info("dry", deleted=shown(deleted), there=shown(there))

    deleted = cluster.delete(CONFIG_MAP, scene.at("cherry"), propagation="background", grace_period=0)
    log.info("at once", deleted=shown(deleted))


def ensure(scene: Scene) -> None:
    """Objects in every form that a server may keep otherwise."""
    for obj in json.loads(scene.primary["data"]["objects"]):
        obj["metadata"]["namespace"] = scene.namespace
        written = scene.cluster.ensure(obj)
        log.info("ensured", kind=obj["kind"], name=obj["metadata"]["name"], effect=written.effect.value)


def collection(scene: Scene) -> None:
    """Many objects with one call, by label."""
    scene.cluster.delete_collection(CONFIG_MAP, namespace=scene.namespace, labels="color=red")
    left = scene.cluster.list_all(CONFIG_MAP, namespace=scene.namespace, labels="set=fruit", live=True)
    log.info("left", names=named(left))


def batch(scene: Scene) -> None:
    """Every operation in one batch."""
    apple = scene.read("apple")
    apple["data"]["size"] = "7"
    operations = [
        Get(CONFIG_MAP, scene.request.key),
        Get(CONFIG_MAP, scene.at("nothing")),
        Create(scene.config_map("pear", {"color": "green"})),
        Create(scene.config_map("banana")),
        Update(apple),
        Patch(CONFIG_MAP, scene.at("banana"), {"data": {"size": "9"}}),
        Apply(scene.config_map("fig", {"color": "purple"})),
        Delete(CONFIG_MAP, scene.at("cherry")),
        Delete(CONFIG_MAP, scene.at("nothing")),
        List(CONFIG_MAP, namespace=scene.namespace, fields="metadata.name=banana"),
    ]
    for answer in scene.cluster.batch(operations, return_errors=True):
        answered(answer)


def answered(answer: Object | Page | windlass.ApiError | None) -> None:
    """Logs an answer of a batch."""
    match answer:
        case None:
            log.info("nothing")
        case windlass.ApiError():
            refused("refused", answer)
        case Page():
            log.info("page", names=named(answer))
        case _:
            log.info("object", name=at(answer, "metadata", "name"), color=color(answer), size=size(answer))


def text(scene: Scene) -> None:
    """A round trip of unusual text."""
    scene.cluster.create(scene.config_map("text", {"text": TEXT}))
    read = scene.cluster.get(CONFIG_MAP, scene.at("text"), live=True)
    log.info("text", same=shown(at(read, "data", "text") == TEXT), text=TEXT)


def large(scene: Scene) -> None:
    """A round trip of an object of 300 KB."""
    scene.cluster.create(scene.config_map("large", {"text": "0123456789" * 30_000}))
    log.info("large", length=len(scene.read("large")["data"]["text"]))
