//! Writes. Entry points: `write_*`, one per call of [`Client`].
//!
//! A write runs in a task of its own on the host's runtime, under its own deadline, so that the end of its call does not interrupt it.
//! The server's answer goes into the caches before the client gets it. With an election, the deadline is before the end of the lease,
//! and a later write is refused.

use super::Client;
use super::cache_effect::CacheEffect;
use super::charged::Charged;
use super::target::{Target, check_key, check_namespace, check_segment, check_subresource};
use crate::api::{
    ApiCode, ApiError, ApplyOptions, DeleteOptions, Json, PatchType, Selection, WriteOptions,
};
use crate::cluster::call_policy::{CallPolicy, LimitsOnly};
use crate::cluster::scope::SHOWN_NAMESPACE;
use crate::grant::{Namespaces, Verb};
use crate::http::status::error_for_status;
use crate::http::transport::{ADVANCE, Call, JSON, TransportError};
use crate::json::{Head, Object};
use crate::kind::{GroupVersionKind, Resource};
use crate::request::ObjectKey;
use crate::selector::FieldSelector;
use bytes::Bytes;
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest time of a write, even if its call has ended.
pub(crate) const WRITE_DEADLINE: Duration = Duration::from_secs(10);
pub(super) const APPLY: &str = "application/apply-patch+yaml";

impl Client {
    pub(super) async fn write_create(
        &self,
        kind: &GroupVersionKind,
        object: Json,
        options: &WriteOptions,
    ) -> Result<Json, ApiError> {
        let target = self.writable(kind).await?;
        check_subresource(options.subresource.as_deref())?;
        let named = Named::read(&object)?;
        let namespace = named.namespace(&target.resource)?;
        let subresource = options.subresource.as_deref();
        let path = match subresource {
            Some(_) => {
                let key = named.key(&target.resource)?;
                self.check_object(&target.resource, subresource, Verb::Create, &key)?;
                self.object_path(&target.resource, &key, subresource)?
            }
            None => {
                self.check(&target.resource, None, Verb::Create, namespace, None)?;
                let namespace = self.part().url_namespace(namespace.map(Arc::from))?;
                target.resource.collection_path(namespace.as_deref())
            }
        };
        self.check_owners(&object)?;
        let object = self.part().stored_text(kind, object)?;
        let path = self.with_own_manager(path, options.dry_run);
        let call = Call::write(Method::POST, path, JSON, object);
        let effect = CacheEffect::of_write(subresource, options.dry_run);
        self.write(&target, call, effect).await
    }

    pub(super) async fn write_update(
        &self,
        kind: &GroupVersionKind,
        object: Json,
        options: &WriteOptions,
    ) -> Result<Json, ApiError> {
        let target = self.writable(kind).await?;
        let resource = &target.resource;
        check_subresource(options.subresource.as_deref())?;
        let key = Named::read(&object)?.key(resource)?;
        let subresource = options.subresource.as_deref();
        self.check_object(resource, subresource, Verb::Update, &key)?;
        if subresource.is_none() && may_create(resource, &object) {
            self.check_object(resource, None, Verb::Create, &key)?;
        }
        self.check_owners(&object)?;
        let path = self.object_path(resource, &key, subresource)?;
        let path = self.with_own_manager(path, options.dry_run);
        let object = self.part().stored_text(kind, object)?;
        let call = Call::write(Method::PUT, path, JSON, object);
        let effect = CacheEffect::of_write(subresource, options.dry_run);
        self.write(&target, call, effect).await
    }

    pub(super) async fn write_patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch_type: PatchType,
        patch: Json,
        options: &WriteOptions,
    ) -> Result<Json, ApiError> {
        let target = self.writable(kind).await?;
        let resource = &target.resource;
        check_subresource(options.subresource.as_deref())?;
        check_key(resource, key)?;
        let subresource = options.subresource.as_deref();
        self.check_object(resource, subresource, Verb::Patch, key)?;
        let path = self.object_path(resource, key, subresource)?;
        let path = self.with_own_manager(path, options.dry_run);
        let patch = self.part().stored_patch(kind, patch_type, patch)?;
        let call = Call::write(Method::PATCH, path, patch_type.content_type(), patch);
        let effect = CacheEffect::of_write(subresource, options.dry_run);
        self.write(&target, call, effect).await
    }

    pub(super) async fn write_apply(
        &self,
        kind: &GroupVersionKind,
        object: Json,
        options: &ApplyOptions,
    ) -> Result<Json, ApiError> {
        let target = self.writable(kind).await?;
        let resource = &target.resource;
        check_subresource(options.subresource.as_deref())?;
        let key = Named::read(&object)?.key(resource)?;
        let subresource = options.subresource.as_deref();
        self.check_object(resource, subresource, Verb::Patch, &key)?;
        if subresource.is_none() {
            // An apply creates the object if it is absent.
            self.check_object(resource, None, Verb::Create, &key)?;
        }
        self.check_owners(&object)?;
        let path = self.object_path(resource, &key, subresource)?;
        self.own_as_applied(&target, &key, &object, options).await?;
        let manager = self.apply_manager(&target);
        let mut path = self.with_manager(path, &manager, options.dry_run);
        let object = self.part().stored_text(kind, object)?;
        if options.force {
            path.push_str("&force=true");
        }
        let call = Call::write(Method::PATCH, path, APPLY, object);
        let effect = CacheEffect::of_write(subresource, options.dry_run);
        self.write(&target, call, effect).await
    }

    pub(super) async fn write_delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let target = self.writable(kind).await?;
        check_key(&target.resource, key)?;
        self.check_object(&target.resource, None, Verb::Delete, key)?;
        let path = self.object_path(&target.resource, key, None)?;
        let effect = if options.dry_run {
            CacheEffect::None
        } else {
            CacheEffect::Deleted(self.part().stored_key(key)?.into_owned())
        };
        self.write(
            &target,
            Call::write(Method::DELETE, path, JSON, delete_body(options)),
            effect,
        )
        .await?;
        Ok(())
    }

    pub(super) async fn write_delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let target = self.writable(kind).await?;
        let resource = &target.resource;
        if options.uid.is_some() || options.resource_version.is_some() {
            return Err(ApiError::host(
                ApiCode::Invalid,
                "a collection has neither uid nor resource version: leave the preconditions out",
            ));
        }
        check_namespace(resource, selection.namespace.as_deref())?;
        let namespaces: Vec<Option<Arc<str>>> = match &selection.namespace {
            Some(namespace) => vec![Some(namespace.as_str().into())],
            None if !resource.namespaced => vec![None],
            // The part of a server has one namespace, whatever is granted.
            None if self.part().is_namespace() => vec![Some(SHOWN_NAMESPACE.into())],
            None => match self.needed_namespaces(resource, Verb::DeleteCollection, None) {
                Namespaces::Only(names) => names.into_iter().map(Some).collect(),
                // The API has no call for all namespaces at once.
                Namespaces::All => self.every_namespace().await?,
                Namespaces::None => vec![None],
            },
        };
        let fields = self.stored_fields(selection.field_selector.as_deref())?;
        for namespace in namespaces {
            self.check(
                resource,
                None,
                Verb::DeleteCollection,
                namespace.as_deref(),
                None,
            )?;
            let namespace = self.part().url_namespace(namespace)?;
            let mut path = resource.collection_path(namespace.as_deref());
            let mut separator = '?';
            for (name, selector) in [
                ("labelSelector", &selection.label_selector),
                ("fieldSelector", &fields),
            ] {
                if let Some(selector) = selector {
                    let _ = write!(
                        path,
                        "{separator}{name}={}",
                        utf8_percent_encode(selector, NON_ALPHANUMERIC)
                    );
                    separator = '&';
                }
            }
            let call = Call::write(Method::DELETE, path, JSON, delete_body(options));
            let effect = if options.dry_run {
                CacheEffect::None
            } else {
                CacheEffect::ListDeleted
            };
            self.write(&target, call, effect).await?;
        }
        Ok(())
    }

    /// Names of all namespaces, read live under the host's own rights and identity, for a call that must be made in each namespace.
    async fn every_namespace(&self) -> Result<Vec<Option<Arc<str>>>, ApiError> {
        let namespaces = GroupVersionKind::new("", "v1", "Namespace");
        let limits = |policy: &Arc<dyn CallPolicy>| Arc::new(LimitsOnly(policy.clone()));
        let program = Self {
            grant: Arc::new(crate::grant::Grant::all()),
            policy: self.policy.as_ref().map(|policy| limits(policy) as _),
            ..self.clone()
        };
        let mut names = Vec::new();
        let mut options = crate::api::ListOptions {
            mode: crate::api::ReadMode::Live,
            ..Default::default()
        };
        loop {
            let page = Box::pin(program.read_page(&namespaces, &options)).await?;
            for item in page.items {
                if let Ok(object) = Object::parse(item) {
                    names.push(Some(object.name().as_ref().into()));
                }
            }
            match page.continue_token {
                Some(token) => options.continue_token = Some(token),
                None => return Ok(names),
            }
        }
    }

    /// The path of an object whose call has been checked.
    pub(super) fn object_path(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        subresource: Option<&str>,
    ) -> Result<String, ApiError> {
        let key = self.part().url_key(key)?;
        Ok(resource.object_path(key.namespace.as_deref(), &key.name, subresource))
    }

    /// The stored form of a selector of fields, which the server reads.
    fn stored_fields(&self, selector: Option<&str>) -> Result<Option<String>, ApiError> {
        let Some(text) = selector.filter(|_| self.part().is_namespace()) else {
            return Ok(selector.map(str::to_owned));
        };
        let shown = FieldSelector::parse(text)
            .map_err(|error| ApiError::host(ApiCode::Invalid, error.to_string()))?;
        Ok(Some(self.part().stored_fields(shown).to_string()))
    }

    fn with_own_manager(&self, path: String, dry_run: bool) -> String {
        self.with_manager(path, &self.scope.caller.field_manager, dry_run)
    }

    pub(super) fn with_manager(&self, mut path: String, manager: &str, dry_run: bool) -> String {
        let _ = write!(
            path,
            "?fieldManager={}",
            utf8_percent_encode(manager, NON_ALPHANUMERIC)
        );
        if dry_run {
            path.push_str("&dryRun=All");
        }
        path
    }

    /// Sends a write and applies its effect to the caches.
    pub(super) async fn write(
        &self,
        target: &Target,
        call: Call,
        effect: CacheEffect,
    ) -> Result<Json, ApiError> {
        self.check_live(target)?;
        let grant = self.grant();
        let sent = call.body.as_ref().map_or(0, |(_, body)| body.len());
        let until = Instant::now() + self.patience(WRITE_DEADLINE);
        // The answer to a write is usually its object: room for that is reserved before the write is sent.
        let charge = self.reserve(target, ADVANCE.max(2 * sent), until).await?;
        let call = call
            .made_for(self.owner(), grant.identity())
            .in_workspace(self.part().workspace())
            .charged_to(charge);
        let permit = self.permit(&grant).await?;
        // Taken before the check: a run that ends now either waits for this write, or has been cancelled, which the check sees.
        let _under_way = self.scope.writes.token();
        self.scope.check()?;
        let backend = target.backend.clone();
        let resource = target.resource.clone();
        let part = self.part().clone();
        let pass = self.scope.enter()?;
        let limit = pass
            .as_ref()
            .map_or(WRITE_DEADLINE, |pass| pass.time_left().min(WRITE_DEADLINE));
        let write = async move {
            let _permit = permit;
            let history = backend.continuity.histories_lost();
            let answer = backend
                .connection
                .send_here(call, limit, pass.clone())
                .await;
            let answer = error_for_status(answer.map_err(unread)?)?;
            // An answer of a lost history must not enter a rebuilt cache, where its version would be newer than all others.
            if backend.continuity.histories_lost() == history {
                let stores = backend.stores.of_kind(&resource.kind);
                effect.apply(&stores, &resource, &answer.body);
            }
            let answer = Charged {
                body: answer.body,
                charge: answer.charge,
            };
            Ok(answer.of(|json| part.shown_text(&resource.kind, json)))
        };
        let task = self
            .scope
            .writes
            .spawn_on(write, target.backend.connection.host());
        tokio::select! {
            biased;
            outcome = task => outcome.unwrap_or_else(|error| Err(ApiError::host(ApiCode::Unavailable, error.to_string()))),
            () = self.cluster.token().cancelled() => Err(self.cluster.gone()),
            () = self.scope.token.cancelled() => Err(crate::cluster::call_scope::cancelled()),
        }
    }
}

/// The error of a write without an answer. If there was no room for the answer, the write may still have happened.
fn unread(error: TransportError) -> ApiError {
    let found_no_room = matches!(error, TransportError::NoRoom { .. });
    let mut error = ApiError::from(error);
    if found_no_room {
        error.message +=
            "; the write was sent and may have happened: read the object before you try again";
    }
    error
}

/// Resources that kube-apiserver creates on an update if they are absent, unless the update has a version.
const CREATED_BY_UPDATES: [(&str, &str); 10] = [
    ("", "endpoints"),
    ("", "events"),
    ("", "limitranges"),
    ("", "services"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
];

/// Whether an update may create its object. The body can only reduce the rights that are needed: with a version nothing is created.
fn may_create(resource: &Resource, object: &[u8]) -> bool {
    let resource = (&*resource.kind.group, &*resource.plural);
    if !CREATED_BY_UPDATES.contains(&resource) {
        return false;
    }
    // Of duplicate fields the last counts, here and in the server.
    let object: serde_json::Value = serde_json::from_slice(object).unwrap_or_default();
    let version = object["metadata"]["resourceVersion"].as_str();
    version.is_none_or(|version| version.is_empty() || version == "0")
}

fn delete_body(options: &DeleteOptions) -> Bytes {
    let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if options.uid.is_some() || options.resource_version.is_some() {
        let mut preconditions = json!({});
        if let Some(uid) = &options.uid {
            preconditions["uid"] = json!(uid);
        }
        if let Some(version) = &options.resource_version {
            preconditions["resourceVersion"] = json!(version);
        }
        body["preconditions"] = preconditions;
    }
    if let Some(propagation) = options.propagation {
        body["propagationPolicy"] = json!(propagation.as_str());
    }
    if let Some(seconds) = options.grace_period_seconds {
        body["gracePeriodSeconds"] = json!(seconds);
    }
    if options.dry_run {
        body["dryRun"] = json!(["All"]);
    }
    Bytes::from(body.to_string())
}

/// Namespace and name of an object to write.
struct Named {
    namespace: Option<Arc<str>>,
    name: Option<Arc<str>>,
}

impl Named {
    fn read(object: &Bytes) -> Result<Self, ApiError> {
        let head = Head::scan(object).map_err(|e| {
            ApiError::host(ApiCode::Invalid, format!("the object is not usable: {e}"))
        })?;
        let text = |span: crate::json::Span| {
            let text: Option<String> = serde_json::from_slice(&object[span.range()]).ok();
            text.filter(|text| !text.is_empty()).map(Arc::from)
        };
        Ok(Self {
            namespace: text(head.namespace),
            name: text(head.name),
        })
    }

    fn namespace<'a>(&'a self, resource: &Resource) -> Result<Option<&'a str>, ApiError> {
        match (resource.namespaced, self.namespace.as_deref()) {
            (true, None) => Err(ApiError::host(
                ApiCode::Invalid,
                format!("the {} has no metadata.namespace", resource.kind.kind),
            )),
            (false, Some(_)) => Err(ApiError::host(
                ApiCode::Invalid,
                format!(
                    "{} is cluster-scoped: leave metadata.namespace out",
                    resource.kind.kind
                ),
            )),
            (_, namespace) => {
                namespace.map_or(Ok(()), check_segment)?;
                Ok(namespace)
            }
        }
    }

    fn key(&self, resource: &Resource) -> Result<ObjectKey, ApiError> {
        self.namespace(resource)?;
        match &self.name {
            Some(name) => {
                check_segment(name)?;
                Ok(ObjectKey {
                    namespace: self.namespace.clone(),
                    name: name.clone(),
                })
            }
            None => Err(ApiError::host(
                ApiCode::Invalid,
                format!("the {} has no metadata.name", resource.kind.kind),
            )),
        }
    }
}
