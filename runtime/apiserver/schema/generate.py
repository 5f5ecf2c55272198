#!/usr/bin/env python3
"""Derives builtin.json from a running kube-apiserver.

    generate.py https://127.0.0.1:6443 TOKEN ~/go/pkg/mod/k8s.io > builtin.json

The third argument is a folder with the Go modules api, apimachinery, apiextensions-apiserver and kube-aggregator of the server's version.

What is taken are facts only: resources with their kinds, short names and subresources from aggregated discovery, and field names,
types, enums, required marks, list and map types, merge keys and patch strategies from /openapi/v3, and the numbers of the fields in
protocol buffers (`n`) from the generated.proto files. Descriptions are left out.
Defaults of built-in kinds live in the server's code, not in its OpenAPI; the ones that controllers notice are in DEFAULTS below.
"""
import glob, json, re, ssl, sys, urllib.request

BASE, TOKEN, MODULES = sys.argv[1], sys.argv[2], sys.argv[3]
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUPS = ["", "apps", "batch", "coordination.k8s.io", "rbac.authorization.k8s.io", "events.k8s.io", "apiextensions.k8s.io",
          "networking.k8s.io", "policy", "autoscaling", "scheduling.k8s.io", "storage.k8s.io", "discovery.k8s.io",
          "authorization.k8s.io", "authentication.k8s.io", "certificates.k8s.io", "apiregistration.k8s.io"]
SKIP = {"bindings", "componentstatuses", "tokenreviews", "localsubjectaccessreviews", "subjectaccessreviews", "csistoragecapacities",
        "csidrivers", "csinodes", "volumeattachments", "volumeattributesclasses", "servicecidrs", "ipaddresses"}
SUBRESOURCES = {"status", "scale", "approval", "binding", "ephemeralcontainers", "eviction", "token"}
KEEP = {"type", "format", "enum", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
        "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-group-version-kind", "oneOf"}
C, A, B = "io.k8s.api.core.v1.", "io.k8s.api.apps.v1.", "io.k8s.api.batch.v1."
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
DEFAULTS = {
    C + "PodSpec": {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                    "terminationGracePeriodSeconds": 30, "securityContext": {}},
    C + "Container": {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": {}},
    C + "EphemeralContainer": {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": {}},
    C + "ContainerPort": {"protocol": "TCP"}, C + "Probe": PROBE, C + "HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    C + "ObjectFieldSelector": {"apiVersion": "v1"},
    C + "SecretVolumeSource": {"defaultMode": 420}, C + "ConfigMapVolumeSource": {"defaultMode": 420},
    C + "ServiceSpec": {"type": "ClusterIP", "sessionAffinity": "None"}, C + "ServicePort": {"protocol": "TCP"},
    C + "Secret": {"type": "Opaque"}, C + "PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    C + "EndpointPort": {"protocol": "TCP"},
    A + "DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": ROLLING},
    A + "ReplicaSetSpec": {"replicas": 1},
    A + "StatefulSetSpec": {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
                            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}},
    A + "DaemonSetSpec": {"revisionHistoryLimit": 10,
                          "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
    B + "CronJobSpec": {"concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec": {"conversion": {"strategy": "None"}},
}

def get(path, accept="application/json"):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(BASE + path, headers={"Authorization": "Bearer " + TOKEN, "Accept": accept})
    with urllib.request.urlopen(request, context=context) as answer:
        return json.load(answer)

def compact(node):
    """One schema node: facts only, a lone `allOf: [$ref]` folded into `$ref`."""
    out = {key: node[key] for key in node if key in KEEP}
    for ref in [node] + node.get("allOf", []):
        if "$ref" in ref:
            out["$ref"] = ref["$ref"].rsplit("/", 1)[1]
    if node.get("default") == {} and "$ref" in out:
        out["zero"] = True  # a Go struct by value: never absent from what the server writes
    if "items" in node:
        out["items"] = compact(node["items"])
    if isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = compact(node["additionalProperties"])
    if "properties" in node:
        out["properties"] = {name: compact(child) for name, child in node["properties"].items()}
    return out

def refs(node, found):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            found.add(node["$ref"])
        for child in node.values():
            refs(child, found)
    elif isinstance(node, list):
        for child in node:
            refs(child, found)
    return found

resources, wanted, definitions = [], set(), {}

def schema_of(gvk):
    """The name of a kind's definition, which is put into the file."""
    name = next(key for key, value in definitions.items() if gvk in value.get("x-kubernetes-group-version-kind", []))
    wanted.add(name)
    return name

items = get("/api", V2)["items"] + get("/apis", V2)["items"]
for group in sorted(items, key=lambda item: GROUPS.index(item["metadata"].get("name", "")) if item["metadata"].get("name", "") in GROUPS else 99):
    name = group["metadata"].get("name", "")
    if name not in GROUPS:
        continue
    for version in group["versions"]:
        path = "/openapi/v3/" + ("api/" if not name else f"apis/{name}/") + version["version"]
        definitions.update(get(path)["components"]["schemas"])
        for found in version["resources"]:
            if found["resource"] in SKIP or (name, version["version"]) == ("autoscaling", "v1"):  # served as v2 only
                continue
            subs = {sub["subresource"]: sub for sub in found.get("subresources", []) if sub["subresource"] in SUBRESOURCES}
            # An empty group or version is that of the document.
            whole = lambda kind: {"group": kind["group"] or name, "version": kind["version"] or version["version"], "kind": kind["kind"]}
            gvk = whole(found["responseKind"])
            schema = schema_of(gvk)
            resources.append({"group": name, "version": version["version"], "plural": found["resource"], "singular": found["singularResource"],
                              "kind": gvk["kind"], "namespaced": found["scope"] == "Namespaced", "shortNames": found.get("shortNames", []),
                              "categories": found.get("categories", []), "verbs": found["verbs"], "status": "status" in subs,
                              "scale": "scale" in subs, "schema": schema})
            others = [subs[sub] for sub in sorted(subs.keys() - {"status", "scale"})]
            if others:
                resources[-1]["subresources"] = [dict(whole(sub["responseKind"]), name=sub["subresource"], verbs=sub["verbs"],
                                                      schema=schema_of(whole(sub["responseKind"]))) for sub in others]
schema_of({"group": "autoscaling", "version": "v1", "kind": "Scale"})
wanted.add(next(key for key in definitions if key.endswith(".meta.v1.DeleteOptions")))
schemas, todo = {}, sorted(wanted)
while todo:
    name = todo.pop()
    if name in schemas:
        continue
    schemas[name] = compact(definitions[name])
    todo += sorted(refs(schemas[name], set()))
messages = {}
for path in glob.glob(MODULES + "/*@v0.36*/**/generated.proto", recursive=True):
    text = re.sub(r"//.*", "", open(path).read())
    package = re.search(r"^package (\S+);", text, re.M).group(1)
    for message, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S):
        fields = re.findall(r"(\S+) (\w+) = (\d+);", body)
        messages[f"{package}.{message}"] = [(kind.lstrip(".") if "." in kind else f"{package}.{kind}", name, int(number)) for kind, name, number in fields]

def number_fields(properties, message, base):
    """Sets `n`; a field of a Go struct that JSON inlines is numbered `1000 * outer + inner`."""
    camel = {re.sub(r"[-$](.)?", lambda m: (m.group(1) or "").upper() if m.start() else m.group(1), name): name for name in properties}
    for kind, name, number in messages.get(message, []):
        if name in camel:
            properties[camel[name]]["n"] = base + number
        elif base == 0 and kind in messages:
            number_fields(properties, kind, 1000 * number)

for name, schema in schemas.items():
    number_fields(schema.get("properties", {}), name.replace("io.k8s", "k8s.io", 1).replace("-", "_"), 0)
for name, fields in DEFAULTS.items():
    for field, value in fields.items():
        schemas[name]["properties"][field]["default"] = value

def lines(entries):
    return ",\n".join(entries)

dump = lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True)
print('{"about":"Facts about the built-in kinds of Kubernetes ' + get("/version")["gitVersion"] + '; made by generate.py beside this file, not by hand.",')
print('"resources":[\n' + lines(dump(resource) for resource in resources) + '],')
print('"schemas":{\n' + lines(f'"{name}":{dump(schemas[name])}' for name in sorted(schemas)) + '}}')
