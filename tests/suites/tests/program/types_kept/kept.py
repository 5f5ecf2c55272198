"""Objects that a server stored survive their types: each is read, changed and written, and no other field differs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import windlass
from cluster import CLUSTER, Cluster
from cluster_class import CLUSTER_CLASS, ClusterClass
from config_map import CONFIG_MAP, ConfigMap
from custom_resource_definition import CUSTOM_RESOURCE_DEFINITION, CustomResourceDefinition
from deployment import DEPLOYMENT, Deployment
from issuer import ISSUER, Issuer
from machine_deployment import MACHINE_DEPLOYMENT, MachineDeployment
from odd import ODD, Odd
from pod import POD, Pod
from windlass import Description, Reconciler, Request, Watch, key_of
from windlass.operations import Get, Update
from windlass.testing import Script


def read(file: str) -> Any:
    return json.loads(Path(file).read_text())


class Changes(Reconciler):
    """Changes an object by its type."""

    def __init__(self, kind: str, change: Callable[[Any], None]) -> None:
        self.kind, self.change = kind, change

    def describe(self) -> Description:
        return Description("changes", watches=[Watch(self.kind)])

    def reconcile(self, request: Request, cluster: windlass.Cluster) -> None:
        found = cluster.get(self.kind, request.key)
        assert found is not None
        self.change(found)
        cluster.update(found)


def survives(file: str, kind: str, change: Callable[[Any], None]) -> None:
    """Changes the object of a file as a guest does, and compares what it sends with what is expected."""
    before, expected = read(f"{file}.json"), read(f"{file}.changed.json")
    script = Script()
    script.expect(Get(kind, key_of(before)), returns=before)
    script.expect(Update(expected), returns=expected)
    script.reconcile(Changes(kind, change), key_of(before))


def change_odd(odd: Odd) -> None:
    odd["metadata"]["labels"]["kept"] = "yes"
    odd["spec"]["ports"][1]["port"] = 8443


def change_cluster(cluster: Cluster) -> None:
    cluster["metadata"]["labels"]["kept"] = "yes"
    cluster["spec"]["topology"]["version"] = "v1.35.0"


def change_cluster_class(of: ClusterClass) -> None:
    of["metadata"]["labels"]["kept"] = "yes"
    of["spec"]["variables"][0]["required"] = False


def change_config_map(page: ConfigMap) -> None:
    page["metadata"]["labels"]["kept"] = "yes"
    page["data"]["b"] = "2"


def change_definition(definition: CustomResourceDefinition) -> None:
    definition["metadata"]["labels"]["kept"] = "yes"
    definition["spec"]["versions"][0]["served"] = False


def change_deployment(servers: Deployment) -> None:
    servers["metadata"]["labels"]["kept"] = "yes"
    servers["spec"]["replicas"] = 3


def change_issuer(issuer: Issuer) -> None:
    issuer["metadata"]["labels"]["kept"] = "yes"
    issuer["spec"]["acme"]["server"] = "https://other.example.com"


def change_machine_deployment(machines: MachineDeployment) -> None:
    machines["metadata"]["labels"]["kept"] = "yes"
    machines["spec"]["replicas"] = 3


def change_pod(pod: Pod) -> None:
    pod["metadata"]["labels"]["kept"] = "yes"
    pod["spec"]["containers"][0]["image"] = "nginx:2"


survives("odd", ODD, change_odd)
survives("cluster", CLUSTER, change_cluster)
survives("cluster_class", CLUSTER_CLASS, change_cluster_class)
survives("config_map", CONFIG_MAP, change_config_map)
survives("custom_resource_definition", CUSTOM_RESOURCE_DEFINITION, change_definition)
survives("deployment", DEPLOYMENT, change_deployment)
survives("issuer", ISSUER, change_issuer)
survives("machine_deployment", MACHINE_DEPLOYMENT, change_machine_deployment)
survives("pod", POD, change_pod)
survives("stored_odd", ODD, change_odd)
