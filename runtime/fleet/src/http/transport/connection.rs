//! One cluster's way to its server: deadlines, caps and limits. Entry point: [`Connection::send`].

use super::answers::Answers;
use super::body::Body;
use super::content::Content;
use super::http::Http;
use super::pool::{Outgoing, Use};
use super::read::{Unread, read};
use super::slots::{Slot, Slots};
use super::tally::ConnectionCounts;
use super::throttle::Bucket;
use super::{Answer, Call, Charge, Owner, TransportError, TransportOptions, retry_after};
use crate::grant::Identity;
use crate::http::config::ClusterConfig;
use crate::http::fence::Pass;
use crate::metrics::ClusterMetrics;
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Response};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

/// How soon an attempt may follow a failed one because the server has answered another call.
const SOONEST: Duration = Duration::from_millis(200);
/// Calls that the host makes for itself, under way at once per cluster: discovery, identity, comparisons, lists that fill caches. They
/// are few and short, and no tenant's calls may hold them up.
const HOST_SLOTS: usize = 16;

/// One cluster's way to its server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    way: ArcSwap<Way>,
    /// Path of the server's URL, without a slash at its end.
    prefix: String,
    server: String,
    /// Whether it is the local cluster's.
    vital: bool,
    host: Handle,
    /// A slot for each call under way, watches and the host's own apart.
    slots: Slots,
    /// One permit per call of the host's own.
    host_slots: Semaphore,
    /// Watches under way.
    watches: Arc<Semaphore>,
    rate: Option<Mutex<Bucket>>,
    /// Set by a call that no answer came to, until one is answered.
    down: AtomicBool,
    /// Counts the times that the server answered again.
    recoveries: watch::Sender<u64>,
    options: TransportOptions,
    answers: Arc<Answers>,
    metrics: Arc<ClusterMetrics>,
}

/// What a connection goes by until its credentials are exchanged.
struct Way {
    http: Arc<Http>,
    /// Cancelled when it is no longer gone by: watches end, to resume on the next.
    over: CancellationToken,
}

impl Way {
    fn new(http: Arc<Http>) -> Arc<Self> {
        http.users.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            http,
            over: CancellationToken::new(),
        })
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.http.users.fetch_sub(1, Ordering::Relaxed);
        self.over.cancel();
    }
}

impl Connection {
    pub(super) fn new(
        config: &ClusterConfig,
        http: Arc<Http>,
        vital: bool,
        host: &Handle,
        options: &TransportOptions,
        answers: Arc<Answers>,
        metrics: Arc<ClusterMetrics>,
    ) -> Self {
        let bucket = |limit| Mutex::new(Bucket::new(limit, Instant::now()));
        Self {
            inner: Arc::new(Inner {
                way: ArcSwap::new(Way::new(http)),
                prefix: config.access().url.path().trim_end_matches('/').to_owned(),
                server: config.server(),
                vital,
                host: host.clone(),
                slots: Slots::new(options.in_flight.max(1)),
                host_slots: Semaphore::new(HOST_SLOTS),
                watches: Arc::new(Semaphore::new(options.watches.max(1))),
                rate: options.rate.map(bucket),
                down: AtomicBool::new(false),
                recoveries: watch::channel(0).0,
                options: options.clone(),
                answers,
                metrics,
            }),
        }
    }

    pub(super) fn exchange(&self, http: Arc<Http>) {
        let old = self.inner.way.swap(Way::new(http));
        old.over.cancel();
    }

    pub(super) fn is_vital(&self) -> bool {
        self.inner.vital
    }

    pub(crate) fn metrics(&self) -> &ClusterMetrics {
        &self.inner.metrics
    }

    pub(crate) fn host(&self) -> &Handle {
        &self.inner.host
    }

    pub(crate) fn options(&self) -> &TransportOptions {
        &self.inner.options
    }

    /// What all answers of the process are charged to.
    pub(crate) fn answers(&self) -> &Arc<Answers> {
        &self.inner.answers
    }

    /// The connections that this one shares with others.
    pub(crate) fn counts(&self) -> ConnectionCounts {
        self.inner.way.load().http.counts()
    }

    /// When the credentials end, as far as they say.
    pub(crate) fn valid_until(&self) -> Option<SystemTime> {
        self.inner.way.load().http.valid_until()
    }

    /// Waits before another attempt, but not beyond an exchange of the credentials, nor long after the server has answered another
    /// call: then the attempt need not wait.
    pub(crate) async fn pause(&self, delay: Duration) {
        let over = self.inner.way.load().over.clone();
        let mut recoveries = self.inner.recoveries.subscribe();
        let soonest = tokio::time::sleep(delay.min(SOONEST));
        let recovered = async {
            soonest.await;
            // The sender lives as long as the connection.
            let _ = recoveries.changed().await;
        };
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = over.cancelled() => {}
            () = recovered => {}
        }
    }

    /// Notes that a call was not answered.
    pub(crate) fn note_down(&self) {
        self.inner.down.store(true, Ordering::Relaxed);
    }

    fn note_answer(&self) {
        if self.inner.down.load(Ordering::Relaxed) && self.inner.down.swap(false, Ordering::Relaxed)
        {
            self.inner.recoveries.send_modify(|count| *count += 1);
        }
    }

    /// Whether dead peers are found by PING: over HTTP/2. Over HTTP/1.1 only the timeout of a watch finds them.
    pub(crate) fn pings(&self) -> bool {
        self.inner.way.load().http.pings()
    }

    /// Sends a call and reads its whole answer, within `timeout`. Dropping the future cancels the call.
    pub(crate) async fn send(
        &self,
        call: Call,
        timeout: Duration,
    ) -> Result<Answer, TransportError> {
        let this = self.clone();
        let task = AbortOnDrop(
            self.inner
                .host
                .spawn(async move { this.send_here(call, timeout).await }),
        );
        task.join()
            .await
            .unwrap_or_else(|reason| Err(self.unreachable(reason)))
    }

    /// As [`Self::send`], but the caller is on the host's runtime already (a detached write).
    pub(crate) async fn send_here(
        &self,
        call: Call,
        timeout: Duration,
    ) -> Result<Answer, TransportError> {
        self.send_fenced(call, timeout, None).await
    }

    /// As [`Self::send_here`]; the body is sent only while its pass holds.
    pub(crate) async fn send_fenced(
        &self,
        call: Call,
        timeout: Duration,
        pass: Option<Pass>,
    ) -> Result<Answer, TransportError> {
        let until = tokio::time::Instant::now() + timeout;
        let slot = self.slot(call.owner.as_ref());
        let Ok(_slot) = tokio::time::timeout_at(until, slot).await else {
            return Err(self.no_slot(call.owner.as_ref(), timeout));
        };
        // After the slot: what the calls of one owner may book ahead of the cluster's rate is bounded by their slots.
        let call = async {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            self.wait_turn(left).await?;
            self.exchange_call(call, pass).await
        };
        self.within(until, timeout, call).await
    }

    /// As [`Self::send_here`], for calls that no limit on a cluster's calls may hold up, such as those that renew a lease.
    pub(crate) async fn send_apart(
        &self,
        call: Call,
        timeout: Duration,
    ) -> Result<Answer, TransportError> {
        let until = tokio::time::Instant::now() + timeout;
        self.within(until, timeout, self.exchange_call(call, None))
            .await
    }

    async fn within(
        &self,
        until: tokio::time::Instant,
        timeout: Duration,
        answer: impl Future<Output = Result<Answer, TransportError>>,
    ) -> Result<Answer, TransportError> {
        match tokio::time::timeout_at(until, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                self.note_down();
                Err(TransportError::Timeout {
                    server: self.inner.server.clone(),
                    after: timeout,
                })
            }
        }
    }

    /// Leave for one call. The caller bounds the wait.
    async fn slot(&self, owner: Option<&Owner>) -> (Option<Slot>, Option<SemaphorePermit<'_>>) {
        match owner {
            Some(owner) => (Some(self.inner.slots.take(owner).await), None),
            // The semaphore is never closed, so this waits or succeeds.
            None => (None, self.inner.host_slots.acquire().await.ok()),
        }
    }

    fn no_slot(&self, owner: Option<&Owner>, after: Duration) -> TransportError {
        let server = self.inner.server.clone();
        match owner {
            Some(_) => TransportError::Busy { server, after },
            // As many of the host's own calls as there are slots had no answer either.
            None => TransportError::Timeout { server, after },
        }
    }

    async fn exchange_call(
        &self,
        mut call: Call,
        pass: Option<Pass>,
    ) -> Result<Answer, TransportError> {
        let mut charge = call.charge.take();
        // The write has happened, even if its answer says otherwise. The answer is read if there is any room for it.
        let read = call.method == Method::GET;
        let response = self.request(Use::Call, call, pass).await?;
        let status = response.status().as_u16();
        let retry_after = self.retry_after(&response);
        let admit = read && response.status().is_success();
        let body = self
            .read(response.into_body(), charge.as_mut(), admit)
            .await?;
        Ok(Answer {
            status,
            retry_after,
            body,
            charge,
        })
    }

    /// Opens a watch: returns once the head of the answer is there. A watch of which there are too many waits for another to end.
    /// The caller bounds the wait.
    pub(crate) async fn open(&self, call: Call) -> Result<Response<Body>, TransportError> {
        self.wait_turn(self.inner.options.call_timeout).await?;
        // The semaphore is never closed, so this waits or succeeds.
        let permit = self.inner.watches.clone().acquire_owned().await.ok();
        let mut response = self.request(Use::Watch, call, None).await?;
        response.body_mut().hold(permit);
        Ok(response)
    }

    async fn wait_turn(&self, patience: Duration) -> Result<(), TransportError> {
        let Some(rate) = &self.inner.rate else {
            return Ok(());
        };
        let wait = rate.lock().take(Instant::now(), patience);
        match wait {
            Some(wait) if wait.is_zero() => Ok(()),
            Some(wait) => {
                tokio::time::sleep(wait).await;
                Ok(())
            }
            None => Err(TransportError::RateLimited {
                server: self.inner.server.clone(),
                after: patience,
            }),
        }
    }

    async fn request(
        &self,
        wanted: Use,
        call: Call,
        pass: Option<Pass>,
    ) -> Result<Response<Body>, TransportError> {
        let way = self.inner.way.load_full();
        let mut counted = self.inner.metrics.request(&call.method);
        let outgoing = self.outgoing(call, pass);
        // On the heap, and gone with the answer: a watch that waits for events does not carry it along.
        let response = Box::pin(way.http.send(wanted, outgoing, &way.over)).await;
        let response = response.inspect_err(|_| self.note_down())?;
        self.note_answer();
        counted.answered(response.status().as_u16());
        self.refuse_encoded(response)
    }

    fn outgoing(&self, call: Call, pass: Option<Pass>) -> Outgoing {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(call.accept));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION"))),
        );
        for (name, value) in call.identity.iter().flat_map(Identity::headers) {
            headers.append(name, value.clone());
        }
        let mut body = Bytes::new();
        if let Some((content_type, bytes)) = call.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            body = bytes;
        }
        Outgoing {
            method: call.method,
            path: format!("{}{}", self.inner.prefix, call.path),
            headers,
            body: Content::new(body, pass),
        }
    }

    /// An answer in an encoding that was never asked for could unfold to any size.
    fn refuse_encoded(&self, response: Response<Body>) -> Result<Response<Body>, TransportError> {
        let encoding = response.headers().get(CONTENT_ENCODING);
        match encoding {
            Some(encoding) if encoding.as_bytes() != b"identity" => Err(TransportError::Encoded {
                server: self.inner.server.clone(),
            }),
            _ => Ok(response),
        }
    }

    pub(crate) fn retry_after(&self, response: &Response<Body>) -> Option<Duration> {
        let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
        let cap = self.inner.options.max_retry_after;
        retry_after::parse(value, SystemTime::now(), cap)
    }

    /// Reads a whole body within the cap, for the host itself.
    pub(crate) async fn collect(&self, body: Body) -> Result<Bytes, TransportError> {
        self.read(body, None, false).await
    }

    async fn read(
        &self,
        body: Body,
        charge: Option<&mut Charge>,
        admit: bool,
    ) -> Result<Bytes, TransportError> {
        let limit = self.inner.options.max_body;
        let server = || self.inner.server.clone();
        read(body, limit, charge, admit)
            .await
            .map_err(|unread| match unread {
                Unread::Broken(reason) => self.unreachable(reason),
                Unread::TooLarge => TransportError::TooLarge {
                    server: server(),
                    limit,
                },
                Unread::NotAdmitted(reason) => TransportError::NotAdmitted {
                    server: server(),
                    reason,
                },
                Unread::NoRoom(bytes) => TransportError::NoRoom {
                    server: server(),
                    bytes,
                },
            })
    }

    pub(crate) fn unreachable(&self, reason: String) -> TransportError {
        TransportError::Unreachable {
            server: self.inner.server.clone(),
            reason,
        }
    }

    pub(crate) fn server(&self) -> &str {
        &self.inner.server
    }
}

/// A task that ends with its handle.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, String> {
        (&mut self.0).await.map_err(|error| error.to_string())
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
