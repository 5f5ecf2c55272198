//! Watches: a position in the store's history, turned into a stream of lines by [`serve`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body::Frame;
use http_body_util::{Either, StreamBody};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::accept::{View, view};
use super::query::{self, Selection};
use super::read::{matches, metadata_only, selected};
use super::{Answer, Cut, Routed, table};
use crate::call::Call;
use crate::cluster::{Cluster, OpenWatch};
use crate::convert;
use crate::hook::FrameVerdict;
use crate::resource::{CollectionId, Resource};
use crate::status::{ApiError, FieldError, Subject};
use crate::store::object::frame;
use crate::store::{Compacted, Event, EventKind, Object};

/// Changes fetched under one lock.
const BATCH: usize = 256;
const BOOKMARKS_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark comes this long before a watch times out.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// What a watch lasts that names no time: half an hour and up to as long again.
const DEFAULT_TIMEOUT: (u64, u64) = (1_800, 3_600);

/// The only rule that a streaming list takes for its version.
const NOT_OLDER: &str = "NotOlderThan";

struct Watcher {
    cluster: Cluster,
    call: Arc<Call>,
    resource: Arc<Resource>,
    id: CollectionId,
    prefix: String,
    selection: Selection,
    form: View,
    include: table::Include,
    /// Column definitions are sent with the first table only.
    columns_sent: bool,
    /// The version that was asked for; 0 for a watch that begins with what there is.
    start: u64,
    /// Every change up to here has been sent or passed over.
    position: u64,
    /// No newer change is sent.
    as_of: u64,
    /// What there was at the beginning and has not been sent yet.
    initial: std::vec::IntoIter<Arc<Object>>,
    ready: VecDeque<Bytes>,
    bell: tokio::sync::watch::Receiver<u64>,
    ends: Instant,
    bookmark_at: Option<Instant>,
    /// The initial state is being sent, to be closed by a bookmark.
    announce_initial_end: bool,
    cut: CancellationToken,
    closed: CancellationToken,
    over: bool,
    /// What a hook has decided about all that is to come.
    ending: Option<Ending>,
    _open: OpenWatch,
}

/// How a watch goes on that a hook has spoilt.
enum Ending {
    Break,
    Repeat(Bytes),
}

/// Opens a watch.
pub(crate) fn serve(request: &Routed, resource: &Arc<Resource>) -> Result<Answer, ApiError> {
    let call = &request.call;
    let form = view(&request.accept)?;
    let mut selection = query::selection(request, resource)?;
    if !call.name.is_empty() {
        selection.fields = crate::selector::Fields::parse(&format!("metadata.name={}", call.name))
            .map_err(ApiError::bad_request)?;
    }
    let streaming = check_streaming(call, request.cluster.inner.streaming_lists)?;
    let version = call.parameter("resourceVersion").unwrap_or_default();
    let start: u64 = if version.is_empty() {
        0
    } else {
        parse_version(&version)?
    };
    let id = resource.collection();
    let cut = request.cluster.watch_token();
    let as_of = request.as_of(&id);
    let (bell, current) = request
        .cluster
        .with(|state| (state.store.bell(&id), state.store.version().min(as_of)));
    let initial = start == 0 && streaming != Some(false) || streaming == Some(true);
    let seconds = call
        .parameter("timeoutSeconds")
        .and_then(|text| text.parse::<u64>().ok())
        .filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or_else(|| {
        DEFAULT_TIMEOUT.0
            + u64::from(uuid::Uuid::new_v4().as_fields().1)
                % (DEFAULT_TIMEOUT.1 - DEFAULT_TIMEOUT.0)
    });
    let ends = Instant::now() + Duration::from_secs(seconds);
    let bookmarks = call.flag("allowWatchBookmarks");
    let mut watcher = Watcher {
        cluster: request.cluster.clone(),
        call: Arc::clone(call),
        resource: Arc::clone(resource),
        prefix: request.prefix(),
        id,
        selection,
        form,
        include: table::include(call)?,
        columns_sent: false,
        start,
        // A version that the cluster has not reached is accepted, and nothing is sent until it has.
        position: if start == 0 { current } else { start },
        as_of,
        initial: Vec::new().into_iter(),
        ready: VecDeque::new(),
        bell,
        ends,
        bookmark_at: bookmarks.then(|| next_bookmark(ends)),
        announce_initial_end: streaming == Some(true) && bookmarks,
        cut,
        closed: request.cluster.inner.closed.clone(),
        over: false,
        ending: None,
        _open: request.cluster.count_watch(),
    };
    if streaming == Some(true) && start > current {
        watcher.announce_initial_end = false;
        watcher.fail(&ApiError::too_large_version(start, current));
    } else if initial {
        watcher.begin_with_all();
    } else {
        watcher.fetch();
    }
    let body = futures::stream::unfold(watcher, Watcher::step).boxed();
    let mut answer = Answer::new(Either::Right(StreamBody::new(body)));
    answer.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    Ok(answer)
}

fn parse_version(version: &str) -> Result<u64, ApiError> {
    version
        .parse()
        .map_err(|_| ApiError::new(500, "", query::unreadable_version(version)))
}

/// The rules for `sendInitialEvents`; `served` is whether the server streams lists at all.
fn check_streaming(call: &Call, served: bool) -> Result<Option<bool>, ApiError> {
    let rule = call.parameter("resourceVersionMatch").unwrap_or_default();
    let wanted = call.parameter("sendInitialEvents").is_some();
    let mut errors = Vec::new();
    let mut forbid = |field: &str, text: &str| errors.push(FieldError::forbidden(field, text));
    if wanted && rule != NOT_OLDER {
        forbid(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
    }
    if wanted && !served {
        forbid(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        );
    }
    if !wanted && !rule.is_empty() {
        forbid(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        );
    }
    if !rule.is_empty() && rule != NOT_OLDER {
        errors.push(FieldError::not_supported(
            "resourceVersionMatch",
            &Value::from(rule.clone()),
            &[NOT_OLDER.to_owned()],
        ));
    }
    let token = call.parameter("continue").unwrap_or_default();
    if !rule.is_empty() && !token.is_empty() {
        errors.push(FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if errors.is_empty() {
        return Ok(wanted.then(|| call.flag("sendInitialEvents")));
    }
    let subject = Subject {
        group: "meta.k8s.io",
        plural: "",
        kind: "ListOptions",
    };
    Err(ApiError::invalid(subject, "", &errors))
}

fn next_bookmark(ends: Instant) -> Instant {
    let soon = Instant::now() + BOOKMARKS_EVERY;
    let last = ends.checked_sub(LAST_BOOKMARK).unwrap_or(ends);
    if soon < last || last <= Instant::now() {
        soon
    } else {
        last
    }
}

impl Watcher {
    /// The next line; `None` ends the body, `Err` breaks it.
    async fn step(mut self) -> Option<(Result<Frame<Bytes>, Cut>, Self)> {
        loop {
            if self.cut.is_cancelled() {
                return self.broken();
            }
            match &self.ending {
                None => {}
                Some(Ending::Break) => {
                    // What was sent goes out before the break.
                    tokio::task::yield_now().await;
                    return self.broken();
                }
                Some(Ending::Repeat(bytes)) => {
                    let frame = Frame::data(bytes.clone());
                    return Some((Ok(frame), self));
                }
            }
            if let Some(line) = self.ready.pop_front() {
                let hook = self.cluster.inner.hook.as_ref();
                match hook
                    .map(|hook| hook.frame(self.cluster.name(), &self.call, &line))
                    .unwrap_or_default()
                {
                    FrameVerdict::Send => return Some((Ok(Frame::data(line)), self)),
                    FrameVerdict::Delay(time) => {
                        let cut = self.cut.clone();
                        if cut
                            .run_until_cancelled(tokio::time::sleep(time))
                            .await
                            .is_some()
                        {
                            return Some((Ok(Frame::data(line)), self));
                        }
                    }
                    FrameVerdict::Later(time) => {
                        self.ready.push_front(line);
                        let cut = self.cut.clone();
                        let _ = cut.run_until_cancelled(tokio::time::sleep(time)).await;
                    }
                    FrameVerdict::Replace(other) => return Some((Ok(Frame::data(other)), self)),
                    FrameVerdict::Drop => {}
                    FrameVerdict::End => return None,
                    FrameVerdict::Cut => return self.broken(),
                    FrameVerdict::CutAfter(bytes) => {
                        self.ending = Some(Ending::Break);
                        return Some((Ok(Frame::data(bytes)), self));
                    }
                    FrameVerdict::Endless(bytes) => self.ending = Some(Ending::Repeat(bytes)),
                    FrameVerdict::Silence => self.cut.cancelled().await,
                }
                continue;
            }
            if let Some(object) = self.initial.next() {
                let line = self.line(EventKind::Added.name(), &object);
                self.ready.push_back(line);
                continue;
            }
            if std::mem::take(&mut self.announce_initial_end) {
                self.push_bookmark(true);
                continue;
            }
            if self.over {
                return None;
            }
            let never = Instant::now() + Duration::from_secs(86_400);
            tokio::select! {
                biased;
                () = self.cut.cancelled() => {}
                rung = self.bell.changed() => {
                    self.over |= rung.is_err();
                    self.fetch();
                }
                () = tokio::time::sleep_until(self.bookmark_at.unwrap_or(never)) => self.bookmark(),
                () = tokio::time::sleep_until(self.ends) => self.over = true,
            }
        }
    }

    /// A watch that is cut breaks in the middle; one whose server ends, ends.
    fn broken(mut self) -> Option<(Result<Frame<Bytes>, Cut>, Self)> {
        if self.closed.is_cancelled() || self.over {
            return None;
        }
        self.over = true;
        Some((Err(Cut), self))
    }

    /// Begins with all there is: an event for each object.
    fn begin_with_all(&mut self) {
        let keep = |_: &str, object: &Object| selected(object, &self.resource, &self.selection);
        let page = self.cluster.with(|state| {
            let at = self.as_of.min(state.store.version());
            state
                .store
                .page(&self.id, &self.prefix, None, Some(at), usize::MAX, keep)
        });
        match page {
            Ok(page) => {
                self.position = page.version;
                self.initial = page.objects.into_iter();
            }
            Err(Compacted { oldest }) => {
                self.announce_initial_end = false;
                self.fail(&ApiError::expired(format!(
                    "too old resource version: {} ({oldest})",
                    self.as_of
                )));
            }
        }
    }

    fn fetch(&mut self) {
        loop {
            self.bell.mark_unchanged();
            let found = self
                .cluster
                .with(|state| state.store.changes(&self.id, self.position, BATCH));
            let events = match found {
                Ok(events) => events,
                Err(Compacted { oldest }) => {
                    return self.fail(&ApiError::expired(format!(
                        "too old resource version: {} ({oldest})",
                        self.position
                    )));
                }
            };
            let full = events.len() == BATCH;
            for event in events {
                if event.version > self.as_of {
                    return;
                }
                self.position = event.version;
                self.push(&event);
            }
            if !full {
                return;
            }
        }
    }

    /// What a change means to this watch: an object may enter or leave its selector.
    fn push(&mut self, event: &Event) {
        if !event.key.starts_with(self.prefix.as_str()) {
            return;
        }
        if self.selection.deleting && !event.object.head.deleting {
            return;
        }
        // An object that begins to be deleted has changed, and was there before.
        let matches = |object: &Object| matches(object, &self.resource, &self.selection);
        let before = event
            .previous
            .as_ref()
            .is_some_and(|object| matches(object));
        let after = event.kind != EventKind::Deleted && matches(&event.object);
        let kind = match (before, after) {
            (false, false) => return,
            (false, true) => EventKind::Added,
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Deleted,
        };
        let plain = self.form == View::Object && self.resource.stored();
        let line = if plain {
            event.frame(kind)
        } else {
            self.converted(kind, event)
        };
        self.ready.push_back(line);
    }

    fn converted(&mut self, kind: EventKind, event: &Event) -> Bytes {
        let leaving = kind == EventKind::Deleted && event.kind != EventKind::Deleted;
        match event.previous.as_ref().filter(|_| leaving) {
            Some(previous) => self.line(kind.name(), &Object::new(previous.value(), event.version)),
            None => self.line(kind.name(), &event.object),
        }
    }

    /// A line in the form and version that was asked for.
    fn line(&mut self, kind: &str, object: &Object) -> Bytes {
        if self.form == View::Object && self.resource.stored() {
            return frame(kind, object.bytes());
        }
        let value = convert::from_storage(object, &self.resource);
        let shown = match self.form {
            View::Object => value,
            View::Metadata => metadata_only(&value),
            View::Table => self.table(&value),
        };
        frame(kind, &crate::store::object::serialise(&shown).0)
    }

    fn table(&mut self, object: &Value) -> Value {
        let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
        let mut table = table::of_objects(
            &self.resource,
            std::slice::from_ref(object),
            &metadata,
            self.include,
        );
        if std::mem::replace(&mut self.columns_sent, true) {
            table["columnDefinitions"] = Value::Null;
        }
        table
    }

    fn bookmark(&mut self) {
        // Everything up to the cluster's version has been seen once the collection's changes have.
        let version = self.cluster.version().min(self.as_of);
        self.fetch();
        if self.over {
            return;
        }
        self.bookmark_at = Some(next_bookmark(self.ends));
        if version > self.start {
            self.position = self.position.max(version);
            self.push_bookmark(false);
        }
    }

    fn push_bookmark(&mut self, initial_end: bool) {
        let mut metadata = json!({ "resourceVersion": self.position.to_string() });
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            View::Object => {
                json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata})
            }
            View::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            View::Table => {
                let empty = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
                self.table(&empty)
            }
        };
        // A built-in kind's empty object has its struct fields, as every object of it.
        let mut object = object;
        if self.form == View::Object && !self.resource.custom {
            let zero = crate::schema::decode::zero(self.resource.schema());
            for (name, value) in zero
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| *name != "metadata")
            {
                object[name.as_str()] = value.clone();
            }
        }
        self.ready.push_back(frame(
            "BOOKMARK",
            &crate::store::object::serialise(&object).0,
        ));
    }

    fn fail(&mut self, error: &ApiError) {
        self.ready
            .push_back(frame("ERROR", error.to_status().to_string().as_bytes()));
        self.over = true;
    }
}
