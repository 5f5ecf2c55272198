//! What `windlass types` writes for tests, and objects of these types. Entry points: [`write`] and [`object`].

use crate::running::SOON;
use anyhow::{Context, Result, ensure};
use kube_client::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Mutex;
use windlass_harness::program::Program;
use windlass_harness::testenv::crds::{self, ClusterApi};
use windlass_harness::testenv::{Environment, Server, Spec};

/// A build of the SDK.
pub(crate) const BUILD: Duration = Duration::from_secs(600);

/// A definition with what schemas can have, and names that languages have for themselves.
pub(crate) fn odd() -> Json {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer", "format": "int32"}, "target": {"x-kubernetes-int-or-string": true}}});
    let solver = json!({"type": "object", "properties": {
        "dns": {"type": "object", "properties": {"zone": text}}, "http": {"type": "object", "properties": {"path": text}}},
        "oneOf": [{"required": ["dns"]}, {"required": ["http"]}]});
    let spec = json!({"type": "object", "description": "What is asked for.\nIn */ two lines.", "required": ["host", "class"], "properties": {
        "host": {"type": "string", "description": "The \"host\"."},
        "class": {"type": "string", "enum": ["a'b", "plain", ""]},
        "type": text, "self": text, "x-y": text, "$ref": text, "2nd": text, "__dunder": text, "fooBar": text, "foo_bar": text,
        "rest": text, "metadata": text, "kind": text, "yield": text,
        "replicas": {"type": "integer", "default": 1},
        "ratio": {"type": "number", "nullable": true},
        "limit": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "ports": {"type": "array", "items": port},
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "labels": {"type": "object", "additionalProperties": text},
        "byName": {"type": "object", "additionalProperties": port},
        "solver": solver,
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": text}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "empty": {"type": "object", "properties": {}},
        "on": {"type": "boolean"}, "none": {"type": "string", "nullable": true},
    }});
    let status =
        json!({"type": "object", "nullable": true, "properties": {"ready": {"type": "boolean"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "odds.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Odd", "plural": "odds"}, "versions": [
            {"name": "v1alpha1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "description": "An odd kind.", "required": ["spec"], "properties": {
                "apiVersion": text, "kind": text, "metadata": {"type": "object"}, "spec": spec, "status": status}}}},
        ]},
    })
}

/// An object with every field of [`odd`], and with some that its schema does not have.
pub(crate) fn object() -> Json {
    json!({
        "apiVersion": "example.com/v1", "kind": "Odd",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {
            "host": "h", "class": "a'b", "type": "t", "self": "s", "x-y": "x", "$ref": "r", "2nd": "2", "__dunder": "d",
            "fooBar": "1", "foo_bar": "2", "rest": "r", "metadata": "m", "kind": "k", "yield": "y", "replicas": 3, "ratio": 0.5,
            "limit": "50%", "ports": [{"port": 80, "target": "web", "later": true}, {"port": 81, "target": 8081}],
            "matrix": [[0.5], [2.25, 3.5]], "labels": {"c": "d"}, "byName": {"one": {"port": 1}}, "solver": {"dns": {"zone": "z"}},
            "free": {"x": [1, {"y": null}]}, "open": {"known": "k", "other": 9_223_372_036_854_775_807_i64}, "any": [1, "2"],
            "empty": {}, "on": false, "none": null, "new": {"deep": [1]},
        },
        "status": {"ready": true, "new": 1},
        "later": {"x": 1},
    })
}

/// Built-in kinds, of which one is a part of itself.
const BUILT_IN: [&str; 4] = [
    "v1/Pod",
    "v1/ConfigMap",
    "apps/v1/Deployment",
    "apiextensions.k8s.io/v1/CustomResourceDefinition",
];

/// Writes the types of the odd kind, of all kinds of Cluster API and cert-manager, and of built-in kinds into a folder.
pub(crate) async fn write(folder: &Path, language: &str) -> Result<()> {
    fs::write(folder.join("odd.crd.json"), odd().to_string())?;
    write_object(folder, "odd", &object())?;
    let mut args: Vec<OsString> = ["types", "odd.crd.json", "--language", language]
        .map(OsString::from)
        .into();
    let others = crds::files()?;
    args.extend(others.iter().map(|path| path.clone().into_os_string()));
    let written = Program::run(folder, args, BUILD).await?;
    let said = written.expect_code(0)?.stdout;
    ensure!(said.contains("Odd: "), "{said}");
    for path in &others {
        let definition = crds::read(path)?;
        let kind = definition["spec"]["names"]["kind"].as_str();
        let line = format!("{}: ", kind.context("a kind")?);
        ensure!(said.contains(&line), "{line} in {said}");
    }
    describes(folder, language)?;
    write_built_in(folder, language).await
}

/// The written types have the descriptions of the schema.
fn describes(folder: &Path, language: &str) -> Result<()> {
    let file = match language {
        "typescript" if folder.join("src").is_dir() => "src/odd.ts",
        "typescript" => "odd.ts",
        "python" => "odd.pyi",
        "go" => "odd.go",
        "rust" => "types/src/odd.rs",
        _ => return Ok(()),
    };
    let text = fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
    for described in ["What is asked for.", "The \"host\"."] {
        ensure!(text.contains(described), "{described} in {text}");
    }
    Ok(())
}

/// A server that all tests share. It ends with the last test that uses it.
struct Shared {
    // Held so that the server runs.
    _servers: Environment,
    /// A file. Its current context leads nowhere; [`Shared::context`] is another one.
    kubeconfig: String,
    context: String,
    /// What the server stored of the objects that it was given, in the order of [`STORED`].
    stored: Vec<Json>,
}

static SHARED: Mutex<Weak<Shared>> = Mutex::const_new(Weak::new());

thread_local! {
    /// The server of this thread's test, which holds it until its end: between two languages' types are minutes of builds.
    static HELD: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

impl Shared {
    async fn get() -> Result<Arc<Self>> {
        let mut shared = SHARED.lock().await;
        let found = match shared.upgrade() {
            Some(found) => found,
            None => Arc::new(Self::start().await?),
        };
        *shared = Arc::downgrade(&found);
        HELD.set(Some(Arc::clone(&found)));
        Ok(found)
    }

    async fn start() -> Result<Self> {
        let servers = Environment::start([Spec::new("alpha")]).await?;
        let mut config: Json = serde_saphyr::from_str(&servers.server("alpha").kubeconfig())?;
        let context = config["current-context"].as_str().context("a context")?;
        let context = context.to_owned();
        config["current-context"] = "nowhere".into();
        let kubeconfig = servers.folder().join("nowhere.kubeconfig");
        fs::write(&kubeconfig, config.to_string())?;
        let stored = store(servers.server("alpha")).await?;
        let folder = servers.folder().to_owned();
        let shared = Self {
            _servers: servers,
            kubeconfig: kubeconfig.display().to_string(),
            context,
            stored,
        };
        let mut args = shared.args("typescript");
        args.extend(["--kind", "apps/v1/Deploiment"]);
        let refused = Program::run(&folder, args, SOON).await?;
        let refused = refused.expect_code(1)?.stderr;
        ensure!(
            refused.contains("no schema of") && refused.contains("Deploiment"),
            "{refused}"
        );
        Ok(shared)
    }

    /// What asks for the types of [`BUILT_IN`].
    fn args<'a>(&'a self, language: &'a str) -> Vec<&'a str> {
        let mut args = vec!["types", "--language", language];
        args.extend(["--kubeconfig", &self.kubeconfig]);
        args.extend(["--context", &self.context]);
        args.extend(BUILT_IN.iter().flat_map(|kind| ["--kind", kind]));
        args
    }
}

async fn write_built_in(folder: &Path, language: &str) -> Result<()> {
    let shared = Shared::get().await?;
    let said = Program::run(folder, shared.args(language), SOON).await?;
    let said = said.expect_code(0)?.stdout;
    ensure!(said.contains("Deployment: "), "{said}");
    for (file, object) in STORED.into_iter().zip(&shared.stored) {
        write_object(folder, file, object)?;
    }
    Ok(())
}

/// Objects that a server stored: the files that they are written to.
const STORED: [&str; 9] = [
    "cluster",
    "cluster_class",
    "config_map",
    "custom_resource_definition",
    "deployment",
    "issuer",
    "machine_deployment",
    "pod",
    "stored_odd",
];

/// What a test changes in an object by its type: a label, and a field that only its kind has.
fn changed(file: &str, object: &Json) -> Json {
    let mut object = object.clone();
    object["metadata"]["labels"]["kept"] = "yes".into();
    match file {
        "cluster" => object["spec"]["topology"]["version"] = "v1.35.0".into(),
        "cluster_class" => object["spec"]["variables"][0]["required"] = false.into(),
        "config_map" => object["data"]["b"] = "2".into(),
        "custom_resource_definition" => object["spec"]["versions"][0]["served"] = false.into(),
        "deployment" => object["spec"]["replicas"] = 3.into(),
        "issuer" => object["spec"]["acme"]["server"] = "https://other.example.com".into(),
        "machine_deployment" => object["spec"]["replicas"] = 3.into(),
        "odd" | "stored_odd" => object["spec"]["ports"][1]["port"] = 8443.into(),
        _ => object["spec"]["containers"][0]["image"] = "nginx:2".into(),
    }
    object
}

/// Gives objects to a server, and returns what it stored: with its defaults, and with who set which field.
async fn store(server: &Server) -> Result<Vec<Json>> {
    let client = server.client().await?;
    for definition in definitions()? {
        crds::install(&client, &definition).await?;
    }
    let mut all = Vec::new();
    for sent in sent()? {
        let of = |field: &str| sent[field].as_str().unwrap_or_default();
        let (group, version) = of("apiVersion")
            .split_once('/')
            .unwrap_or(("", of("apiVersion")));
        let gvk = GroupVersionKind::gvk(group, version, of("kind"));
        let resource = ApiResource::from_gvk(&gvk);
        let objects: Api<DynamicObject> = match sent["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = sent["metadata"]["name"].as_str().context("a name")?;
        let params = PatchParams::apply("author").force();
        let applied = objects.patch(name, &params, &Patch::Apply(&sent)).await?;
        let mut stored = serde_json::to_value(applied)?;
        // Fields of a newer server.
        stored["later"] = json!({"x": [1]});
        if stored["spec"].is_object() {
            stored["spec"]["later"] = true.into();
        }
        all.push(stored);
    }
    Ok(all)
}

/// Writes an object, and what it is after the test's change.
fn write_object(folder: &Path, file: &str, object: &Json) -> Result<()> {
    fs::write(folder.join(format!("{file}.json")), object.to_string())?;
    let changed = changed(file, object).to_string();
    Ok(fs::write(
        folder.join(format!("{file}.changed.json")),
        changed,
    )?)
}

/// The kinds of these objects that a server does not have by itself.
fn definitions() -> Result<[Json; 5]> {
    Ok([
        ClusterApi::V1Beta2.definition()?,
        crds::definition("cluster.x-k8s.io_clusterclasses.yaml", "v1beta2")?,
        crds::definition("cluster.x-k8s.io_machinedeployments.yaml", "v1beta2")?,
        crds::definition("cert-manager.io_issuers.yaml", "v1")?,
        odd(),
    ])
}

/// The objects that a server is given, in the order of [`STORED`].
fn sent() -> Result<[Json; 9]> {
    let labels = json!({"app": "web"});
    let metadata = json!({"name": "web", "namespace": "default", "labels": labels});
    let container = json!({"name": "web", "image": "nginx", "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}, "env": [{"name": "EMPTY", "value": ""}],
        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5}});
    let pod = json!({"containers": [container], "volumes": [{"name": "tmp", "emptyDir": {}}],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]});
    let mut definition = ClusterApi::V1Beta2.definition()?;
    definition["metadata"] = json!({"name": definition["metadata"]["name"], "labels": labels});
    let mut odd = object();
    odd["metadata"] = metadata.clone();
    // A server takes no fields that the schema does not have.
    for (inside, unknown) in [
        ("", "later"),
        ("/spec", "new"),
        ("/spec/ports/0", "later"),
        ("/status", "new"),
    ] {
        let fields = odd.pointer_mut(inside).and_then(Json::as_object_mut);
        fields.context("an object")?.remove(unknown);
    }
    Ok([
        cluster(&metadata),
        cluster_class(&metadata),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1", "empty": ""}, "binaryData": {"b": "AAE="}}),
        definition,
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
                "template": {"metadata": {"labels": labels}, "spec": pod}}}),
        issuer(&metadata),
        machine_deployment(&metadata),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}),
        odd,
    ])
}

fn cluster(metadata: &Json) -> Json {
    let variables = json!([{"name": "any", "value": {"sizes": [1, 2.5, null], "deep": {"on": false}}}, {"name": "text", "value": "x"}]);
    let topology = json!({"classRef": {"name": "small"}, "version": "v1.34.0", "variables": variables,
        "controlPlane": {"replicas": 3, "metadata": {"labels": metadata["labels"]}},
        "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": 0}]}});
    let network = json!({"pods": {"cidrBlocks": ["10.0.0.0/8"]}, "apiServerPort": 6443});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata,
        "spec": {"clusterNetwork": network, "topology": topology, "paused": false}})
}

/// Its variables have schemas, which contain schemas.
fn cluster_class(metadata: &Json) -> Json {
    let template = |kind: &str| json!({"templateRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind, "name": "small"}});
    let sizes =
        json!({"type": "array", "items": {"type": "number", "minimum": 0}, "default": [1, 2.5]});
    let limits = json!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}, "default": {"cpu": "1", "pods": 5}});
    let schema = json!({"type": "object", "properties": {"sizes": sizes, "limits": limits}, "default": {},
        "example": {"sizes": [3]}, "oneOf": [{"required": ["sizes"]}, {"required": ["limits"]}]});
    let patch = json!({"op": "replace", "path": "/spec/template/spec/sizes", "value": {"on": [false, null]}});
    let selector = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "SmallTemplate", "matchResources": {"infrastructureCluster": true}});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": metadata,
        "spec": {"infrastructure": template("SmallTemplate"), "controlPlane": template("PlaneTemplate"),
            "variables": [{"name": "any", "required": true, "schema": {"openAPIV3Schema": schema}}],
            "patches": [{"name": "sizes", "definitions": [{"selector": selector, "jsonPatches": [patch]}]}]}})
}

/// Of the ways to issue it has one, and of the ways to solve, two.
fn issuer(metadata: &Json) -> Json {
    let ingress = json!({"http01": {"ingress": {"ingressClassName": "nginx", "podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}}});
    let webhook = json!({"dns01": {"webhook": {"groupName": "a.example.com", "solverName": "b", "config": {"deep": [1, {"on": null}]}}},
        "selector": {"dnsZones": ["example.com"]}});
    json!({"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": metadata,
        "spec": {"acme": {"server": "https://example.com", "privateKeySecretRef": {"name": "key"}, "solvers": [ingress, webhook]}}})
}

fn machine_deployment(metadata: &Json) -> Json {
    let bootstrap = json!({"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "Config", "name": "md-0"}});
    let infrastructure = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "SmallMachineTemplate", "name": "md-0"});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": metadata,
        "spec": {"clusterName": "web", "replicas": 2, "selector": {"matchLabels": metadata["labels"]},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}},
            "template": {"metadata": {"labels": metadata["labels"]},
                "spec": {"clusterName": "web", "bootstrap": bootstrap, "infrastructureRef": infrastructure, "version": "v1.34.0"}}}})
}

pub(crate) async fn succeeds<A: AsRef<OsStr>>(
    folder: &Path,
    program: &str,
    args: &[A],
) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).kill_on_drop(true);
    let output = tokio::time::timeout(BUILD, command.output()).await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    ensure!(output.status.success(), "{program}: {said}");
    Ok(said)
}

pub(crate) fn sdk(language: &str) -> PathBuf {
    windlass_harness::repository()
        .join("guest-sdk")
        .join(language)
}
