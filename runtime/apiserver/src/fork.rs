//! Forks: clusters that copy what they are asked for from another one, and keep every write to themselves. Entry point:
//! [`Cluster::read_through`], before a request is answered.
//!
//! A get copies one object, a list or a watch its selection, both once. After that the fork goes its own way: what happens in the other
//! cluster later is not seen. Objects keep their versions, so the fork's own versions go on above those of the other cluster.
//!
//! * `kinds`: what the other cluster serves, and the definitions of its custom kinds.
//! * `changes`: what differs from what was copied.

mod changes;
mod kinds;

use std::sync::Arc;

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin::builtin;
use crate::call::{Call, Verb};
use crate::cluster::Cluster;
use crate::origin::{OriginError, Source};
use crate::resource::Resource;
use crate::state::{Selection, Wanted};
use crate::status::ApiError;

pub use changes::Change;

const JSON: &str = "application/json";
/// Subresources that a node or a server behind the API server answers.
const ELSEWHERE: [&str; 5] = ["log", "exec", "attach", "portforward", "proxy"];
/// Objects in a page of a list. An answer has at most 64 MiB, and an object half a megabyte if it is a large one.
const PAGE: u32 = 100;
/// How often a list is begun that took longer than the other cluster keeps its past.
const ATTEMPTS: u32 = 3;

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

impl Cluster {
    /// Copies what a request is about, if this is a fork and that was not done yet.
    ///
    /// # Errors
    /// As the other cluster answers; 503 where it does not.
    pub(crate) async fn read_through(&self, call: &Call, body: &Bytes) -> Result<(), ApiError> {
        let Some(source) = self.source() else {
            return Ok(());
        };
        let _turn = source.turn().await;
        self.copy_kinds(source).await?;
        if call.resource.is_empty() {
            return Ok(());
        }
        let resource = self.copy_definition(source, call).await?;
        let Some(resource) = resource else {
            // The answer says that nothing of this name is served.
            return Ok(());
        };
        if ELSEWHERE.contains(&call.subresource.as_str()) {
            let text = format!(
                "{} is not available in a copy of a cluster",
                call.subresource
            );
            return Err(ApiError::new(501, "NotImplemented", text));
        }
        if matches!(call.verb, Verb::Create | Verb::Update | Verb::Patch) && resource.namespaced {
            self.copy_namespace(source, &call.namespace).await?;
        }
        if call.verb == Verb::Delete {
            self.copy_contents(source, &resource, &call.name).await?;
        }
        let wanted = match wanted(call, body) {
            Some(wanted) if resource.allows("list") => wanted,
            _ => return Ok(()),
        };
        self.copy(source, &resource, wanted).await
    }

    /// Copies a part of a collection, unless that was done.
    async fn copy(
        &self,
        source: &Source,
        resource: &Arc<Resource>,
        wanted: Wanted,
    ) -> Result<(), ApiError> {
        let id = resource.collection();
        let (has, version) = self.with(|state| match &state.copied {
            Some(copied) => (copied.has(&id, &wanted), copied.version(resource)),
            None => (true, None),
        });
        if has {
            return Ok(());
        }
        match (version, &wanted) {
            // What only the fork serves is nowhere else.
            (None, _) => {}
            (Some(version), Wanted::One(namespace, name)) => {
                let at = collection(resource, &version, namespace);
                let path = format!("{at}/{}", encoded(name));
                match source.origin.read(path, JSON).await {
                    Ok(body) => self.keep(source, resource, [read(&body)?])?,
                    Err(error) if error.is_absent() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            (Some(version), Wanted::Many(selection)) => {
                self.copy_pages(source, resource, &version, selection)
                    .await?;
            }
        }
        self.with(|state| {
            if let Some(copied) = &mut state.copied {
                copied.complete(&id, wanted);
            }
        });
        Ok(())
    }

    /// Copies a selection page by page. A request that gave up meanwhile has left a mark where the next one goes on.
    async fn copy_pages(
        &self,
        source: &Source,
        resource: &Arc<Resource>,
        version: &str,
        selection: &Selection,
    ) -> Result<(), ApiError> {
        let id = resource.collection();
        let mut attempt = 1;
        let mut next = self.with(|state| state.copied.as_ref()?.begun(&id, selection));
        loop {
            let path = list(resource, version, selection, next.as_deref());
            let page: Page = match source.origin.read(path, JSON).await {
                Ok(body) => read(&body)?,
                Err(error) if error.is_absent() => return Ok(()),
                Err(error) if error.is_expired() && attempt < ATTEMPTS => {
                    attempt += 1;
                    next = None;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            self.keep(source, resource, page.items.unwrap_or_default())?;
            let Some(rest) = page.metadata.next.filter(|next| !next.is_empty()) else {
                return Ok(());
            };
            self.with(|state| {
                let copied = state.copied.as_mut();
                copied.map(|copied| copied.begin(&id, selection, &rest))
            });
            next = Some(rest);
        }
    }

    /// Copies what goes with an object that is to be deleted: everything in a namespace, and every object of a definition's kind.
    async fn copy_contents(
        &self,
        source: &Source,
        resource: &Resource,
        name: &str,
    ) -> Result<(), ApiError> {
        let is_namespace = resource.is("", "namespaces");
        if !is_namespace && !resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            return Ok(());
        }
        let kinds: Vec<Arc<Resource>> = self.with(|state| {
            let all = state.registry.all();
            let goes = |kind: &&Arc<Resource>| {
                if is_namespace {
                    kind.namespaced && kind.allows("list")
                } else {
                    format!("{}.{}", kind.plural, kind.group) == *name
                }
            };
            all.filter(goes).cloned().collect()
        });
        for kind in kinds {
            let selection = Selection {
                namespace: if is_namespace {
                    name.to_owned()
                } else {
                    String::new()
                },
                ..Selection::default()
            };
            match self.copy(source, &kind, Wanted::Many(selection)).await {
                Err(error) if matches!(error.code, 403..=405) => {
                    tracing::warn!(cluster = self.name(), kind = %kind.kind, %error, "what goes with a deleted object is not known");
                }
                copied => copied?,
            }
        }
        Ok(())
    }

    fn keep(
        &self,
        source: &Source,
        resource: &Arc<Resource>,
        objects: impl IntoIterator<Item = Value>,
    ) -> Result<(), ApiError> {
        for mut object in objects {
            // Items of built-in lists have neither.
            object["apiVersion"] = resource.api_version().into();
            object["kind"] = resource.kind.as_str().into();
            let size = self.with(|state| state.copy(resource, object));
            source.hold(size)?;
        }
        Ok(())
    }

    /// Copies a namespace, in which something is to be written. One that may not be read counts as existing, and so does every one of a
    /// cluster that serves none, as an endpoint of kcp.
    async fn copy_namespace(&self, source: &Source, name: &str) -> Result<(), ApiError> {
        let assumed = || json!({"metadata": {"name": name}, "status": {"phase": "Active"}});
        let Some(namespaces) = self.with(|state| state.resource("", "v1", "namespaces")) else {
            let mut known = builtin().resources.iter();
            let namespaces = known.find(|known| known.is("", "namespaces"));
            return namespaces.map_or(Ok(()), |kind| self.keep(source, kind, [assumed()]));
        };
        let wanted = Wanted::One(String::new(), name.to_owned());
        match self.copy(source, &namespaces, wanted).await {
            Err(error) if error.code == 403 => self.keep(source, &namespaces, [assumed()]),
            copied => copied,
        }
    }
}

/// What a request about a resource needs of its collection; `None`: nothing.
fn wanted(call: &Call, body: &Bytes) -> Option<Wanted> {
    let named = |name: String| Some(Wanted::One(call.namespace.clone(), name));
    match call.verb {
        Verb::List | Verb::Watch | Verb::DeleteCollection => Some(Wanted::Many(Selection {
            namespace: call.namespace.clone(),
            labels: call.parameter("labelSelector").unwrap_or_default(),
            fields: call.parameter("fieldSelector").unwrap_or_default(),
        })),
        Verb::Create if call.name.is_empty() => named(name_in(body)?),
        Verb::Other => None,
        _ => named(call.name.clone()),
    }
}

/// The name of an object that is to be created; `None`: the server makes one.
fn name_in(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        name: String,
    }
    let named: Named = serde_json::from_slice(body).ok()?;
    Some(named.metadata.name).filter(|name| !name.is_empty())
}

fn read<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, ApiError> {
    let unreadable =
        |error| OriginError::Unreachable(format!("the server's answer cannot be read: {error}"));
    Ok(serde_json::from_slice(body).map_err(unreadable)?)
}

/// The path of a collection, in a version.
fn collection(resource: &Resource, version: &str, namespace: &str) -> String {
    let group = &resource.group;
    let base = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    if namespace.is_empty() {
        format!("{base}/{}", resource.plural)
    } else {
        format!(
            "{base}/namespaces/{}/{}",
            encoded(namespace),
            resource.plural
        )
    }
}

fn list(resource: &Resource, version: &str, selection: &Selection, next: Option<&str>) -> String {
    let at = collection(resource, version, &selection.namespace);
    let mut path = format!("{at}?limit={PAGE}");
    let parameters = [
        ("labelSelector", selection.labels.as_str()),
        ("fieldSelector", &selection.fields),
        ("continue", next.unwrap_or_default()),
    ];
    for (name, value) in parameters
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
    {
        path.push_str(&format!("&{name}={}", encoded(value)));
    }
    path
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
