"""Keeps a ConfigMap with the text of each {{kind}}, and a copy of it in another namespace."""

from typing import cast

import {{stem}} as api
from windlass import Action, Cluster, Dependents, Description, Key, Reconciler, Request, Watch, new_object

CONFIG_MAP = "v1/ConfigMap"

# The kinds of the objects that a {{kind}} should have. It cannot own the copy, which is in another namespace: the finalizer
# waits for its deletion. A controller without such objects needs no finalizer.
PARTS = Dependents([CONFIG_MAP], finalizer="{{group}}/copy")


class Guest(Reconciler):
    def describe(self) -> Description:
        """Watches the kind, and its dependents: an event on one of them enqueues its owner."""
        watches = [Watch(api.{{constant}}), *PARTS.watches]
        return Description("keeps a ConfigMap for each {{kind}}", watches=watches, indexes=PARTS.indexes)

    def reconcile(self, request: Request, cluster: Cluster) -> Action | None:
        """Brings the dependents of one object to their desired state. Called again until it succeeds, and after every change
        that may matter. A request names an object and never an event. An exception is retried with growing delay."""
        # Reads come from the host's cache.
        read = cluster.get(api.{{constant}}, request.key)
        if read is None:
            return None
        spec = cast(api.{{type}}, read)["spec"]
        # The name of the object alone may be that of a ConfigMap of somebody else.
        name = f"{request.name}-{{singular}}"
        keys = [request.key.sibling(name)]
        if "copyTo" in spec:
            keys.append(Key(spec["copyTo"], f"{request.namespace}.{name}"))
        desired = [new_object(CONFIG_MAP, key) | {"data": {"text": spec["text"]}} for key in keys]

        # Applies what differs, deletes what is no longer desired, and sets the conditions Ready and Progressing.
        status = {"observedGeneration": read["metadata"]["generation"]}
        return PARTS.reconcile(cluster, read, desired, status=status)
