"""Greets: keeps a ConfigMap <name>-greeting beside each ConfigMap labelled hello.windlass.dev/greet."""

from windlass import (
    Action,
    Cluster,
    Description,
    Enqueue,
    Reconciler,
    Request,
    Watch,
    log,
    new_object,
    owner_reference,
)

CONFIG_MAP = "v1/ConfigMap"

# The label that asks for a greeting; its value is who is greeted.
GREET = "hello.windlass.dev/greet"


class Guest(Reconciler):
    def describe(self) -> Description:
        """What is watched: those who ask, and the greetings, which lead back to their owner."""
        return Description(
            "greets whom ConfigMaps ask to greet",
            watches=[Watch(CONFIG_MAP, labels=GREET), Watch(CONFIG_MAP, Enqueue.CONTROLLER_OWNER)],
        )

    def reconcile(self, request: Request, cluster: Cluster) -> Action | None:
        """Makes one greeting as it should be. Called again until it succeeds, and whenever something may have changed: a
        request says what to look at, never what happened. An exception is tried again with growing delay."""
        # Reads come from the host's cache. What is gone needs nothing: the garbage collector takes what it owned.
        asking = cluster.get(CONFIG_MAP, request.key)
        if asking is None:
            return None
        who = asking["metadata"].get("labels", {}).get(GREET)
        if who is None:
            return None
        wanted = new_object(CONFIG_MAP, request.key.sibling(f"{request.name}-greeting"))
        wanted["metadata"]["ownerReferences"] = [owner_reference(asking)]
        wanted["data"] = {"greeting": f"hello, {who}, from {cluster.name}"}

        # Write only what differs.
        name = wanted["metadata"]["name"]
        present = cluster.get(CONFIG_MAP, request.key.sibling(name))
        if present is not None and present.get("data") == wanted["data"]:
            return None
        cluster.apply(wanted, force=True)
        cluster.event(asking, "Greeted", f"{who} is greeted by {name}")
        log.info("greeted", who=who, greeting=name)
        return None
