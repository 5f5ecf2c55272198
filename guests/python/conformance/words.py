"""Code that cases share: objects, and how values and errors are logged. Entry points: Scene and refused."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import windlass
from windlass import Cluster, Key, Object, Request, log

CONFIG_MAP = "v1/ConfigMap"
DEPLOYMENT = "apps/v1/Deployment"
# The text of a log line for an absent value.
NONE = "none"


@dataclass
class Scene:
    """The surroundings of a case."""

    cluster: Cluster
    request: Request
    primary: Object

    @property
    def namespace(self) -> str:
        """That of the case, which has it for itself."""
        return self.request.namespace or ""

    def at(self, name: str) -> Key:
        """An object of the namespace."""
        return self.request.key.sibling(name)

    def config_map(self, name: str, data: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> Object:
        """A ConfigMap of the namespace."""
        made = windlass.new_object(CONFIG_MAP, self.at(name))
        if labels:
            made["metadata"]["labels"] = labels
        if data:
            made["data"] = data
        return made

    def read(self, name: str) -> Object:
        """A ConfigMap of the namespace, which is there."""
        found = self.cluster.get(CONFIG_MAP, self.at(name))
        if found is None:
            raise windlass.Retry(f"there is no ConfigMap {name}")
        return found

    def web(self) -> Object:
        """The Deployment, from the API server."""
        found = self.cluster.get(DEPLOYMENT, self.at("web"), live=True)
        if found is None:
            raise windlass.Retry("there is no Deployment web")
        return found


def shown(value: Any) -> str:
    """A value as lines have it."""
    match value:
        case None:
            return NONE
        case bool():
            return "true" if value else "false"
    return str(value)


def at(obj: Object | None, *path: str | int) -> str:
    """A part of an object as lines have it."""
    value: Any = obj
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return NONE
    return shown(value)


def color(config_map: Object | None) -> str:
    """The color of a ConfigMap."""
    return at(config_map, "data", "color")


def names(found: Iterable[str]) -> str:
    """Names, separated by commas."""
    return ",".join(found)


def named(objects: Iterable[Object]) -> str:
    """The names of objects, separated by commas."""
    return names(obj["metadata"]["name"] for obj in objects)


def refused(call: str, error: windlass.ApiError) -> None:
    """Logs a call that failed, with all fields of its error."""
    log.info(
        call,
        code=error.code,
        status=error.http_status,
        reason=error.reason,
        message=error.message,
        about=at(error.details, "name"),
        field=at(error.details, "causes", 0, "field"),
        wait=NONE if error.retry_after is None else round(error.retry_after * 1000),
    )
