"""Greets in one language: beside each ConfigMap labelled polyglot.windlass.dev/greet it keeps a ConfigMap <name>-<language>."""

from windlass import Action, Cluster, Description, Enqueue, Reconciler, Request, Watch, config, log, new_object, owner_reference

CONFIG_MAP = "v1/ConfigMap"

# The label that asks for greetings; its value is the name in the greeting.
GREET = "polyglot.windlass.dev/greet"


def settings() -> tuple[str, str]:
    """What the operator configures: the end of the greeting's name, and what is said."""
    return config()["language"], config()["greeting"]


class Guest(Reconciler):
    def describe(self) -> Description:
        settings()  # wrong ones fail the load
        return Description(
            "greets in one language, in Python",
            watches=[Watch(CONFIG_MAP, labels=GREET), Watch(CONFIG_MAP, Enqueue.CONTROLLER_OWNER)],
        )

    def reconcile(self, request: Request, cluster: Cluster) -> Action | None:
        asking = cluster.get(CONFIG_MAP, request.key)
        if asking is None:
            return None
        who = asking["metadata"].get("labels", {}).get(GREET)
        if who is None:
            return None
        language, greeting = settings()
        wanted = new_object(CONFIG_MAP, request.key.sibling(f"{request.name}-{language}"))
        wanted["metadata"]["ownerReferences"] = [owner_reference(asking)]
        wanted["data"] = {"greeting": f"{greeting}, {who}, from {cluster.name}"}
        present = cluster.get(CONFIG_MAP, request.key.sibling(wanted["metadata"]["name"]))
        if present is None or present.get("data") != wanted["data"]:
            cluster.apply(wanted, force=True)
            log.info("greeted", who=who, greeting=wanted["metadata"]["name"])
        return None
