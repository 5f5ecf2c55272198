//! Reads of one object, from caches and live. Entry points: [`Client::read_at_once`], and [`Client::read_on`] for a read that must wait.
//!
//! A store that covers the key answers a cached get, unless another store of the kind has a newer state or disagrees. If no store is
//! certain, the read is live, so that `None` always means absent.
//!
//! Most reads are answered by a cache. The future of a read that waits has 4 KB, so it is made only when a read must wait.

use super::Client;
use super::target::{Awaited, Target, check_key, check_subresource};
use crate::api::{ApiCode, ApiError, GetOptions, Json, Projection, ReadMode};
use crate::cache::store::{Problem, Store, StoreKey, projected};
use crate::cache::watch::METADATA;
use crate::grant::{Namespaces, Verb};
use crate::http::transport::JSON;
use crate::json::{JsonError, Object};
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The answer of a kind's stores for one key.
enum Known<T> {
    /// The object, or its certain absence.
    Answer(Option<T>),
    /// A store that will be certain is still syncing.
    Syncing(Arc<Store>),
    /// The stores disagree, or none would have the object for certain, or the caller asks for the server's own answer.
    Uncertain,
    /// The kind has no store.
    NoStore,
}

/// A read that passed all checks, and what is known without a wait.
pub(super) struct Begun {
    target: Target,
    known: Known<Json>,
}

impl Client {
    /// Does all of a read that needs no wait. Breaks with the result, if the read has one then. Else [`Self::read_on`] does the rest.
    pub(super) fn read_at_once(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> ControlFlow<Result<Option<Json>, ApiError>, Option<Begun>> {
        let target = self.known_target(kind);
        let begun = target.and_then(|target| {
            let begin = |target| self.begin_read(target, key, options);
            target.map(begin).transpose()
        });
        match begun {
            Ok(Some(Begun {
                known: Known::Answer(json),
                ..
            })) => ControlFlow::Break(Ok(json)),
            Ok(begun) => ControlFlow::Continue(begun),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    }

    /// The rest of a read. `None`: its resource is not known yet.
    pub(super) async fn read_on(
        &self,
        begun: Option<Begun>,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        let begun = match begun {
            Some(begun) => begun,
            None => self.begin_read(self.find_target(kind).await?, key, options)?,
        };
        self.await_answer(begun, key, options).await
    }

    /// Checks a read, and looks into the caches.
    fn begin_read(
        &self,
        target: Target,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Begun, ApiError> {
        let subresource = options.subresource.as_deref();
        check_key(&target.resource, key)?;
        check_subresource(subresource)?;
        self.check_object(&target.resource, subresource, Verb::Get, key)?;
        let known = match target.made() {
            Some(made) => Known::Answer(self.get_made(&target, made, key, options)?),
            None => self.known(&target, key, options)?,
        };
        Ok(Begun { target, known })
    }

    /// An object that some cache holds, in its stored form, without a check of the grant: for the host's own use.
    pub(crate) fn held(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Object> {
        self.cluster.held(kind, key)
    }

    /// What is known of an object without a wait, in the form that the caller gets.
    fn known(
        &self,
        target: &Target,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Known<Json>, ApiError> {
        if options.mode == ReadMode::Live || options.subresource.is_some() || target.is_live {
            return Ok(Known::Uncertain);
        }
        let stored = self.part().stored_key(key)?;
        Ok(match look_up(target, &stored, options.projection) {
            Known::Answer(object) => {
                let shown = object.and_then(|object| self.part().shown(object));
                Known::Answer(shown.map(|object| projected(&object, options.projection)))
            }
            Known::Syncing(store) => Known::Syncing(store),
            Known::Uncertain => Known::Uncertain,
            Known::NoStore => Known::NoStore,
        })
    }

    /// Waits for the answer of a read.
    async fn await_answer(
        &self,
        begun: Begun,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        let (target, mut known) = (&begun.target, begun.known);
        loop {
            let store = match known {
                Known::Answer(json) => return Ok(json),
                Known::Uncertain => return self.get_live(target, key, options).await,
                Known::Syncing(store) => store,
                Known::NoStore => match self.store_for_read(target, key.namespace.as_deref())? {
                    Some(store) => store,
                    None => return self.get_live(target, key, options).await,
                },
            };
            if let Some(obstacle) = self.first_list(&store).await? {
                return self.get_without(obstacle, target, key, options).await;
            }
            known = self.known(target, key, options)?;
        }
    }

    /// Reads an object whose cache cannot be filled: live if that is the server's last word on lists.
    async fn get_without(
        &self,
        obstacle: Problem,
        target: &Target,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        if obstacle.definite {
            return self.get_live(target, key, options).await;
        }
        Err(obstacle.read_error(&target.resource.kind))
    }

    /// Waits for a store's first list. Returns what keeps it from coming, as soon as that is known.
    pub(super) async fn first_list(&self, store: &Store) -> Result<Option<Problem>, ApiError> {
        let mut progress = store.progress();
        let wait = progress.wait_for(|now| now.synced || now.problem.is_some());
        let awaited = Awaited::FirstList(&store.key.kind);
        match self.within(awaited, wait).await? {
            Ok(now) => Ok(now.obstacle().cloned()),
            Err(_) => Err(self.cluster.gone()),
        }
    }

    /// Starts a store for a kind that has none, if the grant allows list and watch in a namespace.
    pub(super) fn store_for_read(
        &self,
        target: &Target,
        namespace: Option<&str>,
    ) -> Result<Option<Arc<Store>>, ApiError> {
        let resource = &target.resource;
        let (list, watch) = (
            self.namespaces(resource, Verb::List, None),
            self.namespaces(resource, Verb::Watch, None),
        );
        let of_server = match namespace {
            // One store of the whole server serves all clusters that are parts of it.
            _ if !self.part().is_whole() => {
                if !list.contains(namespace) || !watch.contains(namespace) {
                    return Ok(None);
                }
                None
            }
            _ if list == Namespaces::All && watch == Namespaces::All => None,
            Some(namespace)
                if list.contains(Some(namespace)) && watch.contains(Some(namespace)) =>
            {
                Some(namespace.into())
            }
            _ => return Ok(None),
        };
        self.open_for_read(target, of_server).map(Some)
    }

    /// Starts a store, of all namespaces of the server if none is named.
    pub(super) fn open_for_read(
        &self,
        target: &Target,
        namespace: Option<Arc<str>>,
    ) -> Result<Arc<Store>, ApiError> {
        let resource = &target.resource;
        let key = StoreKey::whole(resource.kind.clone(), namespace, Projection::Full);
        let user = target.backend.stores.open_for_read(key, resource);
        let user = user.map_err(|e| ApiError::host(ApiCode::LimitExceeded, e.to_string()))?;
        Ok(user.store().clone())
    }

    async fn get_live(
        &self,
        target: &Target,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        let path = self.object_path(&target.resource, key, options.subresource.as_deref())?;
        let (part, kind) = (self.part(), &target.resource.kind);
        let accept = if options.projection == Projection::Metadata {
            METADATA
        } else {
            JSON
        };
        match self.read(target, &path, accept).await {
            Ok(answer) if options.projection == Projection::Metadata => {
                let object = Object::parse(answer.body.clone()).map_err(malformed)?;
                let metadata = object.metadata_of(kind);
                let shown = |_| part.shown_text(kind, metadata.json().clone());
                Ok(Some(answer.of(shown)))
            }
            Ok(answer) => Ok(Some(answer.of(|json| part.shown_text(kind, json)))),
            Err(error) if error.code == ApiCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

pub(super) fn malformed(error: JsonError) -> ApiError {
    let message = format!("the server's answer is malformed: {error}");
    ApiError::host(ApiCode::Other, message)
}

/// Whether a store has all objects of a namespace (`None`: of all namespaces) in at least this projection.
pub(super) fn covers(store: &StoreKey, namespace: Option<&str>, projection: Projection) -> bool {
    !store.is_selective() && reaches(store, namespace, projection)
}

/// Whether a store watches a namespace (`None`: all namespaces) in at least this projection, whatever it selects there.
pub(super) fn reaches(store: &StoreKey, namespace: Option<&str>, projection: Projection) -> bool {
    store.has(projection) && (store.namespace.is_none() || store.namespace.as_deref() == namespace)
}

/// Looks one object up in all stores of a kind.
fn look_up(target: &Target, key: &ObjectKey, projection: Projection) -> Known<Object> {
    let namespace = key.namespace.as_deref();
    target
        .backend
        .stores
        .with_kind(&target.resource.kind, |stores| {
            let (mut newest, mut held_by_any, mut lacked) = (0, false, false);
            let mut found: Option<(Object, u64)> = None;
            let mut whole: Option<&Arc<Store>> = None;
            for store in stores {
                let sees =
                    store.key.namespace.is_none() || store.key.namespace.as_deref() == namespace;
                if !sees {
                    continue;
                }
                // Before the lookup: a store that syncs after it may not have had its list.
                let synced = store.is_synced();
                let held = store.get(key);
                newest = newest.max(held.as_ref().map_or(0, |(_, version)| *version));
                held_by_any |= held.is_some();
                lacked |= held.is_none() && synced && !store.key.is_selective();
                if covers(&store.key, namespace, projection) && whole.is_none_or(|w| !w.is_synced())
                {
                    whole = Some(store);
                }
                if store.key.has(projection)
                    && let Some(held) = held
                    && found.as_ref().is_none_or(|(_, version)| held.1 >= *version)
                {
                    found = Some(held);
                }
            }
            match (found, whole) {
                // One store has the object, another one lacks it: either may be late.
                _ if lacked && held_by_any => Known::Uncertain,
                (Some((object, version)), _) if version >= newest => {
                    touch(target, whole);
                    Known::Answer(Some(object))
                }
                (None, Some(store)) if !lacked => Known::Syncing(store.clone()),
                (None, Some(_)) => {
                    touch(target, whole);
                    Known::Answer(None)
                }
                (None, None) if stores.is_empty() => Known::NoStore,
                // A store of a selection or of metadata is not certain about an object that it lacks.
                _ => Known::Uncertain,
            }
        })
}

/// Records a read of a store, as far as reads keep stores alive.
fn touch(target: &Target, store: Option<&Arc<Store>>) {
    if let Some(store) = store
        && target.backend.stores.has_read_stores()
    {
        target.backend.stores.touch(&store.key);
    }
}

pub(super) fn invalid(message: String) -> ApiError {
    ApiError::host(ApiCode::Invalid, message)
}
