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

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{Call, Verb};
use crate::cluster::Cluster;
use crate::origin::{OriginError, Source};
use crate::resource::Resource;
use crate::state::{Selection, Wanted};
use crate::status::ApiError;

pub use changes::Change;

const JSON: &str = "application/json";
/// Objects in a page of a list.
const PAGE: u32 = 500;
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
        if matches!(call.verb, Verb::Create | Verb::Update | Verb::Patch) && resource.namespaced {
            self.copy_namespace(source, &call.namespace).await?;
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
        resource: &Resource,
        wanted: Wanted,
    ) -> Result<(), ApiError> {
        let id = resource.collection();
        let has = self.with(|state| {
            let copied = state.copied.as_ref();
            copied.is_none_or(|copied| copied.has(&id, &wanted))
        });
        if has {
            return Ok(());
        }
        match &wanted {
            Wanted::One(namespace, name) => {
                let path = format!("{}/{}", collection(resource, namespace), encoded(name));
                match source.origin.read(path, JSON).await {
                    Ok(body) => self.keep(source, resource, [read(&body)?])?,
                    Err(error) if error.is_absent() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Wanted::Many(selection) => self.copy_pages(source, resource, selection).await?,
        }
        self.with(|state| {
            if let Some(copied) = &mut state.copied {
                copied.complete(&id, wanted);
            }
        });
        Ok(())
    }

    async fn copy_pages(
        &self,
        source: &Source,
        resource: &Resource,
        selection: &Selection,
    ) -> Result<(), ApiError> {
        let mut attempt = 1;
        let mut next = None;
        loop {
            let path = list(resource, selection, next.as_deref());
            let page: Page = match source.origin.read(path, JSON).await {
                Ok(body) => read(&body)?,
                Err(error) if error.is_expired() && attempt < ATTEMPTS => {
                    attempt += 1;
                    next = None;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            self.keep(source, resource, page.items.unwrap_or_default())?;
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(());
            }
        }
    }

    fn keep(
        &self,
        source: &Source,
        resource: &Resource,
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

    /// Copies a namespace, in which something is to be written. One that may not be read counts as existing.
    async fn copy_namespace(&self, source: &Source, name: &str) -> Result<(), ApiError> {
        let Some(namespaces) = self.with(|state| state.resource("", "v1", "namespaces")) else {
            return Ok(());
        };
        let wanted = Wanted::One(String::new(), name.to_owned());
        match self.copy(source, &namespaces, wanted).await {
            Err(error) if error.code == 403 => {
                let namespace = json!({"metadata": {"name": name}, "status": {"phase": "Active"}});
                self.keep(source, &namespaces, [namespace])
            }
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

/// The path of a collection, in the version in which its objects are kept.
fn collection(resource: &Resource, namespace: &str) -> String {
    let Resource { group, version, .. } = resource;
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

fn list(resource: &Resource, selection: &Selection, next: Option<&str>) -> String {
    let mut path = format!(
        "{}?limit={PAGE}",
        collection(resource, &selection.namespace)
    );
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
