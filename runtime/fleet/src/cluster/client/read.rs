//! Reads, from caches and live. Entry points: [`Client::read_object`] and [`Client::read_page`].
//!
//! A cached get may be answered by any store that covers the key, as long as no other store of the kind knows better; what no
//! store can answer for certain is read live, so that `None` always means absent. A cached list needs a covering store.

use super::Client;
use super::target::{Target, check_key};
use crate::api::{
    ApiCode, ApiError, GetOptions, Json, ListOptions, ListPage, Projection, ReadMode,
};
use crate::cluster::answer::refusal;
use crate::cluster::store::{IndexPath, Query, Store, StoreKey};
use crate::cluster::transport::{Call, JSON};
use crate::grant::{Namespaces, Verb};
use crate::json::{List, Object};
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;
use crate::selector::{FieldSelector, LabelSelector};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Write as _;
use std::sync::Arc;

/// Items of a page where the caller does not say.
const PAGE: u32 = 500;
/// Most items of a page.
const MAX_PAGE: u32 = 5_000;
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// What the stores of a kind can say of one key.
enum Known {
    /// The object, or for certain its absence.
    Answer(Option<Object>),
    /// A store that will be able to tell is still syncing.
    Syncing(Arc<Store>),
    /// Stores disagree, or can only tell of presence: the server must be asked.
    AskServer,
    /// The kind has no store at all.
    Nobody,
}

impl Client {
    pub(super) async fn read_object(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        let target = self.target(kind).await?;
        check_key(&target.resource, key)?;
        self.check(
            &target.resource,
            options.subresource.as_deref(),
            Verb::Get,
            key.namespace.as_deref(),
            Some(&key.name),
        )?;
        if options.mode == ReadMode::Live || options.subresource.is_some() {
            return self.get_live(&target, key, options).await;
        }
        self.get_cached(&target, key, options).await
    }

    /// An object that some cache holds, whatever the grant says: for the host's own use.
    pub(in crate::cluster) fn held(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
    ) -> Option<Object> {
        let backend = self.cluster.backend()?;
        backend
            .stores
            .with_kind(kind, |stores| {
                stores.iter().find_map(|store| store.get(key))
            })
            .map(|(object, _)| object)
    }

    async fn get_cached(
        &self,
        target: &Target,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        loop {
            match known(target, key, options.projection) {
                Known::Answer(object) => {
                    return Ok(object.map(|object| project(&object, options.projection)));
                }
                Known::Syncing(store) => {
                    if !self.synced(&store).await? {
                        return self.get_live(target, key, options).await;
                    }
                }
                Known::AskServer => return self.get_live(target, key, options).await,
                Known::Nobody => match self.store_for_read(target, key.namespace.as_deref())? {
                    Some(store) if self.synced(&store).await? => {}
                    _ => return self.get_live(target, key, options).await,
                },
            }
        }
    }

    /// Waits for a store's first list; `false` when its server has definitely refused it.
    async fn synced(&self, store: &Store) -> Result<bool, ApiError> {
        let mut progress = store.progress();
        let wait = progress
            .wait_for(|p| p.synced || p.problem.as_ref().is_some_and(|problem| problem.definite));
        let synced = self.within(wait).await?.is_ok_and(|p| p.synced);
        Ok(synced)
    }

    /// Starts a store for a kind that nobody watches, if the grant allows to list and watch it.
    fn store_for_read(
        &self,
        target: &Target,
        namespace: Option<&str>,
    ) -> Result<Option<Arc<Store>>, ApiError> {
        let resource = &target.resource;
        let (list, watch) = (
            self.namespaces(resource, Verb::List),
            self.namespaces(resource, Verb::Watch),
        );
        let scope = match namespace {
            _ if list == Namespaces::All && watch == Namespaces::All => None,
            Some(namespace)
                if list.contains(Some(namespace)) && watch.contains(Some(namespace)) =>
            {
                Some(namespace.into())
            }
            _ => return Ok(None),
        };
        let key = StoreKey::whole(resource.kind.clone(), scope, Projection::Full);
        let user = target.backend.stores.open_for_read(key, resource);
        let user = user.map_err(|e| ApiError::host(ApiCode::LimitExceeded, e.to_string()))?;
        Ok(Some(user.store().clone()))
    }

    async fn get_live(
        &self,
        target: &Target,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        let path = target.resource.object_path(
            key.namespace.as_deref(),
            &key.name,
            options.subresource.as_deref(),
        );
        let accept = if options.projection == Projection::Metadata {
            METADATA
        } else {
            JSON
        };
        match self.call(target, Call::get(path, accept)).await {
            Ok(body) => Ok(Some(body)),
            Err(error) if error.code == ApiCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A live read.
    async fn call(&self, target: &Target, call: Call) -> Result<Json, ApiError> {
        let connection = &target.backend.connection;
        let limit = connection.options().call_timeout;
        let answer = self
            .within(connection.send(call, self.scope.time_left(limit)))
            .await??;
        Ok(refusal(answer)?.body)
    }

    // --- lists ---

    pub(super) async fn read_page(
        &self,
        kind: &GroupVersionKind,
        options: &ListOptions,
    ) -> Result<ListPage, ApiError> {
        let target = self.target(kind).await?;
        let resource = &target.resource;
        if !resource.namespaced && options.namespace.is_some() {
            return Err(invalid(format!(
                "{} is cluster-scoped: list it without a namespace",
                resource.kind.kind
            )));
        }
        let plan = self.plan(&target, options)?;
        match options.mode {
            ReadMode::Cached => self.list_cached(&target, &plan, options).await,
            ReadMode::Live => self.list_live(&target, &plan, options).await,
        }
    }

    /// Selectors parsed, namespaces granted.
    fn plan(&self, target: &Target, options: &ListOptions) -> Result<Plan, ApiError> {
        let parse = |e: crate::selector::SelectorError| invalid(e.to_string());
        let labels = options
            .label_selector
            .as_deref()
            .map(LabelSelector::parse)
            .transpose()
            .map_err(parse)?;
        let fields = options
            .field_selector
            .as_deref()
            .map(FieldSelector::parse)
            .transpose()
            .map_err(parse)?;
        let name = fields
            .as_ref()
            .and_then(|fields| fields.exact("metadata.name"));
        let namespaces = match &options.namespace {
            Some(namespace) => {
                self.check(&target.resource, None, Verb::List, Some(namespace), name)?;
                vec![Some(namespace.as_str().into())]
            }
            None => match self.namespaces(&target.resource, Verb::List) {
                Namespaces::All => vec![None],
                Namespaces::Only(names) if target.resource.namespaced => {
                    names.into_iter().map(Some).collect()
                }
                // Says what is missing, or lets a rule with resourceNames through.
                _ => {
                    self.check(&target.resource, None, Verb::List, None, name)?;
                    vec![None]
                }
            },
        };
        let limit = if options.limit == 0 {
            PAGE
        } else {
            options.limit.min(MAX_PAGE)
        };
        Ok(Plan {
            labels,
            fields,
            namespaces,
            limit: limit as usize,
        })
    }

    async fn list_cached(
        &self,
        target: &Target,
        plan: &Plan,
        options: &ListOptions,
    ) -> Result<ListPage, ApiError> {
        let kind = &target.resource.kind;
        let (fields, index) = self.cached_fields(kind, plan, options)?;
        let mut page = ListPage::default();
        let (mut at, mut after) = cached_position(plan, options.continue_token.as_deref())?;
        loop {
            let namespace = plan.namespaces[at].as_deref();
            let store = self.covering(target, namespace, options).await?;
            if let Some((id, path)) = &index
                && !store.has_index(id)
            {
                store.add_index(id, path);
            }
            let index = index
                .as_ref()
                .zip(options_index(options, plan))
                .map(|((id, _), value)| (&**id, value));
            let query = Query {
                namespace,
                labels: plan.labels.as_ref(),
                fields: fields.as_ref(),
                index,
            };
            let room = plan.limit - page.items.len();
            let found = store.page(&query, after.as_ref(), room);
            let (more, last) = (found.more, found.last.clone());
            let part = found.into_list(options.projection, None);
            page.items.extend(part.items);
            page.resource_version = part.resource_version;
            if more {
                page.continue_token = last.map(|last| format!("cached:{at}:{last}"));
                return Ok(page);
            }
            (at, after) = (at + 1, None);
            if at == plan.namespaces.len() {
                return Ok(page);
            }
            if page.items.len() == plan.limit {
                page.continue_token = Some(format!("cached:{at}:"));
                return Ok(page);
            }
        }
    }

    /// Splits a cached list's field selector into what keys answer and what a declared index answers.
    fn cached_fields(
        &self,
        kind: &GroupVersionKind,
        plan: &Plan,
        options: &ListOptions,
    ) -> Result<CachedFields, ApiError> {
        let declared = |name: &str| {
            let index = self.scope.caller.index(kind, name);
            index.map(|index| (index.id.clone(), index.path.clone())).ok_or_else(|| {
                invalid(format!("no index {name:?} of {kind} was declared: declare it in describe(), or read live"))
            })
        };
        let mut index = options
            .index
            .as_ref()
            .map(|(name, _)| declared(name))
            .transpose()?;
        let Some(fields) = &plan.fields else {
            return Ok((None, index));
        };
        let mut by_key = Vec::new();
        for requirement in fields.requirements() {
            if matches!(&*requirement.field, "metadata.name" | "metadata.namespace") {
                by_key.push(requirement.clone());
                continue;
            }
            let single = fields.requirements().len() - by_key.len() == 1 && index.is_none();
            if !single || !requirement.equal {
                return Err(invalid(format!(
                    "the cache answers field selectors on metadata.name, metadata.namespace and one declared index, not {fields}: read live"
                )));
            }
            index = Some(declared(&requirement.field)?);
        }
        Ok((Some(FieldSelector::new(by_key)), index))
    }

    /// A store that holds all that a list asks for, and is no older than any other store of the kind.
    async fn covering(
        &self,
        target: &Target,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Arc<Store>, ApiError> {
        let stores = &target.backend.stores;
        let kind = &target.resource.kind;
        let wanted = options.projection;
        let found = stores.with_kind(kind, |all| {
            all.iter()
                .find(|store| covers(&store.key, namespace, wanted))
                .cloned()
        });
        let store = match found {
            Some(store) => store,
            None => match self.store_for_read(target, namespace)? {
                Some(store) => store,
                None => {
                    // Nothing caches it and nothing may: the check names what is missing.
                    self.check(&target.resource, None, Verb::List, namespace, None)?;
                    self.check(&target.resource, None, Verb::Watch, namespace, None)?;
                    return Err(ApiError::host(
                        ApiCode::Denied,
                        format!(
                            "a cached list of {kind} needs list and watch on all of its namespaces: read live"
                        ),
                    ));
                }
            },
        };
        stores.touch(&store.key);
        if !self.synced(&store).await? {
            let problem = store.progress().borrow().problem.clone();
            return Err(problem
                .and_then(|p| p.error.map(|e| (*e).clone()))
                .unwrap_or_else(|| {
                    ApiError::host(
                        ApiCode::Unavailable,
                        format!("the cache of {kind} cannot be filled"),
                    )
                }));
        }
        self.caught_up(target, &store).await?;
        Ok(store)
    }

    /// Waits until a store has seen what others of its kind have: a request that another store's event caused must find that event.
    async fn caught_up(&self, target: &Target, store: &Store) -> Result<(), ApiError> {
        let newest = target.backend.stores.with_kind(&store.key.kind, |all| {
            let others = all
                .iter()
                .filter(|other| !std::ptr::eq(&***other, store) && within(&other.key, &store.key));
            others
                .map(|other| *other.seen().borrow())
                .max()
                .unwrap_or(0)
        });
        if *store.seen().borrow() >= newest {
            return Ok(());
        }
        let mut seen = store.seen();
        self.within(seen.wait_for(|seen| *seen >= newest))
            .await?
            .map(drop)
            .map_err(|_| self.cluster.gone())
    }

    async fn list_live(
        &self,
        target: &Target,
        plan: &Plan,
        options: &ListOptions,
    ) -> Result<ListPage, ApiError> {
        if options.index.is_some() {
            return Err(invalid("an index answers cached reads only: read cached, or use a field selector that the server knows".into()));
        }
        let (at, server_token) = live_position(plan, options.continue_token.as_deref())?;
        let mut path = target
            .resource
            .collection_path(plan.namespaces[at].as_deref());
        let _ = write!(path, "?limit={}", plan.limit);
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        if let Some(labels) = &options.label_selector {
            let _ = write!(path, "&labelSelector={}", encode(labels));
        }
        if let Some(fields) = &options.field_selector {
            let _ = write!(path, "&fieldSelector={}", encode(fields));
        }
        if let Some(token) = server_token {
            let _ = write!(path, "&continue={}", encode(token));
        }
        let accept = if options.projection == Projection::Metadata {
            METADATA_LIST
        } else {
            JSON
        };
        let body = self.call(target, Call::get(path, accept)).await?;
        let list = List::split(body).map_err(|e| {
            ApiError::host(
                ApiCode::Other,
                format!("the server's list is not understood: {e}"),
            )
        })?;
        let mut items = Vec::with_capacity(list.items().len());
        for item in list.items() {
            let object = Object::ingest(item, &target.resource.kind);
            items.push(
                object
                    .map_err(|e| {
                        ApiError::host(
                            ApiCode::Other,
                            format!("an item of the server's list is not understood: {e}"),
                        )
                    })?
                    .json()
                    .clone(),
            );
        }
        let next = match &list.continue_token {
            Some(token) => Some(format!("live:{at}:{token}")),
            None if at + 1 < plan.namespaces.len() => Some(format!("live:{}:", at + 1)),
            None => None,
        };
        Ok(ListPage {
            items,
            continue_token: next,
            resource_version: list.resource_version,
        })
    }
}

/// What keys answer of a field selector, and the index that answers the rest.
type CachedFields = (Option<FieldSelector>, Option<(Arc<str>, IndexPath)>);

/// A list, understood.
struct Plan {
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    /// Where to list, one after the other; `None` is all namespaces at once. Never empty.
    namespaces: Vec<Option<Arc<str>>>,
    limit: usize,
}

/// The value that the index must hold: from the index option, or from the field selector that stands for it.
fn options_index<'a>(options: &'a ListOptions, plan: &'a Plan) -> Option<&'a str> {
    if let Some((_, value)) = &options.index {
        return Some(value);
    }
    let by_index = |field: &str| !matches!(field, "metadata.name" | "metadata.namespace");
    plan.fields
        .as_ref()?
        .requirements()
        .iter()
        .find(|r| by_index(&r.field))
        .map(|r| &*r.value)
}

/// Whether a store holds everything of a namespace (`None`: of all) in at least this projection.
fn covers(store: &StoreKey, namespace: Option<&str>, projection: Projection) -> bool {
    let full_enough = store.projection == Projection::Full || projection == Projection::Metadata;
    !store.is_selective()
        && full_enough
        && (store.namespace.is_none() || store.namespace.as_deref() == namespace)
}

/// Whether all that one store sees, the other sees too.
fn within(part: &StoreKey, whole: &StoreKey) -> bool {
    whole.namespace.is_none() || whole.namespace == part.namespace
}

/// Asks the stores of a kind for one object.
fn known(target: &Target, key: &ObjectKey, projection: Projection) -> Known {
    let namespace = key.namespace.as_deref();
    target
        .backend
        .stores
        .with_kind(&target.resource.kind, |stores| {
            let mut newest = 0;
            let mut found: Option<(Object, u64)> = None;
            let mut whole: Option<&Arc<Store>> = None;
            for store in stores {
                let sees =
                    store.key.namespace.is_none() || store.key.namespace.as_deref() == namespace;
                if !sees {
                    continue;
                }
                let held = store.get(key);
                newest = newest.max(held.as_ref().map_or(0, |(_, version)| *version));
                if covers(&store.key, namespace, projection) && whole.is_none_or(|w| !w.is_synced())
                {
                    whole = Some(store);
                }
                let full_enough =
                    store.key.projection == Projection::Full || projection == Projection::Metadata;
                if full_enough
                    && let Some(held) = held
                    && found.as_ref().is_none_or(|(_, version)| held.1 >= *version)
                {
                    found = Some(held);
                }
            }
            match (found, whole) {
                (Some((object, version)), _) if version >= newest => {
                    touch(target, whole);
                    Known::Answer(Some(object))
                }
                (None, Some(store)) if !store.is_synced() => Known::Syncing(store.clone()),
                (None, Some(_)) if newest == 0 => {
                    touch(target, whole);
                    Known::Answer(None)
                }
                (None, None) if stores.is_empty() => Known::Nobody,
                // A selector's store, or one of metadata, says nothing of what it does not hold.
                _ => Known::AskServer,
            }
        })
}

/// Notes a read of a store that reads brought up; stores that sources use do not care.
fn touch(target: &Target, store: Option<&Arc<Store>>) {
    if let Some(store) = store
        && target.backend.stores.has_read_stores()
    {
        target.backend.stores.touch(&store.key);
    }
}

fn project(object: &Object, projection: Projection) -> Json {
    match projection {
        Projection::Full => object.json().clone(),
        Projection::Metadata => object.metadata_only().json().clone(),
    }
}

fn invalid(message: String) -> ApiError {
    ApiError::host(ApiCode::Invalid, message)
}

/// Where a cached list goes on: `cached:<index of the namespace>:<last key>`.
fn cached_position(
    plan: &Plan,
    token: Option<&str>,
) -> Result<(usize, Option<ObjectKey>), ApiError> {
    let Some(token) = token else {
        return Ok((0, None));
    };
    let (at, key) = position(plan, token, "cached:")?;
    let key = match (key, key.split_once('/')) {
        ("", _) => None,
        (_, Some((namespace, name))) => Some(ObjectKey::namespaced(namespace, name)),
        (name, None) => Some(ObjectKey::cluster_scoped(name)),
    };
    Ok((at, key))
}

/// Where a live list goes on: `live:<index of the namespace>:<the server's token>`.
fn live_position<'a>(
    plan: &Plan,
    token: Option<&'a str>,
) -> Result<(usize, Option<&'a str>), ApiError> {
    let Some(token) = token else {
        return Ok((0, None));
    };
    let (at, server) = position(plan, token, "live:")?;
    Ok((at, Some(server).filter(|server| !server.is_empty())))
}

fn position<'a>(plan: &Plan, token: &'a str, prefix: &str) -> Result<(usize, &'a str), ApiError> {
    let found = token
        .strip_prefix(prefix)
        .and_then(|rest| rest.split_once(':'));
    let found = found.and_then(|(at, rest)| Some((at.parse::<usize>().ok()?, rest)));
    match found {
        Some((at, rest)) if at < plan.namespaces.len() => Ok((at, rest)),
        _ => Err(ApiError::host(
            ApiCode::Expired,
            "the continue token is not one of this list: list anew from the start",
        )),
    }
}
