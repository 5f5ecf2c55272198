//! Pauses and resumes for callers of the API. Entry points: [`pause`] and [`resume`].

use super::{Refused, shards};
use crate::app::App;
use crate::config::kinds::{API_VERSION, Identity, Kind, Origin};
use crate::config::pauses::{CLUSTERS, ClusterPause, clusters};
use crate::status::view::{PauseReply, PauseRequest};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::error::Error as _;
use std::time::{Duration, SystemTime};
use windlass_fleet::api::{ApiCode, ApiError, GetOptions, PatchType, ReadMode, WriteOptions};
use windlass_fleet::manager::PauseError;
use windlass_fleet::paused::{End, Pause, UNTIL};
use windlass_fleet::{Client, ClusterName, ControllerName, GroupVersionKind, ObjectKey, Request};

/// How often a Provider is read again because somebody else has changed it meanwhile.
const ATTEMPTS: usize = 5;

/// Pauses what a caller names.
///
/// # Errors
/// Why it is not paused.
pub(super) async fn pause(app: &App, asked: &PauseRequest) -> Result<PauseReply, Refused> {
    put(app, asked, Some(&wanted(asked))).await
}

/// Ends a pause.
///
/// # Errors
/// Why it goes on.
pub(super) async fn resume(app: &App, asked: &PauseRequest) -> Result<PauseReply, Refused> {
    put(app, asked, None).await
}

/// The pause that a caller asks for, from now on.
fn wanted(asked: &PauseRequest) -> Pause {
    let end = asked.seconds.and_then(|seconds| {
        let end = SystemTime::now().checked_add(Duration::from_secs(seconds))?;
        Some(End::at(end))
    });
    Pause {
        end: end.unwrap_or(End::Resumed),
        reason: asked.reason.as_deref().map(Into::into),
        deletions: asked.deletions,
    }
}

async fn put(
    app: &App,
    asked: &PauseRequest,
    pause: Option<&Pause>,
) -> Result<PauseReply, Refused> {
    match asked {
        PauseRequest {
            key: Some(key),
            tenant: None,
            cluster: None,
            ..
        } => {
            let request: Request = key.parse().map_err(wrong)?;
            let reconciler = asked.reconciler.as_ref().map(ControllerName::new);
            let reconciler = reconciler.transpose().map_err(wrong)?;
            shards::check(app, &request.cluster)?;
            let put = app.manager.pause(&request, reconciler.as_ref(), pause);
            let kind = put.await.map_err(refused)?;
            Ok(reply(format!("{kind} {request}"), pause))
        }
        PauseRequest {
            key: None,
            reconciler: Some(name),
            tenant: None,
            cluster: None,
            ..
        } => put_on(app, Kind::Reconciler, name, pause).await,
        PauseRequest {
            key: None,
            reconciler: None,
            tenant: Some(name),
            cluster: None,
            ..
        } => put_on(app, Kind::Tenant, name, pause).await,
        PauseRequest {
            key: None,
            reconciler: None,
            tenant: None,
            cluster: Some(name),
            ..
        } => put_cluster(app, name, pause).await,
        _ => Err(wrong(
            "name one of key, reconciler, tenant and cluster; a key may have a reconciler too",
        )),
    }
}

/// Pauses or resumes what an object of the local cluster describes.
async fn put_on(
    app: &App,
    kind: Kind,
    name: &str,
    pause: Option<&Pause>,
) -> Result<PauseReply, Refused> {
    let name = name.to_owned();
    let document = object(app, &Identity { kind, name }, UNTIL)?;
    let patched = document.patch(&Pause::patch(pause)).await;
    patched.map_err(|error| document.refused(&error))?;
    Ok(reply(document.identity.to_string(), pause))
}

/// Pauses or resumes a cluster, on the object of its Provider.
async fn put_cluster(app: &App, name: &str, pause: Option<&Pause>) -> Result<PauseReply, Refused> {
    let name = ClusterName::new(name).map_err(wrong)?;
    let cluster = app.manager.fleet().cluster(&name).ok_or_else(|| {
        let message = format!(
            "there is no cluster {:?}: see windlass get clusters",
            name.as_str()
        );
        Refused(StatusCode::NOT_FOUND, message)
    })?;
    let provider = cluster.provider().ok_or_else(|| {
        let message = "the local cluster has no Provider that could have its pause: pause its reconcilers, or their tenant";
        Refused(StatusCode::CONFLICT, message.to_owned())
    })?;
    let identity = Identity {
        kind: Kind::Provider,
        name: provider.to_owned(),
    };
    let document = object(app, &identity, CLUSTERS)?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let patch = document.with(&name, pause).await;
        let patch = patch.map_err(|error| document.refused(&error))?;
        match document.patch(&patch).await {
            // Another pause was written meanwhile.
            Err(error) if error.code == ApiCode::Conflict && attempts < ATTEMPTS => {}
            Err(error) => return Err(document.refused(&error)),
            Ok(()) => return Ok(reply(format!("cluster {}", name.as_str()), pause)),
        }
    }
}

/// An object of the local cluster that has a pause.
struct Object {
    identity: Identity,
    client: Client,
}

/// The object of a document, if it is one and this process may write it.
fn object(app: &App, identity: &Identity, annotation: &str) -> Result<Object, Refused> {
    let configuration = app.configuration.load();
    let document = configuration.get(identity).ok_or_else(|| {
        let message = format!("there is no {identity}");
        Refused(StatusCode::NOT_FOUND, message)
    })?;
    if document.origin == Origin::File {
        let message = format!(
            "{identity} is a document of {}: write the annotation {annotation} there, in its metadata",
            document.file
        );
        return Err(Refused(StatusCode::CONFLICT, message));
    }
    shards::check(app, &ClusterName::local())?;
    let local = app.manager.fleet().cluster(&ClusterName::local());
    let client = local.and_then(|local| app.manager.leading_client(&local));
    let client = client.ok_or_else(|| {
        let holder = app.manager.owner_of(&ClusterName::local());
        refused(PauseError::NotLeading(
            holder.map_or_else(String::new, |holder| holder.to_string()),
        ))
    })?;
    Ok(Object {
        identity: identity.clone(),
        client,
    })
}

impl Object {
    fn kind(&self) -> GroupVersionKind {
        GroupVersionKind::from_api_version(API_VERSION, self.identity.kind.as_str())
    }

    fn key(&self) -> ObjectKey {
        match self.identity.name.split_once('/') {
            Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster_scoped(&self.identity.name),
        }
    }

    async fn patch(&self, patch: &Json) -> Result<(), ApiError> {
        let (kind, key) = (self.kind(), self.key());
        let (patch, options) = (patch.to_string().into(), WriteOptions::default());
        let patched = self
            .client
            .patch(&kind, &key, PatchType::Merge, patch, &options);
        patched.await.map(drop)
    }

    /// The patch by which a Provider has this pause of a cluster, besides those that it has now and that have not ended.
    async fn with(&self, cluster: &ClusterName, pause: Option<&Pause>) -> Result<Json, ApiError> {
        let live = GetOptions {
            mode: ReadMode::Live,
            ..GetOptions::default()
        };
        let present = self.client.get(&self.kind(), &self.key(), &live).await?;
        let present: Json = present
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let metadata = &present["metadata"];
        let text = metadata["annotations"][CLUSTERS]
            .as_str()
            .unwrap_or_default();
        let mut clusters = clusters(text);
        clusters.retain(|_, pause| !pause.has_ended(SystemTime::now()));
        clusters.remove(cluster.as_str());
        clusters.extend(pause.map(|pause| (cluster.to_string(), ClusterPause::of(pause))));
        let text = Some(clusters).filter(|clusters| !clusters.is_empty());
        let text = text.and_then(|clusters| serde_json::to_string(&clusters).ok());
        let version = &metadata["resourceVersion"];
        Ok(json!({"metadata": {"resourceVersion": version, "annotations": {CLUSTERS: text}}}))
    }

    fn refused(&self, error: &ApiError) -> Refused {
        let message = format!(
            "the annotation of {} cannot be written, as the role of windlass rbac --from-cluster allows it, or kubectl annotate does it: {error}",
            self.identity
        );
        Refused(StatusCode::CONFLICT, message)
    }
}

fn reply(subject: String, pause: Option<&Pause>) -> PauseReply {
    PauseReply {
        subject,
        state: pause.map_or_else(|| "is resumed".to_owned(), |pause| format!("is {pause}")),
        until: pause.map_or_else(String::new, |pause| pause.end.to_string()),
    }
}

fn wrong(error: impl std::fmt::Display) -> Refused {
    Refused(StatusCode::BAD_REQUEST, error.to_string())
}

fn refused(error: PauseError) -> Refused {
    let status = match error {
        PauseError::NoReconciler(_) | PauseError::NoObject(_) => StatusCode::NOT_FOUND,
        PauseError::SeveralKinds(_) => StatusCode::BAD_REQUEST,
        PauseError::NotLeading(_) | PauseError::Refused { .. } => StatusCode::CONFLICT,
    };
    let source = error.source();
    let source = source.map_or_else(String::new, |source| format!(": {source}"));
    Refused(status, format!("{error}{source}"))
}
