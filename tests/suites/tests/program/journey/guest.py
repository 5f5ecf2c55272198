"""Keeps a ConfigMap with the size of each Shelf."""

from typing import cast

from shelf import SHELF, Shelf, ShelfStatus
from windlass import Cluster, Description, Enqueue, Reconciler, Request, Watch, new_object, set_controller

CONFIG_MAP = "v1/ConfigMap"


class Guest(Reconciler):
    def describe(self) -> Description:
        watches = [Watch(SHELF), Watch(CONFIG_MAP, Enqueue.CONTROLLER_OWNER)]
        return Description("labels shelves", watches=watches)

    def reconcile(self, request: Request, cluster: Cluster) -> None:
        read = cluster.get(SHELF, request.key)
        if read is None:
            return
        shelf = cast(Shelf, read)
        label = new_object(CONFIG_MAP, request.key)
        set_controller(label, read)
        label["data"] = {"text": f"room for {shelf['spec']['size']}"}
        cluster.ensure(label)
        status: ShelfStatus = {"phase": "Labelled"}
        cluster.set_status(SHELF, request.key, status)
