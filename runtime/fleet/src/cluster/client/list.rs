//! Lists, from caches and live. Entry point: [`Client::read_page`].
//!
//! A cached list needs a store that has all of it, and waits until that store has reached the version of the kind's other stores.
//! Several granted namespaces are listed one after the other, with continue tokens of our own.

use super::Client;
use super::charged::Charged;
use super::read::{covers, invalid, malformed, reaches};
use super::target::{Awaited, Target, check_namespace};
use crate::api::{ApiCode, ApiError, ListOptions, ListPage, Projection, ReadMode};
use crate::cache::store::{ByIndex, IndexPath, Page, Query, Store, StoreKey, Visible};
use crate::cache::watch::METADATA_LIST;
use crate::cluster::objects::may_see;
use crate::grant::{Namespaces, Verb};
use crate::http::transport::{Charge, JSON};
use crate::json::{List, Object};
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;
use crate::selector::{FieldSelector, LabelSelector};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Items of a page without a limit.
const PAGE: u32 = 500;
/// Most items of a page.
const MAX_PAGE: u32 = 5_000;
/// The index by which the SDKs and [`crate::Dependents`] find dependents.
const OF_DEPENDENTS: &str = "windlass.dev/owner";

impl Client {
    pub(super) async fn read_page(
        &self,
        kind: &GroupVersionKind,
        options: &ListOptions,
    ) -> Result<ListPage, ApiError> {
        let target = self.target(kind).await?;
        let resource = &target.resource;
        check_namespace(resource, options.namespace.as_deref())?;
        let plan = self.plan(&target, options)?;
        if let Some(made) = target.made() {
            let store = self.store_of_made(&target, made, options.mode)?;
            return self.list_cached(&target, &plan, options, &[store]).await;
        }
        match options.mode {
            _ if target.is_live => self.list_live(&target, &plan, options).await,
            // A grant on single objects starts no cache of the kind. Caches that already run may answer.
            ReadMode::Cached if plan.by_name => match synced_stores(&target, &plan, options) {
                Some(stores) => self.list_cached(&target, &plan, options, &stores).await,
                None => self.list_live(&target, &plan, options).await,
            },
            ReadMode::Cached => self.list_cached(&target, &plan, options, &[]).await,
            ReadMode::Live => self.list_live(&target, &plan, options).await,
        }
    }

    /// Parses the selectors and finds the granted namespaces.
    pub(super) fn plan(&self, target: &Target, options: &ListOptions) -> Result<Plan, ApiError> {
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
            None => match self.needed_namespaces(&target.resource, Verb::List, name) {
                Namespaces::All => vec![None],
                Namespaces::Only(names) if target.resource.namespaced => {
                    names.into_iter().map(Some).collect()
                }
                // The check reports the missing rule.
                _ => {
                    self.check(&target.resource, None, Verb::List, None, name)?;
                    vec![None]
                }
            },
        };
        if options
            .index
            .as_ref()
            .is_some_and(|(name, _)| name == OF_DEPENDENTS)
        {
            self.note_dependents(&target.resource, options.namespace.as_deref());
        }
        let limit = if options.limit == 0 {
            PAGE
        } else {
            options.limit.min(MAX_PAGE)
        };
        // Without a name, what is listed is granted as a whole.
        let by_name = name.is_some() && {
            let whole = self.namespaces(&target.resource, Verb::List, None);
            let mut namespaces = namespaces.iter();
            namespaces.any(|namespace| !whole.contains(namespace.as_deref()))
        };
        let part = self.part();
        let namespaces: Result<Vec<_>, _> = namespaces
            .into_iter()
            .map(|namespace| part.stored_namespace(namespace))
            .collect();
        let mut plan = Plan {
            labels,
            fields: fields.map(|fields| part.stored_fields(fields)),
            namespaces: namespaces?,
            by_name,
            limit: limit as usize,
            seal: 0,
        };
        plan.seal = plan.sealed(&target.resource.kind, options.index.as_ref());
        Ok(plan)
    }

    /// `stores`: the stores of the plan's namespaces, if they are known already.
    async fn list_cached(
        &self,
        target: &Target,
        plan: &Plan,
        options: &ListOptions,
        stores: &[Arc<Store>],
    ) -> Result<ListPage, ApiError> {
        let kind = &target.resource.kind;
        let (fields, index) = self.cached_fields(kind, plan, options)?;
        let grant = self.grant();
        let visible = |object: &Object| may_see(&grant, object);
        let visible: Option<&Visible<'_>> = target.made().map(|_| &visible as _);
        let mut page = ListPage::default();
        let (mut at, mut after) = cached_position(plan, options.continue_token.as_deref())?;
        loop {
            let namespace = plan.namespaces[at].as_deref();
            let store = match stores.get(at) {
                Some(store) => {
                    self.caught_up(target, store).await?;
                    store.clone()
                }
                None => self.covering(target, namespace, plan, options).await?,
            };
            let index = index
                .as_ref()
                .zip(options_index(options, plan))
                .map(|((name, path), value)| ByIndex { name, path, value });
            let query = Query {
                part: namespace,
                labels: plan.labels.as_ref(),
                fields: fields.as_ref(),
                index,
                visible,
            };
            let room = plan.limit - page.items.len();
            let found = store.page(&query, after.as_ref(), room).await;
            let (more, last) = (found.more, found.last.clone());
            let found = self.shown_page(found);
            let part = found.into_list(options.projection, None).await;
            page.items.extend(part.items);
            page.resource_version = part.resource_version;
            if more {
                page.continue_token = last.map(|last| plan.token(CACHED, at, &last.to_string()));
                return Ok(page);
            }
            (at, after) = (at + 1, None);
            if at == plan.namespaces.len() {
                return Ok(page);
            }
            if page.items.len() == plan.limit {
                page.continue_token = Some(plan.token(CACHED, at, ""));
                return Ok(page);
            }
        }
    }

    /// A page of a store, whose objects are all in the cluster, in its shown form.
    fn shown_page(&self, page: Page) -> Page {
        let part = self.part();
        if part.is_whole() {
            return page;
        }
        let objects = page.objects.into_iter();
        Page {
            objects: objects.filter_map(|object| part.shown(object)).collect(),
            ..page
        }
    }

    /// Splits a cached list's field selector into requirements on keys and one on a declared index.
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
            if is_of_key(&requirement.field) {
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

    /// A store that has all objects of a list, and is no older than any other store of the kind.
    async fn covering(
        &self,
        target: &Target,
        namespace: Option<&str>,
        plan: &Plan,
        options: &ListOptions,
    ) -> Result<Arc<Store>, ApiError> {
        let stores = &target.backend.stores;
        let kind = &target.resource.kind;
        let wanted = options.projection;
        let labels = plan.labels.as_ref().map(ToString::to_string);
        // A store with the same selector as the list has all of its objects.
        let selects_it = |key: &StoreKey| {
            key.field_selector.is_empty()
                && labels.as_deref() == Some(&*key.label_selector)
                && reaches(key, namespace, wanted)
        };
        let found = stores.with_kind(kind, |all| {
            all.iter()
                .find(|store| covers(&store.key, namespace, wanted))
                .or_else(|| all.iter().find(|store| selects_it(&store.key)))
                .cloned()
        });
        let store = match found {
            Some(store) => store,
            None => match self.store_for_read(target, self.part().shown_namespace(namespace))? {
                Some(store) => store,
                None => {
                    // No cache has it, and none may be started: the checks report the missing rule.
                    let shown = self.part().shown_namespace(namespace);
                    self.check(&target.resource, None, Verb::List, shown, None)?;
                    let is_kept =
                        wanted == Projection::Metadata && self.cluster.keeps_metadata_of(kind);
                    if !is_kept {
                        self.check(&target.resource, None, Verb::Watch, shown, None)?;
                    }
                    if !is_kept && !self.grant().is_noting() {
                        return Err(ApiError::host(
                            ApiCode::Denied,
                            format!(
                                "a cached list of {kind} needs list and watch on all of its namespaces: read live"
                            ),
                        ));
                    }
                    // The checks have noted what is missing.
                    let whole = shown.filter(|_| self.part().is_whole());
                    self.open_for_read(target, whole.map(Into::into))?
                }
            },
        };
        stores.touch(&store.key);
        if let Some(obstacle) = self.first_list(&store).await? {
            return Err(obstacle.read_error(kind));
        }
        self.caught_up(target, &store).await?;
        Ok(store)
    }

    /// Waits until a store has reached the versions of the kind's other stores: a request that another store's event caused must find
    /// the state of that event.
    async fn caught_up(&self, target: &Target, store: &Store) -> Result<(), ApiError> {
        let newest = target.backend.stores.with_kind(&store.key.kind, |all| {
            let others = all
                .iter()
                .filter(|other| !std::ptr::eq(&***other, store) && within(&other.key, &store.key));
            others.map(|other| other.seen()).max().unwrap_or(0)
        });
        let mut reached = store.reached_version();
        if *reached.borrow() >= newest {
            return Ok(());
        }
        let mut progress = store.progress();
        let caught_up = async {
            tokio::select! {
                biased;
                reached = reached.wait_for(|reached| *reached >= newest) => reached.map(|_| None),
                broken = progress.wait_for(|now| now.problem.is_some()) => broken.map(|now| now.problem.clone()),
            }
        };
        let awaited = Awaited::Watch(&store.key.kind);
        match self.within(awaited, caught_up).await? {
            Ok(None) => Ok(()),
            Ok(Some(problem)) => Err(problem.read_error(&store.key.kind)),
            Err(_) => Err(self.cluster.gone()),
        }
    }

    async fn list_live(
        &self,
        target: &Target,
        plan: &Plan,
        options: &ListOptions,
    ) -> Result<ListPage, ApiError> {
        let LivePage { list, charge, next } = self.live_page(target, plan, options).await?;
        let kind = &target.resource.kind;
        let mut items = Vec::with_capacity(list.items().len());
        for item in list.items() {
            let object = Object::ingest(item, kind).map_err(malformed)?;
            let json = match options.projection {
                Projection::Full => object.json().clone(),
                Projection::Metadata => object.metadata_of(kind).json().clone(),
            };
            items.push(self.part().shown_text(kind, json));
        }
        Ok(ListPage {
            items: Charged::parts(charge, items),
            continue_token: next,
            resource_version: list.resource_version,
        })
    }

    /// A page of a live list, as the server sends it.
    pub(super) async fn live_page(
        &self,
        target: &Target,
        plan: &Plan,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        if options.index.is_some() {
            return Err(invalid("an index answers cached reads only: read cached, or use a field selector that the server knows".into()));
        }
        let (at, server_token) = live_position(plan, options.continue_token.as_deref())?;
        let namespace = self.part().url_of_stored(plan.namespaces[at].as_deref());
        let mut path = target.resource.collection_path(namespace);
        let _ = write!(path, "?limit={}", plan.limit);
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        if let Some(labels) = &options.label_selector {
            let _ = write!(path, "&labelSelector={}", encode(labels));
        }
        // In the form that was checked against the grant.
        if let Some(fields) = &plan.fields {
            let _ = write!(path, "&fieldSelector={}", encode(&fields.to_string()));
        }
        if let Some(token) = server_token {
            let _ = write!(path, "&continue={}", encode(token));
        }
        let accept = if options.projection == Projection::Metadata {
            METADATA_LIST
        } else {
            JSON
        };
        let answer = self.read(target, &path, accept).await?;
        let list = List::split(answer.body).map_err(malformed)?;
        let next = match &list.continue_token {
            Some(token) => Some(plan.token(LIVE, at, token)),
            None if at + 1 < plan.namespaces.len() => Some(plan.token(LIVE, at + 1, "")),
            None => None,
        };
        Ok(LivePage {
            list,
            charge: answer.charge,
            next,
        })
    }
}

/// A page of a live list.
pub(super) struct LivePage {
    pub(super) list: List,
    charge: Option<Charge>,
    pub(super) next: Option<String>,
}

/// The requirements on keys of a field selector, and the index for the rest.
type CachedFields = (Option<FieldSelector>, Option<(Arc<str>, IndexPath)>);

/// A list after its options were parsed and checked.
pub(super) struct Plan {
    labels: Option<LabelSelector>,
    /// In its stored form.
    fields: Option<FieldSelector>,
    /// The namespaces to list, in their stored form, one after the other; `None` is all at once. Never empty.
    namespaces: Vec<Option<Arc<str>>>,
    /// Whether some namespace is granted only for objects of one name.
    by_name: bool,
    limit: usize,
    /// A hash of the list and of its granted namespaces: continue tokens of one list do not work for another.
    seal: u64,
}

/// First part of the continue tokens of cached and of live lists.
const CACHED: &str = "cached";
const LIVE: &str = "live";

impl Plan {
    fn sealed(&self, kind: &GroupVersionKind, index: Option<&(String, String)>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (kind, &self.labels, &self.fields, &self.namespaces, index).hash(&mut hasher);
        hasher.finish()
    }

    /// A token for the position after `after` in one of the namespaces.
    fn token(&self, how: &str, at: usize, after: &str) -> String {
        format!("{how}:{:016x}:{at}:{after}", self.seal)
    }

    /// The position in a token of this list.
    fn position<'a>(&self, how: &str, token: &'a str) -> Result<(usize, &'a str), ApiError> {
        let own = format!("{how}:{:016x}:", self.seal);
        let found = token
            .strip_prefix(&own)
            .and_then(|rest| rest.split_once(':'));
        let found = found.and_then(|(at, rest)| Some((at.parse::<usize>().ok()?, rest)));
        match found {
            Some((at, rest)) if at < self.namespaces.len() => Ok((at, rest)),
            _ => Err(ApiError::host(
                ApiCode::Expired,
                "the continue token is not one of this list: list anew from the start",
            )),
        }
    }
}

/// Whether a field is part of an object's key, which every cache knows.
fn is_of_key(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

/// The synced stores that would have the one object that a plan names, one for each namespace; `None` if one is missing.
fn synced_stores(target: &Target, plan: &Plan, options: &ListOptions) -> Option<Vec<Arc<Store>>> {
    let fields = plan.fields.as_ref()?;
    let mut requirements = fields.requirements().iter();
    if options.index.is_some() || !requirements.all(|requirement| is_of_key(&requirement.field)) {
        return None;
    }
    let name = fields.exact("metadata.name")?;
    let only = FieldSelector::name(name).to_string();
    let wanted = options.projection;
    let of_kind = |namespace: Option<&str>| {
        target
            .backend
            .stores
            .with_kind(&target.resource.kind, |all| {
                let holds = |store: &&Arc<Store>| {
                    let key = &store.key;
                    let selects_it = *key.field_selector == *only && key.label_selector.is_empty();
                    store.is_synced()
                        && (!key.is_selective() || selects_it)
                        && reaches(key, namespace, wanted)
                };
                all.iter().find(holds).cloned()
            })
    };
    let namespaces = plan.namespaces.iter();
    let stores = namespaces.map(|namespace| of_kind(namespace.as_deref()));
    stores.collect()
}

/// The value that the index must have: from the index option, or from the field selector.
fn options_index<'a>(options: &'a ListOptions, plan: &'a Plan) -> Option<&'a str> {
    if let Some((_, value)) = &options.index {
        return Some(value);
    }
    plan.fields
        .as_ref()?
        .requirements()
        .iter()
        .find(|requirement| !is_of_key(&requirement.field))
        .map(|requirement| &*requirement.value)
}

/// Whether one store watches all namespaces of the other.
fn within(part: &StoreKey, whole: &StoreKey) -> bool {
    whole.namespace.is_none() || whole.namespace == part.namespace
}

/// The position of a cached list: a namespace, and the last key of the previous page.
fn cached_position(
    plan: &Plan,
    token: Option<&str>,
) -> Result<(usize, Option<ObjectKey>), ApiError> {
    let Some(token) = token else {
        return Ok((0, None));
    };
    let (at, key) = plan.position(CACHED, token)?;
    let key = match (key, key.split_once('/')) {
        ("", _) => None,
        (_, Some((namespace, name))) => Some(ObjectKey::namespaced(namespace, name)),
        (name, None) => Some(ObjectKey::cluster_scoped(name)),
    };
    Ok((at, key))
}

/// The position of a live list: a namespace, and the server's token.
fn live_position<'a>(
    plan: &Plan,
    token: Option<&'a str>,
) -> Result<(usize, Option<&'a str>), ApiError> {
    let Some(token) = token else {
        return Ok((0, None));
    };
    let (at, server) = plan.position(LIVE, token)?;
    Ok((at, Some(server).filter(|server| !server.is_empty())))
}
