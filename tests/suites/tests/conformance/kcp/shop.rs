//! A provider with its export, and consumers: [`Shop`].

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::testenv::kcp::{Answer, Claim, Client, Export, Workspace};

/// The exported kind, in one namespace and in all.
pub(super) const WIDGETS: &str = "apis/things.example.com/v1/namespaces/default/widgets";
pub(super) const ALL_WIDGETS: &str = "apis/things.example.com/v1/widgets";
/// A claimed kind.
pub(super) const MAPS: &str = "api/v1/namespaces/default/configmaps";
pub(super) const ALL_MAPS: &str = "api/v1/configmaps";
pub(super) const BINDINGS: &str = "apis/apis.kcp.io/v1alpha2/apibindings";
pub(super) const SLICES: &str = "apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
/// How each refusal ends: the reason is kept back.
pub(super) const DENIED: &str = "access denied";

/// A workspace with an export of widgets, which claims ConfigMaps and events.
pub(super) struct Shop<'a> {
    pub(super) client: &'a Client,
    pub(super) provider: Workspace,
    pub(super) export: Export,
    name: &'static str,
    window: String,
}

impl<'a> Shop<'a> {
    /// A shop without consumers. Workspaces are named after it.
    pub(super) async fn open(client: &'a Client, name: &'static str) -> Result<Self> {
        let provider = client.workspace("root", name).await?;
        let claim = |group, resource| Claim {
            group,
            resource,
            verbs: &["*"],
        };
        let export = Export {
            name: "things".to_owned(),
            schemas: vec![schema()],
            claims: vec![
                claim("", "configmaps"),
                claim("", "events"),
                claim("events.k8s.io", "events"),
            ],
        };
        client.publish(&provider, &export).await?;
        Ok(Self {
            window: format!("/services/apiexport/{}/things", provider.cluster),
            client,
            provider,
            export,
            name,
        })
    }

    /// A shop with two consumers that accept all claims.
    pub(super) async fn with_two(
        client: &'a Client,
        name: &'static str,
    ) -> Result<(Self, Workspace, Workspace)> {
        let shop = Self::open(client, name).await?;
        let one = shop.consumer("one", true).await?;
        let two = shop.consumer("two", true).await?;
        Ok((shop, one, two))
    }

    /// A workspace that has not bound the export.
    pub(super) async fn stranger(&self, name: &str) -> Result<Workspace> {
        let name = format!("{}-{name}", self.name);
        self.client.workspace("root", &name).await
    }

    /// A workspace that has bound the export, accepts or rejects its claims, and is served.
    pub(super) async fn consumer(&self, name: &str, accepts: bool) -> Result<Workspace> {
        let consumer = self.stranger(name).await?;
        self.bind(&consumer, accepts).await?;
        Ok(consumer)
    }

    /// Binds the export and waits until the workspace is served, which is a moment after the binding is ready.
    pub(super) async fn bind(&self, consumer: &Workspace, accepts: bool) -> Result<()> {
        self.client
            .bind(consumer, &self.provider, &self.export, accepts)
            .await?;
        self.answers(&self.of(consumer, ALL_WIDGETS), 200).await
    }

    /// A path in all clusters.
    pub(super) fn all(&self, rest: &str) -> String {
        format!("{}/clusters/*/{rest}", self.window)
    }

    /// A path in one cluster, through the virtual workspace.
    pub(super) fn of(&self, consumer: &Workspace, rest: &str) -> String {
        format!("{}/clusters/{}/{rest}", self.window, consumer.cluster)
    }

    /// The path of the virtual workspace.
    pub(super) fn window(&self) -> &str {
        &self.window
    }

    /// Creates a widget through the virtual workspace.
    pub(super) async fn put(&self, consumer: &Workspace, name: &str) -> Result<Value> {
        let path = self.of(consumer, WIDGETS);
        self.client.post(&path, &widget(name)).await?.ok()
    }

    /// Reads something that must be there.
    pub(super) async fn read(&self, path: &str) -> Result<Value> {
        let answer = self.client.get(path).await?;
        answer.ok().with_context(|| path.to_owned())
    }

    /// Changes something by a merge patch.
    pub(super) async fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        let answer = self.client.patch(path, "merge-patch", patch).await?;
        answer.ok().with_context(|| path.to_owned())
    }

    /// Waits until a path answers with a status.
    pub(super) async fn answers(&self, path: &str, code: u16) -> Result<()> {
        let what = format!("{path} to answer {code}");
        eventually(DEADLINE, &what, || async {
            let answer = self.client.get(path).await?;
            Ok(Seen::of(answer, |answer| answer.code == code))
        })
        .await
        .map(drop)
    }

    /// The events of a watch that is over after a second.
    pub(super) async fn watch(&self, path: &str, options: &str) -> Result<Vec<Event>> {
        watch(self.client, path, options).await
    }
}

/// An event of a watch: its type, and the logical cluster and name of the object.
pub(super) type Event = (String, String, String);

/// The events of a watch that is over after a second.
pub(super) async fn watch(client: &Client, path: &str, options: &str) -> Result<Vec<Event>> {
    let path = format!("{path}?watch=true&timeoutSeconds=1{options}");
    let answer = client.get(&path).await?;
    ensure!(answer.code == 200, "{path}: {}", answer.text);
    let events = answer.events()?;
    let event = |event: &Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        let object = &event["object"];
        (kind.to_owned(), cluster_of(object), name_of(object))
    };
    Ok(events.iter().map(event).collect())
}

pub(super) fn event(kind: &str, cluster: &Workspace, name: &str) -> Event {
    (kind.to_owned(), cluster.cluster.clone(), name.to_owned())
}

pub(super) fn widget(name: &str) -> Value {
    json!({"apiVersion": "things.example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"colour": "grey", "size": 1}})
}

pub(super) fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

fn schema() -> Value {
    let spec = json!({"type": "object", "properties": {"colour": {"type": "string"}, "size": {"type": "integer"}}});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({"group": "things.example.com", "scope": "Namespaced",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema}]})
}

/// The logical cluster that an object names; empty if none.
pub(super) fn cluster_of(object: &Value) -> String {
    text(&object["metadata"]["annotations"]["kcp.io/cluster"])
}

pub(super) fn name_of(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

pub(super) fn version_of(object: &Value) -> Result<u64> {
    let version = text(&object["metadata"]["resourceVersion"]);
    version
        .parse()
        .with_context(|| format!("a resource version that is no number: {version:?}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The items of a list by cluster and name, sorted.
pub(super) fn members(list: &Value) -> Vec<(String, String)> {
    let items = list["items"].as_array().into_iter().flatten();
    let mut members: Vec<_> = items.map(|one| (cluster_of(one), name_of(one))).collect();
    members.sort();
    members
}

/// The names of a list's items in one cluster, sorted.
pub(super) fn names_in(list: &Value, cluster: &Workspace) -> Vec<String> {
    let mine = |(of, name)| (of == cluster.cluster).then_some(name);
    members(list).into_iter().filter_map(mine).collect()
}

/// Holds if the server refused with this status, in words that include these.
pub(super) fn refused(answer: &Answer, code: u16, words: &str) -> Result<()> {
    ensure!(
        answer.code == code && answer.text.contains(words),
        "expected {code} {words:?}, got {}: {}",
        answer.code,
        answer.text
    );
    Ok(())
}

/// Whether an object has a condition with this status.
pub(super) fn condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.any(|one| one["type"] == kind && one["status"] == status)
}
