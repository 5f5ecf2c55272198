//! The resources that a server serves, by kind. Entry point: [`Discovery::resolve`].
//!
//! Everything is loaded while a cluster is syncing, and again when a kind is unknown, at most once per [`REFRESH_EVERY`]. A load costs two
//! requests if the server has aggregated discovery, else one per group version, a few at a time.
//!
//! A group version that does not answer fails alone: what was known of it stays, other kinds of it have its error, and it is asked again.
//!
//! Invariants: one load at a time; at most [`MAX_RESOURCES`] are kept. Not guaranteed: that a known kind is still served. The caller
//! [forgets](Discovery::forget) a kind when the server says so.

mod answers;
mod kind_lists;

use crate::api::{ApiCode, ApiError};
use crate::http::transport::Connection;
use crate::kind::{GroupKind, GroupVersionKind, Resource};
use arc_swap::ArcSwapOption;
use kind_lists::shared;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify, watch};

/// How much a served kind must be like another one to be proposed in its place; 1 is the same.
const LIKE: f64 = 0.85;

/// Least time between two refreshes because of unknown kinds.
pub(crate) const REFRESH_EVERY: Duration = Duration::from_secs(30);
/// The same after one whose caller was dropped: a run that ends in the middle may not keep the kinds of all others away for so long.
const REFRESH_AFTER_INTERRUPTION_EVERY: Duration = Duration::from_secs(1);
/// Least time between two refreshes because of a change.
const REFRESH_AFTER_CHANGE_EVERY: Duration = Duration::from_millis(200);
/// Most resources that are kept of a server.
const MAX_RESOURCES: usize = 20_000;

/// The resources of one server.
pub(crate) struct Discovery {
    /// `None` until the first load. Equal servers [share](kind_lists::shared) it.
    known: ArcSwapOption<Known>,
    /// Notified of kinds that were not served when everything was loaded before.
    found: watch::Sender<()>,
    /// The last refresh. The lock is held during a refresh.
    refreshed: Mutex<Option<Refresh>>,
    /// Notified when other group versions fail than before.
    changed: Arc<Notify>,
    /// Notified after each load in which group versions have failed.
    has_failures: Notify,
}

struct Refresh {
    began: Instant,
    end: End,
}

enum End {
    Done,
    /// The error answers until the next refresh.
    Failed(ApiError),
    /// Its caller went before the answer came, which says nothing of the server.
    Interrupted,
}

impl Refresh {
    /// Whether it is too early for another one.
    fn counts(&self) -> bool {
        let every = match self.end {
            End::Interrupted => REFRESH_AFTER_INTERRUPTION_EVERY,
            End::Done | End::Failed(_) => REFRESH_EVERY,
        };
        self.began.elapsed() < every
    }

    fn error(&self, connection: &Connection) -> Option<ApiError> {
        match &self.end {
            End::Done => None,
            End::Failed(error) => Some(error.clone()),
            End::Interrupted => Some(interrupted(connection)),
        }
    }
}

#[derive(Clone, Default, PartialEq, Eq)]
struct Known {
    by_kind: HashMap<GroupVersionKind, Arc<Resource>>,
    by_group_kind: HashMap<GroupKind, Arc<Resource>>,
    /// Group versions that did not answer.
    failed: BTreeMap<GroupVersion, ApiError>,
}

/// One version of an API group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupVersion {
    /// `""` for the core group.
    group: Arc<str>,
    version: Arc<str>,
}

impl GroupVersion {
    fn new(group: &str, version: &str) -> Self {
        let (group, version) = (group.into(), version.into());
        Self { group, version }
    }

    fn of(kind: &GroupVersionKind) -> Self {
        let (group, version) = (kind.group.clone(), kind.version.clone());
        Self { group, version }
    }

    /// Where its resources are listed.
    fn path(&self) -> String {
        let Self { group, version } = self;
        if group.is_empty() {
            return format!("/api/{version}");
        }
        format!("/apis/{group}/{version}")
    }
}

impl Discovery {
    /// `changed` is notified when other group versions fail than before.
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self {
            known: ArcSwapOption::empty(),
            found: watch::Sender::new(()),
            refreshed: Mutex::new(None),
            changed,
            has_failures: Notify::new(),
        }
    }

    /// Notifies of kinds that are found after the first load.
    pub(crate) fn found(&self) -> watch::Receiver<()> {
        self.found.subscribe()
    }

    /// The resource of a kind if it is known. No I/O, no waiting.
    pub(crate) fn get(&self, kind: &GroupVersionKind) -> Option<Arc<Resource>> {
        let known = self.known.load();
        known.as_ref()?.by_kind.get(kind).cloned()
    }

    /// The resource of a kind in any version, for owner references.
    pub(crate) fn get_any_version(&self, kind: &GroupKind) -> Option<Arc<Resource>> {
        let known = self.known.load();
        known.as_ref()?.by_group_kind.get(kind).cloned()
    }

    /// The resource of each kind that is known, in the version that the server prefers, sorted by kind. No I/O, no waiting.
    pub(crate) fn all(&self) -> Vec<Arc<Resource>> {
        let known = self.known.load();
        let by_kind = known.as_ref().map(|known| known.by_group_kind.values());
        let mut all: Vec<_> = by_kind.into_iter().flatten().cloned().collect();
        all.sort_unstable_by(|a, b| a.kind.cmp(&b.kind));
        all
    }

    /// The resource of a kind, after a refresh if the kind is unknown.
    ///
    /// # Errors
    /// [`ApiCode::UnknownKind`]: the server does not serve the kind. Else the error of the refresh, or of the kind's group.
    pub(crate) async fn resolve(
        &self,
        connection: &Connection,
        kind: &GroupVersionKind,
    ) -> Result<Arc<Resource>, ApiError> {
        if let Some(resource) = self.get(kind) {
            return Ok(resource);
        }
        let mut refreshed = self.refreshed.lock().await;
        if let Some(resource) = self.get(kind) {
            return Ok(resource);
        }
        match &*refreshed {
            Some(last) if last.counts() => {
                if let Some(error) = last.error(connection) {
                    return Err(error);
                }
            }
            _ => self.refresh(connection, &mut refreshed).await?,
        }
        drop(refreshed);
        self.get(kind).ok_or_else(|| {
            let failure = self.failure_of(kind);
            failure.unwrap_or_else(|| self.unknown(connection, kind))
        })
    }

    /// Why it is not known whether the server serves a kind: the group version does not answer.
    pub(crate) fn failure_of(&self, kind: &GroupVersionKind) -> Option<ApiError> {
        let known = self.known.load();
        let failed = &known.as_ref()?.failed;
        failed.get(&GroupVersion::of(kind)).cloned()
    }

    /// The group versions that do not answer, for people.
    pub(crate) fn failures(&self) -> Option<String> {
        let known = self.known.load();
        let failed = &known.as_ref()?.failed;
        let first = failed.values().next()?;
        Some(match failed.len() {
            1 => first.message.clone(),
            count => format!(
                "{}; {} other group versions fail too",
                first.message,
                count - 1
            ),
        })
    }

    /// Waits for a load in which group versions have failed. There is one waiter.
    pub(crate) async fn failed(&self) {
        self.has_failures.notified().await;
    }

    /// Asks the group versions again that have failed.
    pub(crate) async fn ask_again(&self, connection: &Connection) {
        let _one_at_a_time = self.refreshed.lock().await;
        let before = self.known.load_full().unwrap_or_default();
        let mut known = Known::clone(&before);
        let failed = std::mem::take(&mut known.failed).into_keys().collect();
        answers::add_versions(connection, failed, &before, &mut known).await;
        self.publish(known);
    }

    /// Replaces what is known, and notifies those who wait for a difference.
    fn publish(&self, known: Known) {
        let nothing = Known::default();
        let before = self.known.load_full();
        let before = before.as_deref();
        let more = before.is_some_and(|before| known.has_more_than(before));
        let fails = !known.failed.is_empty();
        let failed = &before.unwrap_or(&nothing).failed;
        let is_same = failed.keys().eq(known.failed.keys());
        self.known.store(Some(shared(known)));
        if more {
            self.found.send_replace(());
        }
        if !is_same {
            self.changed.notify_one();
        }
        if fails {
            self.has_failures.notify_one();
        }
    }

    /// Loads everything again after a sign of a change. A failure shows when a kind is resolved.
    pub(crate) async fn learn(&self, connection: &Connection) {
        let mut refreshed = self.refreshed.lock().await;
        let last = refreshed.as_ref().map(|last| last.began);
        if last.is_some_and(|began| began.elapsed() < REFRESH_AFTER_CHANGE_EVERY) {
            return;
        }
        let _ = self.refresh(connection, &mut refreshed).await;
    }

    async fn refresh(
        &self,
        connection: &Connection,
        refreshed: &mut Option<Refresh>,
    ) -> Result<(), ApiError> {
        let began = Instant::now();
        // Recorded before the load: one whose caller is dropped counts too.
        *refreshed = Some(Refresh {
            began,
            end: End::Interrupted,
        });
        let loaded = self.load(connection).await;
        let end = match &loaded {
            Ok(()) => End::Done,
            Err(error) => End::Failed(error.clone()),
        };
        *refreshed = Some(Refresh { began, end });
        loaded
    }

    /// The resource of a kind in a workspace with kinds of its own, by one request if the kind is unknown.
    ///
    /// # Errors
    /// [`ApiCode::UnknownKind`]: the workspace does not serve the kind. Else the error of the request.
    pub(crate) async fn resolve_in(
        &self,
        workspace: &Arc<str>,
        connection: &Connection,
        kind: &GroupVersionKind,
    ) -> Result<Arc<Resource>, ApiError> {
        if let Some(resource) = self.get(kind) {
            return Ok(resource);
        }
        let mut known = self.known.load().as_deref().cloned().unwrap_or_default();
        let version = GroupVersion::of(kind);
        match answers::add_version_of(connection, workspace, &version, &mut known).await {
            Err(error) if error.http_status == 404 => {}
            loaded => loaded?,
        }
        self.known.store(Some(shared(known)));
        self.get(kind).ok_or_else(|| self.unknown(connection, kind))
    }

    fn unknown(&self, connection: &Connection, kind: &GroupVersionKind) -> ApiError {
        let server = connection.server();
        let remedy = match self.most_like(kind) {
            Some(like) => format!("did you mean {like}? Else install its CRD"),
            None => "install its CRD, or check group, version and kind".to_owned(),
        };
        let message = format!("{server} does not serve {kind}: {remedy}");
        ApiError::host(ApiCode::UnknownKind, message)
    }

    /// The served kind that is most like one that is not served, if any is like it.
    pub(crate) fn most_like(&self, kind: &GroupVersionKind) -> Option<GroupVersionKind> {
        let known = self.known.load();
        let all = known.as_ref()?.by_kind.keys();
        let likeness = |of: &GroupVersionKind| {
            let of_name = strsim::jaro_winkler(&of.kind, &kind.kind);
            let of_group = strsim::jaro_winkler(&of.group, &kind.group);
            // Many groups are alike, so the name counts for more.
            (of_name * 3.0 + of_group) / 4.0
        };
        let likely = all.map(|of| (likeness(of), of));
        let likely = likely.filter(|(likeness, _)| *likeness >= LIKE);
        // Of equal ones the same each time.
        let most = likely.max_by(|(a, one), (b, other)| {
            a.total_cmp(b)
                .then_with(|| other.to_string().cmp(&one.to_string()))
        });
        most.map(|(_, of)| of.clone())
    }

    /// Removes a kind that the server no longer serves.
    pub(crate) fn forget(&self, kind: &GroupVersionKind) {
        self.known.rcu(|known| {
            let mut known = known.as_deref().cloned()?;
            known.remove(kind);
            Some(shared(known))
        });
    }

    /// Loads everything.
    ///
    /// # Errors
    /// The server's error status, there is no answer, or no group answers.
    pub(crate) async fn load(&self, connection: &Connection) -> Result<(), ApiError> {
        let before = self.known.load_full();
        let nothing = Known::default();
        let known = answers::load(connection, before.as_deref().unwrap_or(&nothing)).await?;
        self.publish(known);
        Ok(())
    }
}

impl Known {
    fn remove(&mut self, kind: &GroupVersionKind) {
        let Some(removed) = self.by_kind.remove(kind) else {
            return;
        };
        let group_kind = kind.group_kind();
        let chosen = self.by_group_kind.get(&group_kind);
        if !chosen.is_some_and(|chosen| Arc::ptr_eq(chosen, &removed)) {
            return;
        }
        let other = self
            .by_kind
            .values()
            .find(|other| other.kind.group_kind() == group_kind)
            .cloned();
        match other {
            Some(other) => self.by_group_kind.insert(group_kind, other),
            None => self.by_group_kind.remove(&group_kind),
        };
    }

    /// Whether it has a kind that was not known before.
    fn has_more_than(&self, before: &Self) -> bool {
        let mut kinds = self.by_kind.keys();
        kinds.any(|kind| !before.by_kind.contains_key(kind))
    }

    /// Records that a group version has failed. What was known of it `before` stays.
    fn keep(&mut self, version: GroupVersion, error: ApiError, before: &Self) {
        let is_of = |kind: &&GroupVersionKind| GroupVersion::of(kind) == version;
        let kept = before.by_kind.keys().filter(is_of);
        for resource in kept.filter_map(|kind| before.by_kind.get(kind)) {
            let kind = &resource.kind;
            self.add(
                &kind.group,
                &kind.version,
                &kind.kind,
                &resource.plural,
                resource.namespaced,
            );
        }
        self.failed.insert(version, error);
    }

    fn add(&mut self, group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) {
        if plural.contains('/')
            || plural.is_empty()
            || kind.is_empty()
            || self.by_kind.len() >= MAX_RESOURCES
        {
            return;
        }
        let kind = GroupVersionKind::new(group, version, kind);
        let resource = Arc::new(Resource {
            kind: kind.clone(),
            plural: plural.into(),
            namespaced,
        });
        // Servers list versions by preference, so the first one wins.
        self.by_group_kind
            .entry(kind.group_kind())
            .or_insert_with(|| resource.clone());
        self.by_kind.entry(kind).or_insert(resource);
    }
}

fn interrupted(connection: &Connection) -> ApiError {
    let server = connection.server();
    let message = format!("discovery of {server} was interrupted: try again later");
    ApiError::host(ApiCode::Unavailable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_served_is_taken_for_the_one_that_is_most_like_it() {
        let kind = GroupVersionKind::new;
        let mut known = Known::default();
        for served in [
            kind("apps", "v1", "Deployment"),
            kind("example.com", "v1", "Website"),
            kind("", "v1", "ConfigMap"),
        ] {
            let resource = Arc::new(Resource {
                plural: "of-no-interest".into(),
                namespaced: true,
                kind: served.clone(),
            });
            known.by_kind.insert(served, resource);
        }
        let discovery = Discovery::new(Arc::default());
        discovery.known.store(Some(Arc::new(known)));
        let like = |asked: GroupVersionKind| discovery.most_like(&asked);
        assert_eq!(
            like(kind("example.com", "v1", "Webiste")),
            Some(kind("example.com", "v1", "Website"))
        );
        assert_eq!(
            like(kind("example.com", "v2", "Website")),
            Some(kind("example.com", "v1", "Website"))
        );
        assert_eq!(
            like(kind("", "v1", "Configmap")),
            Some(kind("", "v1", "ConfigMap"))
        );
        assert_eq!(like(kind("", "v1", "Goose")), None);
    }

    #[test]
    fn a_kind_that_is_forgotten_leaves_its_other_versions() {
        let widget = |version| GroupVersionKind::new("example.com", version, "Widget");
        let mut known = Known::default();
        for version in ["v2", "v1"] {
            known.add("example.com", version, "Widget", "widgets", true);
        }
        known.remove(&widget("v2"));
        assert!(!known.by_kind.contains_key(&widget("v2")));
        let any = known.by_group_kind.get(&widget("v1").group_kind());
        assert_eq!(any.map(|any| &*any.kind.version), Some("v1"));
        known.remove(&widget("v1"));
        assert!(known.by_kind.is_empty() && known.by_group_kind.is_empty());
    }

    #[test]
    fn subresources_are_not_kinds() {
        let mut known = Known::default();
        known.add("", "v1", "Pod", "pods/status", true);
        assert!(known.by_kind.is_empty());
    }

    #[test]
    fn kinds_that_come_after_the_first_load_are_notified_once() {
        let discovery = Discovery::new(Arc::default());
        let mut found = discovery.found();
        let mut known = Known::default();
        known.add("apps", "v1", "Deployment", "deployments", true);
        discovery.publish(known.clone());
        assert!(!found.has_changed().unwrap(), "the first load");
        // A group that did not answer does so now.
        known.add("example.com", "v1", "Widget", "widgets", true);
        discovery.publish(known.clone());
        assert!(found.has_changed().unwrap());
        found.mark_unchanged();
        discovery.publish(known);
        assert!(!found.has_changed().unwrap());
    }
}
