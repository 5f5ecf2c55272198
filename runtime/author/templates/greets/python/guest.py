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

# The label that asks for a greeting; its value is the name in the greeting.
GREET = "hello.windlass.dev/greet"


class Guest(Reconciler):
    def describe(self) -> Description:
        """Watches the ConfigMaps with the label, and the greetings: an event on a greeting enqueues its owner."""
        return Description(
            "greets the people that ConfigMaps name",
            watches=[Watch(CONFIG_MAP, labels=GREET), Watch(CONFIG_MAP, Enqueue.CONTROLLER_OWNER)],
        )

    def reconcile(self, request: Request, cluster: Cluster) -> Action | None:
        """Creates or updates one greeting. Called again until it succeeds, and after every change that may matter.
        A request names an object and never an event. An exception is retried with growing delay."""
        # Reads come from the host's cache. A deleted object needs nothing: the garbage collector deletes its greeting.
        asking = cluster.get(CONFIG_MAP, request.key)
        if asking is None:
            return None
        who = asking["metadata"].get("labels", {}).get(GREET)
        if who is None:
            return None
        wanted = new_object(CONFIG_MAP, request.key.sibling(f"{request.name}-greeting"))
        wanted["metadata"]["ownerReferences"] = [owner_reference(asking)]
        wanted["data"] = {"greeting": f"hello, {who}, from {cluster.name}"}

        # Write only the differences.
        name = wanted["metadata"]["name"]
        present = cluster.get(CONFIG_MAP, request.key.sibling(name))
        if present is not None and present.get("data") == wanted["data"]:
            return None
        cluster.apply(wanted, force=True)
        cluster.event(asking, "Greeted", f"{who} is greeted by {name}")
        log.info("greeted", who=who, greeting=name)
        return None
