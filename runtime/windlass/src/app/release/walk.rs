//! The way of a search through the clusters, and how far it has come. Entry point: [`Search::run`].

use super::found::{Fate, Found};
use super::{Refusal, Search};
use crate::app::App;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use windlass_fleet::api::{
    ApiCode, ApiError, GetOptions, ListOptions, PatchType, Projection, ReadMode, WriteOptions,
};
use windlass_fleet::grant::Namespaces;
use windlass_fleet::object::Held;
use windlass_fleet::{Client, Cluster, Grant, GroupVersionKind, Resource};

/// Clusters that are read at once.
const CLUSTERS: usize = 16;
/// Objects of a page that are let go at once.
const OBJECTS: usize = 8;
/// Objects of a page that is only looked at.
const PAGE: u32 = 500;
/// Objects of a page whose objects are let go, so that a page does not take long.
const SMALL_PAGE: u32 = 50;
/// Longest time of a call. A server that takes longer is given up.
const CALL: Duration = Duration::from_secs(5);
/// How often an object is read again because somebody has changed its finalizers meanwhile.
const ATTEMPTS: usize = 5;

/// How far a search has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cursor {
    /// The last cluster by name that was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// Those that were begun and not read to the end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    begun: BTreeMap<String, Position>,
}

/// How far it has come in a cluster: what is to be read next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Position {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// A cluster, and how far the search has come in it.
type Begun = (Arc<Cluster>, Position);

/// A list to be read.
struct Step {
    kind: GroupVersionKind,
    namespace: Option<Arc<str>>,
}

impl Step {
    fn place(&self) -> (String, Option<&str>) {
        (self.kind.to_string(), self.namespace.as_deref())
    }

    fn position(&self, token: Option<String>) -> Position {
        Position {
            kind: self.kind.to_string(),
            namespace: self.namespace.as_deref().map(str::to_owned),
            token,
        }
    }
}

/// The end of the work on a cluster.
enum End {
    Read,
    /// The time is up.
    At(Position),
    /// It was not begun.
    Untouched,
}

/// A search in one cluster.
struct Walk<'a> {
    search: &'a Search,
    cluster: &'a Cluster,
    /// With the program's own rights.
    reader: Client,
    /// None: nothing is written.
    writer: Option<Client>,
    found: &'a Mutex<Found>,
    until: Instant,
}

impl Search {
    /// Searches for as long as `budget`, or to the end: then there is no cursor. A call that is under way when the time is up is waited for.
    ///
    /// # Errors
    /// [`Refusal`] when the cluster is not there.
    ///
    /// # Cancellation
    /// Dropping the future ends the search. A write that is under way goes on.
    pub(crate) async fn run(
        &self,
        app: &App,
        from: Cursor,
        budget: Duration,
    ) -> Result<(Found, Option<Cursor>), Refusal> {
        let until = Instant::now() + budget;
        let found = Mutex::new(Found::default());
        let (clusters, mut cursor) = self.clusters(app, from)?;
        let (found_by_all, all) = (&found, &clusters);
        let walks = (0..all.len()).map(|index| async move {
            let (cluster, position) = &all[index];
            if Instant::now() >= until {
                return End::Untouched;
            }
            match self.walk(app, cluster, found_by_all, until) {
                Some(walk) => walk.go_on_from(position).await,
                None => End::Read,
            }
        });
        // Boxed: it is as large as all walks together.
        let ends: Vec<End> = Box::pin(stream::iter(walks).buffered(CLUSTERS).collect()).await;
        let touched = ends.iter().rposition(|end| !matches!(end, End::Untouched));
        let mut is_over = true;
        for (index, ((cluster, position), end)) in clusters.iter().zip(ends).enumerate() {
            let name = cluster.name().to_string();
            let is_new = cursor.after.as_ref().is_none_or(|after| name > *after);
            let left = match end {
                End::Read => None,
                End::At(position) => Some(position),
                End::Untouched => Some(position.clone()),
            };
            is_over &= left.is_none();
            // A new cluster behind all that were begun is found again by its name.
            if is_new && touched.is_none_or(|touched| index > touched) {
                continue;
            }
            if let Some(left) = left {
                cursor.begun.insert(name.clone(), left);
            }
            if is_new {
                cursor.after = Some(name);
            }
        }
        Ok((found.into_inner(), (!is_over).then_some(cursor)))
    }

    /// The clusters that are left, those first that were begun, and the cursor without these.
    fn clusters(&self, app: &App, mut from: Cursor) -> Result<(Vec<Begun>, Cursor), Refusal> {
        let fleet = app.manager.fleet();
        let all = match &self.cluster {
            None => {
                let mut all = fleet.clusters();
                all.retain(|cluster| !self.only_own || app.manager.works_on(cluster.name()));
                all
            }
            Some(name) => vec![fleet.cluster(name).ok_or_else(|| {
                let name = name.as_str();
                Refusal::Wrong(format!(
                    "there is no cluster {name:?}: see windlass get clusters"
                ))
            })?],
        };
        let mut begun = std::mem::take(&mut from.begun);
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for cluster in all {
            let name = cluster.name().as_str();
            if let Some(position) = begun.remove(name) {
                first.push((cluster, position));
            } else if from.after.as_deref().is_none_or(|after| name > after) {
                rest.push((cluster, Position::default()));
            }
        }
        first.append(&mut rest);
        Ok((first, from))
    }

    /// `None`: this process may not write any more, which is noted.
    fn walk<'a>(
        &'a self,
        app: &App,
        cluster: &'a Arc<Cluster>,
        found: &'a Mutex<Found>,
        until: Instant,
    ) -> Option<Walk<'a>> {
        let writer = match &self.release {
            None => None,
            Some(grant) => {
                let writer = app.manager.leading_client_with(cluster, grant.clone());
                if writer.is_none() {
                    let why = "another process works on it now";
                    found.lock().unread_because(cluster.name(), None, why);
                    return None;
                }
                writer
            }
        };
        Some(Walk {
            search: self,
            cluster,
            reader: cluster.client(Grant::all()),
            writer,
            found,
            until,
        })
    }

    /// The lists of a cluster, in the order of their places; `None`: its kinds are not known yet.
    fn steps(&self, cluster: &Cluster) -> Option<Vec<Step>> {
        let kinds = cluster.kinds()?;
        let kinds = kinds.iter().filter(|resource| self.is_wanted(resource));
        let mut steps: Vec<Step> = kinds
            .flat_map(|resource| self.steps_of(cluster, resource))
            .collect();
        steps.sort_by(|a, b| a.place().cmp(&b.place()));
        Some(steps)
    }

    fn is_wanted(&self, resource: &Resource) -> bool {
        let kind = resource.kind.group_kind();
        if !self.kinds.is_empty() {
            return self.kinds.contains(&kind);
        }
        // There are many, and they go by themselves: nobody holds them.
        &*kind.kind != "Event"
    }

    fn steps_of(&self, cluster: &Cluster, resource: &Resource) -> Vec<Step> {
        // A kind that is named is one that rules may not name any more.
        let reach = self.reach.as_ref().filter(|_| self.kinds.is_empty());
        let namespaces = reach.map_or(Namespaces::All, |reach| reach.namespaces(cluster, resource));
        let step = |namespace: Option<Arc<str>>| Step {
            kind: resource.kind.clone(),
            namespace,
        };
        let only = self.namespace.as_deref();
        match namespaces {
            _ if only.is_some() && !resource.namespaced => Vec::new(),
            Namespaces::None => Vec::new(),
            Namespaces::All => vec![step(only.map(Into::into))],
            Namespaces::Only(_) if !resource.namespaced => Vec::new(),
            Namespaces::Only(names) => {
                let names = names.into_iter();
                let names = names.filter(|name| only.is_none_or(|only| **name == *only));
                names.map(|name| step(Some(name))).collect()
            }
        }
    }

    /// Whether all kinds are looked at, because nothing is known of the reconciler.
    fn is_of_everything(&self) -> bool {
        self.reach.is_none() && self.kinds.is_empty()
    }
}

impl Walk<'_> {
    async fn go_on_from(&self, position: &Position) -> End {
        let name = self.cluster.name();
        let Some(steps) = self.search.steps(self.cluster) else {
            let why = "it has not been reached yet: see windlass get clusters";
            self.found.lock().unread_because(name, None, why);
            return End::Read;
        };
        let start = (position.kind.clone(), position.namespace.as_deref());
        let left = steps.iter().filter(|step| step.place() >= start);
        for step in left {
            let is_start = step.place() == start;
            let mut token = position.token.clone().filter(|_| is_start);
            loop {
                if Instant::now() >= self.until {
                    return End::At(step.position(token));
                }
                match self.page(step, token).await {
                    Ok(Some(next)) => token = Some(next),
                    Ok(None) => break,
                    Err(error) => {
                        let rest = ends_all(&error);
                        self.note(step, &error, rest);
                        if rest {
                            return End::Read;
                        }
                        break;
                    }
                }
            }
        }
        End::Read
    }

    /// Reads a page, and lets its objects go if that is asked for. Returns the next one.
    async fn page(&self, step: &Step, token: Option<String>) -> Result<Option<String>, ApiError> {
        let search = self.search;
        let options = ListOptions {
            namespace: step.namespace.as_deref().map(str::to_owned),
            limit: if self.writer.is_some() {
                SMALL_PAGE
            } else {
                PAGE
            },
            continue_token: token,
            ..ListOptions::default()
        };
        let page = self.reader.list_held(&step.kind, &search.owner, &options);
        let page = in_time(page).await?;
        let mut items = page.items;
        items.retain(|held| held.is_deleting || !search.only_deleting);
        items.retain(|held| self.found.lock().is_new(held));
        let items = stream::iter(items.into_iter().map(Ok));
        let each = items.try_for_each_concurrent(OBJECTS, |held| self.take(step, held));
        Box::pin(each).await?;
        if page.continue_token.is_none() {
            self.found.lock().has_read();
        }
        Ok(page.continue_token)
    }

    /// Notes an object, and lets it go if that is asked for.
    ///
    /// # Errors
    /// When the server has failed, and will do so with the next object.
    async fn take(&self, step: &Step, held: Held) -> Result<(), ApiError> {
        let fate = match &self.writer {
            None => Fate::Holds,
            Some(writer) => match self.let_go(writer, &step.kind, held.clone()).await {
                Ok(true) => {
                    self.audit(step, &held);
                    Fate::LetGo
                }
                // Somebody else has let it go meanwhile.
                Ok(false) => return Ok(()),
                Err(error) => Fate::Failed(error),
            },
        };
        let name = self.cluster.name();
        self.found.lock().add(name, &step.kind, &held, &fate);
        match fate {
            Fate::Failed(error) if ends_all(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the finalizers. Returns false if there are none any more.
    async fn let_go(
        &self,
        writer: &Client,
        kind: &GroupVersionKind,
        mut held: Held,
    ) -> Result<bool, ApiError> {
        let managers = self.search.owner.field_managers();
        let managers = managers.each_ref().map(String::as_str);
        let live = GetOptions {
            mode: ReadMode::Live,
            projection: Projection::Metadata,
            ..GetOptions::default()
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let options = WriteOptions::default();
            let patched = writer.patch(kind, &held.key, PatchType::Json, held.patch(), &options);
            let error = match in_time(patched).await {
                Ok(_) => return Ok(true),
                Err(error) if error.code == ApiCode::NotFound => return Ok(false),
                Err(error) => error,
            };
            let may_differ = matches!(error.code, ApiCode::Invalid | ApiCode::Conflict);
            if !may_differ || attempts == ATTEMPTS {
                return Err(error);
            }
            let now = in_time(self.reader.get(kind, &held.key, &live)).await?;
            let now = now.and_then(|json| Held::read(&json, &managers));
            match now.filter(|now| now.uid == held.uid) {
                None => return Ok(false),
                // Nothing has changed that the patch tests, so the server refuses the change itself.
                Some(now)
                    if now.finalizers == held.finalizers && error.code != ApiCode::Conflict =>
                {
                    return Err(error);
                }
                // The names of namespaces are those of the list.
                Some(now) => {
                    held = Held {
                        key: held.key,
                        ..now
                    }
                }
            }
        }
    }

    /// Beside what is reported about the caller.
    fn audit(&self, step: &Step, held: &Held) {
        let own: Vec<&str> = held.own.iter().map(|own| own.name.as_str()).collect();
        tracing::info!(
            target: "audit",
            reconciler = %self.search.name,
            cluster = %self.cluster.name(),
            kind = %step.kind,
            namespace = held.key.namespace.as_deref(),
            name = &*held.key.name,
            finalizers = own.join(","),
            "finalizers were removed from an object"
        );
    }

    fn note(&self, step: &Step, error: &ApiError, rest: bool) {
        let mut found = self.found.lock();
        if has_no_objects(error) {
            return;
        }
        if error.code == ApiCode::Forbidden && self.search.is_of_everything() {
            return found.not_allowed(&step.kind);
        }
        let kind = (!rest).then_some(&step.kind);
        found.unread(self.cluster.name(), kind, error);
    }
}

/// Whether the error of a list says that the kind has none: it is only created, as a TokenReview, or is no longer served.
fn has_no_objects(error: &ApiError) -> bool {
    error.code == ApiCode::UnknownKind || matches!(error.http_status, 404..=406)
}

/// Whether the next call in the cluster would fail as well.
fn ends_all(error: &ApiError) -> bool {
    matches!(
        error.code,
        ApiCode::Timeout
            | ApiCode::Unavailable
            | ApiCode::Unauthorized
            | ApiCode::ClusterGone
            | ApiCode::Cancelled
    )
}

async fn in_time<T>(call: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    match timeout(CALL, call).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!("the server did not answer within {} s", CALL.as_secs());
            Err(ApiError::host(ApiCode::Timeout, message))
        }
    }
}

impl Cursor {
    /// The cursor of a text that [`Self::to_text`] has made.
    ///
    /// # Errors
    /// When it is another text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parsed = serde_json::from_str(text);
        parsed.map_err(|error| format!("{text:?} is nothing to continue from: {error}"))
    }

    /// As text, for the next call.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let position = Position {
            kind: "v1/ConfigMap".to_owned(),
            namespace: None,
            token: Some("live:0:0:x".to_owned()),
        };
        let cursor = Cursor {
            after: Some("beta".to_owned()),
            begun: [(String::new(), position)].into(),
        };
        assert_eq!(Cursor::parse(&cursor.to_text()), Ok(cursor));
        assert_eq!(Cursor::parse("{}"), Ok(Cursor::default()));
        assert!(Cursor::parse("after alpha").is_err());
    }

    #[test]
    fn a_kind_without_objects_is_no_failure() {
        let error = |http_status| ApiError {
            http_status,
            ..ApiError::host(ApiCode::Other, "x")
        };
        assert!([404, 405, 406].map(error).iter().all(has_no_objects));
        assert!(![400, 403, 500].map(error).iter().any(has_no_objects));
    }
}
