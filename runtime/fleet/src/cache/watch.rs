//! Keeps one store in step with its server: list, then watch, for as long as the store lives. Entry point: [`Watcher::run`].
//!
//! A break of any kind resumes at the last version, once the server has shown that it is the same and has come at least as far: a
//! server accepts a watch from a version in its future, and says nothing until it gets there. A 410, as HTTP status or as an event, lists anew exactly once, and the store
//! synthesises the deletes. Backoff grows with every failure and resets only after real progress: an established watch
//! that delivered something, or lived to its end. Events never pass through a typed parse. What a server sends that is no list or
//! watch stops this one kind, for as long as the backoff says, and is told in the cluster's status.

mod calls;
mod fill;
mod server_features;
mod end;
mod listing;
mod options;
mod pace;

pub(crate) use calls::StoreCall;
pub use options::CacheOptions;
pub(crate) use options::SharedOptions;
pub(crate) use server_features::ServerFeatures;

use super::continuity::{Continuity, Verdict};
use super::store::{Problem, Store, number};
use crate::http::answer;
use crate::http::lines::{Broken, Lines};
use crate::http::transport::{Body, Call, Connection, TransportError};
use crate::json::{Frame, FrameType};
use end::WatchEnd;
use http::Response;
use pace::Pace;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long after its own end a watch may still be open before its peer counts as dead.
const GRACE: Duration = Duration::from_secs(4);
/// A kind that its server does not serve for so long is gone, and its objects with it.
const UNSERVED_FOR: Duration = Duration::from_secs(5);

/// Feeds one store.
pub(crate) struct Watcher {
    store: Arc<Store>,
    connection: Connection,
    continuity: Arc<Continuity>,
    verdicts: watch::Receiver<Verdict>,
    /// Histories that the server had lost when the store was filled last.
    histories_lost: u64,
    /// As they were when the list or the watch under way began.
    options: Arc<CacheOptions>,
    shared: SharedOptions,
    features: Arc<ServerFeatures>,
    pace: Pace,
    rng: fastrand::Rng,
    /// When a list was first older than the store, while it stays so.
    stale_since: Option<Instant>,
    /// When the server was first found not to serve the kind, while it stays so.
    unserved_since: Option<Instant>,
    /// Whether the last watch fell silent: the next one clears the store's problem once it has said something.
    doubted: bool,
    /// Whether another server, or another history, may answer the next request: set while a watch is open, and taken back if it
    /// ends when it was told to or once the server is confirmed.
    broken: bool,
    filling: fill::Filling,
}

/// A watch that the server has begun to answer.
struct Open {
    lines: Lines<Body>,
    /// When the server was told to end it.
    timeout: Duration,
    ends: Instant,
    /// The last line.
    heard: Option<Instant>,
}

impl Watcher {
    pub(crate) fn new(
        store: Arc<Store>,
        connection: Connection,
        continuity: Arc<Continuity>,
        shared: SharedOptions,
        features: Arc<ServerFeatures>,
    ) -> Self {
        let options = shared.now();
        let filling = fill::Filling::new(&options);
        let verdicts = continuity.verdict();
        let histories_lost = verdicts.borrow().histories_lost;
        Self {
            store,
            connection,
            continuity,
            verdicts,
            histories_lost,
            options,
            shared,
            features,
            pace: Pace::new(fastrand::Rng::new()),
            rng: fastrand::Rng::new(),
            stale_since: None,
            unserved_since: None,
            doubted: false,
            broken: false,
            filling,
        }
    }

    /// Lists and watches until dropped.
    pub(crate) async fn run(mut self) {
        loop {
            self.refresh_options();
            let end = self.fill_and_follow().await;
            self.store.watch_closed();
            self.broken = true;
            self.forget_if_unserved(&end);
            // One list anew is what a 410 is for.
            if !matches!(end, WatchEnd::Expired) || self.pace.is_stuck() {
                self.report(&end);
            }
            let delay = match end {
                WatchEnd::Stale(_) => self.pace.wait(&end).min(self.doubted_for()),
                _ => self.pace.wait(&end),
            };
            self.pause(delay).await;
        }
    }

    fn refresh_options(&mut self) {
        let options = self.shared.now();
        if options.page != self.options.page {
            // What was learnt was by the other size of pages.
            self.filling = fill::Filling::new(&options);
        }
        self.options = options;
    }

    /// One list, then watches for as long as they can resume.
    async fn fill_and_follow(&mut self) -> WatchEnd {
        let mut open = match self.fill().await {
            Ok(open) => open,
            Err(end) => return end,
        };
        let mut listed = true;
        loop {
            let began = Instant::now();
            let end = match open.take() {
                Some(open) => self.follow(open, false).await,
                None => self.watch(listed).await,
            };
            listed = false;
            self.store.watch_closed();
            if self.pace.is_progress(&end, began.elapsed()) {
                continue;
            }
            match &end {
                WatchEnd::Ended if self.pace.is_stuck() => {
                    self.report(&WatchEnd::Garbage(
                        "watches that end as soon as they begin".into(),
                    ));
                }
                WatchEnd::Ended => {}
                WatchEnd::Quiet => match self.probe().await {
                    Ok(()) => {
                        self.pace.progressed();
                        continue;
                    }
                    Err(end) => return end,
                },
                WatchEnd::Behind => {
                    if let Err(end) = self.probe().await {
                        return end;
                    }
                }
                WatchEnd::Silent(_) | WatchEnd::Transport(_) | WatchEnd::Garbage(_) => {
                    self.report(&end);
                }
                refused if refused.is_passing() => self.report(refused),
                _ => return end,
            }
            let delay = self.pace.wait(&end);
            self.pause(delay).await;
        }
    }

    /// Waits, but no longer than until the server's history is found to be lost, or the server answers others again.
    async fn pause(&mut self, delay: Duration) {
        self.store
            .set_next_attempt(SystemTime::now().checked_add(delay));
        tokio::select! {
            () = self.connection.pause(delay) => {}
            () = lost_more(&mut self.verdicts, self.histories_lost) => {}
        }
        self.store.set_next_attempt(None);
    }

    /// Makes sure, once a watch is open, that its server is the same and has come at least as far as the store.
    async fn confirm(&mut self) -> Result<(), WatchEnd> {
        self.continuity.confirm(Duration::ZERO).await?;
        self.probe().await?;
        // What changed before the break may have been lost with it.
        self.store.request_drift_check();
        self.features.comparison_asked.notify_one();
        Ok(())
    }

    fn report(&mut self, end: &WatchEnd) {
        self.doubted |= matches!(end, WatchEnd::Silent(_));
        if let Some(problem) = end.problem() {
            self.tell(problem);
        }
    }

    fn tell(&self, problem: Problem) {
        self.connection.metrics().watch_failed();
        let key = &self.store.key;
        tracing::warn!(server = self.connection.server(), kind = %key.kind, namespace = key.namespace.as_deref(), problem = problem.message, "watch interrupted");
        self.store.set_problem(problem);
    }

    /// A kind that is not served any more has no objects: those that no event took out leave now.
    fn forget_if_unserved(&mut self, end: &WatchEnd) {
        if !end.is_unserved() {
            self.unserved_since = None;
            return;
        }
        let since = *self.unserved_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= UNSERVED_FOR && self.store.is_synced() {
            tracing::info!(server = self.connection.server(), kind = %self.store.key.kind, "kind no longer served: its cache is emptied");
            self.store.reset();
        }
    }

    // --- watch ---

    /// How long the next watch is to last.
    fn watch_time(&mut self) -> Duration {
        if self.connection.pings() {
            let base = self.options.multiplexed_watch_timeout;
            return base.mul_f64(1.0 + self.rng.f64());
        }
        self.options
            .watch_timeout
            .mul_f64(0.9 + 0.2 * self.rng.f64())
    }

    /// Opens a watch and follows it to its end. `listed` is whether it is the first one after a list.
    async fn watch(&mut self, listed: bool) -> WatchEnd {
        let version = self.store.version();
        // A reset store has no version to watch from: without one the server would begin where it likes.
        if version.is_empty() {
            return WatchEnd::Expired;
        }
        self.refresh_options();
        let timeout = self.watch_time();
        let ask = StoreCall::Watch {
            version: &version,
            timeout,
        };
        let open = match self.open(&ask, timeout).await {
            Ok(open) => open,
            Err(end) => {
                self.broken = true;
                return end;
            }
        };
        let broken = self.broken;
        if broken && let Err(end) = self.confirm().await {
            return end;
        }
        if self.store.progress().borrow().watches > 0 {
            self.connection.metrics().watch_restarted();
        }
        self.follow(open, !broken && !listed).await
    }

    /// Follows a watch to its end. `timely` is whether the watch before it ended when it was told to.
    async fn follow(&mut self, mut open: Open, timely: bool) -> WatchEnd {
        self.broken = true;
        self.store.watch_opened(!self.doubted, timely);
        let from = number(&self.store.version());
        let store = self.store.clone();
        loop {
            let line = tokio::select! {
                line = tokio::time::timeout_at(open.ends, open.lines.next()) => line,
                () = store.relist_requested() => return WatchEnd::Expired,
                () = lost_more(&mut self.verdicts, self.histories_lost) => return WatchEnd::Expired,
            };
            let line = match line {
                Err(_) => return open.overdue(),
                // Broken off: resumed as if it had ended, and a server that is away shows at the next attempt.
                Ok(Err(Broken::Connection)) => return WatchEnd::Ended,
                Ok(Err(Broken::LongLine(limit))) => return long_line(limit),
                Ok(Ok(None)) => {
                    self.trust();
                    self.broken = !open.is_old();
                    return open.ended();
                }
                Ok(Ok(Some(line))) => line,
            };
            open.heard = Some(Instant::now());
            match self.event(&line, from) {
                // What has been there before is no progress: a server may send it, and fail, for ever.
                Ok(true) => self.pace.progressed(),
                Ok(false) => {}
                Err(end) => return end,
            }
            self.trust();
        }
    }

    /// The server has shown that its watches work.
    fn trust(&mut self) {
        if std::mem::take(&mut self.doubted) {
            self.store.watch_proven();
        }
    }

    async fn open(&self, ask: &StoreCall<'_>, timeout: Duration) -> Result<Open, WatchEnd> {
        let response = self.begin(ask.call(&self.store)).await?;
        Ok(Open {
            lines: Lines::new(response.into_body(), self.connection.options().max_line),
            timeout,
            ends: Instant::now() + timeout + GRACE,
            heard: None,
        })
    }

    /// Sends a call whose answer is a stream, and returns once it has begun.
    async fn begin(&self, call: Call) -> Result<Response<Body>, WatchEnd> {
        let limit = self.connection.options().call_timeout;
        let response = match tokio::time::timeout(limit, self.connection.open(call)).await {
            Ok(response) => response?,
            Err(_) => {
                self.connection.note_down();
                return Err(TransportError::Timeout {
                    server: self.connection.server().to_owned(),
                    after: limit,
                }
                .into());
            }
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let retry_after = self.connection.retry_after(&response);
        let body = tokio::time::timeout(limit, self.connection.collect(response.into_body())).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        Err(answer::error(status, retry_after, &body).into())
    }

    /// Takes in one event of a watch that began at `from`. Returns whether the store has come further.
    fn event(&self, line: &[u8], from: Option<u64>) -> Result<bool, WatchEnd> {
        let frame = Frame::scan(line)?;
        let text = &line[frame.object.range()];
        match frame.frame_type {
            FrameType::Added | FrameType::Modified => {
                let further = self.store.apply(self.store.ingest(text)?);
                if self.store.size().1 > self.options.max_bytes {
                    return Err(WatchEnd::TooMuch(self.options.max_bytes));
                }
                Ok(further)
            }
            FrameType::Deleted => Ok(self.store.delete(&self.store.ingest(text)?)),
            FrameType::Bookmark => {
                let bookmark = Bookmark::read(text)?;
                let at = number(&bookmark.metadata.resource_version);
                if at.zip(from).is_some_and(|(at, from)| at < from) {
                    return Err(WatchEnd::Behind);
                }
                Ok(self.store.reached(&bookmark.metadata.resource_version))
            }
            FrameType::Error => Err(error_event(text)),
        }
    }
}

/// Returns once the server has lost its history more often than so.
async fn lost_more(verdicts: &mut watch::Receiver<Verdict>, known: u64) {
    let lost = |verdict: &Verdict| verdict.histories_lost > known;
    if verdicts.wait_for(lost).await.is_err() {
        // The backend has ended, and this watch ends with it.
        std::future::pending().await
    }
}

impl Open {
    /// The server has ended it.
    fn ended(&self) -> WatchEnd {
        if self.heard.is_none() && self.is_old() {
            return WatchEnd::Quiet;
        }
        WatchEnd::Ended
    }

    /// Whether it has lasted about as long as it was told to.
    fn is_old(&self) -> bool {
        let left = self.ends.saturating_duration_since(Instant::now());
        left < GRACE + self.timeout / 10 + Duration::from_secs(1)
    }

    /// The server has not ended it when it should have.
    fn overdue(&self) -> WatchEnd {
        let quiet = self
            .heard
            .map_or(self.timeout + GRACE, |heard| heard.elapsed());
        // A server that talks lives, even if it cannot tell the time.
        if quiet > self.timeout / 2 {
            WatchEnd::Silent(Duration::from_secs(quiet.as_secs()))
        } else {
            WatchEnd::Ended
        }
    }
}

fn long_line(limit: usize) -> WatchEnd {
    WatchEnd::Garbage(format!("a line of more than {limit} bytes"))
}

fn error_event(text: &[u8]) -> WatchEnd {
    let code = serde_json::from_slice::<answer::Status>(text).map_or(500, |status| status.code);
    answer::error(code, None, text).into()
}

/// A bookmark has no name, so it is no object of the store.
#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
struct BookmarkMetadata {
    #[serde(rename = "resourceVersion")]
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

impl Bookmark {
    fn read(text: &[u8]) -> Result<Self, WatchEnd> {
        serde_json::from_slice(text)
            .map_err(|_| WatchEnd::Garbage("a bookmark without metadata.resourceVersion".into()))
    }

    /// Whether all that a streamed list consists of stands before it.
    fn ends_list(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get("k8s.io/initial-events-end"))
            .is_some_and(|value| value == "true")
    }
}
