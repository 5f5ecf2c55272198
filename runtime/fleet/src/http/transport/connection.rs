//! One cluster's calls to its server. Entry point: [`Connection::send`].
//!
//! A call waits for a slot, then for the rate limit, then goes to the [`AuthenticatedClient`]. All of that and the whole answer must fit into
//! the call's timeout. A watch has no timeout and takes no slot; it has a limit of its own on open watches.

use super::answer_body::AnswerBody;
use super::answer_memory::AnswerMemory;
use super::client::AuthenticatedClient;
use super::connection_counts::ConnectionCounts;
use super::pool::{Outgoing, Purpose};
use super::read_answer::{Unread, read};
use super::request_body::RequestBody;
use super::slots::{CallSlots, Slot, Slots};
use super::{
    Answer, Call, Charge, Owner, TransportError, TransportOptions, retry_after, root_cause,
};
use crate::grant::Identity;
use crate::http::config::ClusterConfig;
use crate::http::fence::Pass;
use crate::metrics::ClusterMetrics;
use crate::rate_limit::Bucket;
use crate::trace::TRACEPARENT;
use crate::workspace;
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

/// The least time between a failed attempt and the next one, even if the server has answered another call.
const SOONEST: Duration = Duration::from_millis(200);
/// Calls of the host's own in flight per cluster: discovery, identity, comparisons, lists that fill caches. They are few and short, and have
/// slots of their own so that no tenant's calls delay them.
const HOST_SLOTS: usize = 16;

/// One cluster's calls to its server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    route: ArcSwap<Route>,
    /// Path of the server's URL, without a slash at its end.
    prefix: String,
    /// The path that tells what sort of server it is: of a copy, that of the server which it is a copy of.
    known_path: String,
    /// Whether no call but GET is sent.
    only_reads: bool,
    server: String,
    /// Whether this is the local cluster.
    is_local: bool,
    host: Handle,
    /// A slot for each call in flight, without watches and the host's own calls.
    slots: Arc<Slots>,
    /// A permit for each call of the host's own.
    host_slots: Semaphore,
    /// A permit for each open watch.
    watches: Arc<Semaphore>,
    rate: Option<Mutex<Bucket>>,
    /// Whether the last calls had no answer.
    down: AtomicBool,
    /// How often the server has answered again.
    recoveries: watch::Sender<u64>,
    options: TransportOptions,
    answers: Arc<AnswerMemory>,
    metrics: Arc<ClusterMetrics>,
}

/// The client that a connection uses, until its credentials are exchanged.
struct Route {
    client: Arc<AuthenticatedClient>,
    /// Cancelled when the route is replaced. Watches end then, to resume on the new route.
    replaced: CancellationToken,
}

impl Route {
    fn new(client: Arc<AuthenticatedClient>) -> Arc<Self> {
        client.users.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            client,
            replaced: CancellationToken::new(),
        })
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        self.client.users.fetch_sub(1, Ordering::Relaxed);
        self.replaced.cancel();
    }
}

impl Connection {
    pub(super) fn new(
        config: &ClusterConfig,
        client: Arc<AuthenticatedClient>,
        is_local: bool,
        host: &Handle,
        options: &TransportOptions,
        answers: Arc<AnswerMemory>,
        metrics: Arc<ClusterMetrics>,
    ) -> Self {
        let bucket = |limit| Mutex::new(Bucket::new(limit, Instant::now()));
        Self {
            inner: Arc::new(Inner {
                route: ArcSwap::new(Route::new(client)),
                prefix: config.access().url.path().trim_end_matches('/').to_owned(),
                known_path: config.access().known_path().to_owned(),
                only_reads: config.access().only_reads,
                server: config.server(),
                is_local,
                host: host.clone(),
                slots: Slots::new(CallSlots::new(options.in_flight.max(1))),
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

    pub(super) fn exchange(&self, client: Arc<AuthenticatedClient>) {
        let old = self.inner.route.swap(Route::new(client));
        old.replaced.cancel();
    }

    pub(super) fn is_local(&self) -> bool {
        self.inner.is_local
    }

    /// Whether it is to an endpoint that serves many logical clusters of kcp.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.inner.prefix.ends_with(workspace::WILDCARD)
    }

    /// Whether it is to the virtual workspace of an APIExport of kcp.
    pub(crate) fn is_of_export(&self) -> bool {
        self.inner.known_path.contains(workspace::EXPORTS)
    }

    /// Whether it is to workspaces of kcp that are being initialized.
    pub(crate) fn is_of_initializing(&self) -> bool {
        self.inner.known_path.contains(workspace::INITIALIZING)
    }

    /// The path of a call's URL.
    fn path(&self, call: &Call) -> String {
        let prefix = &*self.inner.prefix;
        match (&call.workspace, prefix.strip_suffix('*')) {
            (Some(workspace), Some(all)) => format!("{all}{workspace}{}", call.path),
            _ => format!("{prefix}{}", call.path),
        }
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

    /// The memory that the answers to clients are charged to.
    pub(crate) fn answers(&self) -> &Arc<AnswerMemory> {
        &self.inner.answers
    }

    /// Counts of the connections that this cluster uses.
    pub(crate) fn counts(&self) -> ConnectionCounts {
        self.inner.route.load().client.counts()
    }

    /// When the credentials expire, if that is known.
    pub(crate) fn valid_until(&self) -> Option<SystemTime> {
        self.inner.route.load().client.valid_until()
    }

    /// Cancelled once the credentials of now are exchanged. Watches end then.
    pub(crate) fn replaced(&self) -> CancellationToken {
        self.inner.route.load().replaced.clone()
    }

    /// Waits before another attempt. The wait ends early when the credentials are exchanged or the server answers another call, then not
    /// before [`SOONEST`].
    pub(crate) async fn pause(&self, delay: Duration) {
        let replaced = self.replaced();
        let mut recoveries = self.inner.recoveries.subscribe();
        let soonest = tokio::time::sleep(delay.min(SOONEST));
        let recovered = async {
            soonest.await;
            // The sender lives as long as the connection.
            let _ = recoveries.changed().await;
        };
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = replaced.cancelled() => {}
            () = recovered => {}
        }
    }

    /// Records that a call had no answer.
    pub(crate) fn note_down(&self) {
        self.inner.down.store(true, Ordering::Relaxed);
    }

    fn note_answer(&self) {
        if self.inner.down.load(Ordering::Relaxed) && self.inner.down.swap(false, Ordering::Relaxed)
        {
            self.inner.recoveries.send_modify(|count| *count += 1);
        }
    }

    /// Whether a dead server is detected by PING, as over HTTP/2. Over HTTP/1.1 only the timeout of a watch detects it.
    pub(crate) fn pings(&self) -> bool {
        self.inner.route.load().client.pings()
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
                .spawn(async move { this.send_here(call, timeout, None).await }),
        );
        task.join()
            .await
            .unwrap_or_else(|error| Err(self.unreachable(error.to_string())))
    }

    /// As [`Self::send`], for a caller on the host's runtime. The body is sent only while the pass, if there is one, is valid.
    pub(crate) async fn send_here(
        &self,
        call: Call,
        timeout: Duration,
        pass: Option<Pass>,
    ) -> Result<Answer, TransportError> {
        let until = tokio::time::Instant::now() + timeout;
        let slot = self.slot(&call);
        let Ok(_slot) = tokio::time::timeout_at(until, slot).await else {
            return Err(self.no_slot(call.owner.as_ref(), timeout));
        };
        let answer = async {
            // After the slot, so that an owner's slots limit how many turns of the rate limit its calls book in advance.
            if !call.is_apart {
                let left = until.saturating_duration_since(tokio::time::Instant::now());
                self.wait_turn(left).await?;
            }
            self.exchange_call(call, pass).await
        };
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

    /// A slot for one call, if it needs one. The caller bounds the wait.
    async fn slot(&self, call: &Call) -> (Option<Slot>, Option<SemaphorePermit<'_>>) {
        if call.is_apart {
            return (None, None);
        }
        match &call.owner {
            Some(owner) => {
                let slot = self.inner.slots.acquire(owner, false, ()).await;
                (Some(slot), None)
            }
            // The semaphore is never closed, so this waits or succeeds.
            None => (None, self.inner.host_slots.acquire().await.ok()),
        }
    }

    fn no_slot(&self, owner: Option<&Owner>, after: Duration) -> TransportError {
        let server = self.inner.server.clone();
        match owner {
            Some(_) => TransportError::Busy { server, after },
            // All slots are held by calls of the host that have no answer either.
            None => TransportError::Timeout { server, after },
        }
    }

    async fn exchange_call(
        &self,
        mut call: Call,
        pass: Option<Pass>,
    ) -> Result<Answer, TransportError> {
        let mut charge = call.charge.take();
        // Only a read may be refused for its size. The answer to a write is read if there is memory: the write has happened anyway.
        let is_read = call.method == Method::GET;
        let response = self.request(Purpose::Call, call, pass).await?;
        let status = response.status().as_u16();
        let retry_after = self.retry_after(&response);
        let ask_account = is_read && response.status().is_success();
        let body = self
            .read(response.into_body(), charge.as_mut(), ask_account)
            .await?;
        Ok(Answer {
            status,
            retry_after,
            body,
            charge,
        })
    }

    /// Opens a watch and returns once the head of its answer is here. At the limit on watches it waits for another to end. The caller
    /// bounds the wait.
    pub(crate) async fn open(&self, call: Call) -> Result<Response<AnswerBody>, TransportError> {
        self.wait_turn(self.inner.options.call_timeout).await?;
        // The semaphore is never closed, so this waits or succeeds.
        let permit = self.inner.watches.clone().acquire_owned().await.ok();
        let mut response = self.request(Purpose::Watch, call, None).await?;
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
        purpose: Purpose,
        call: Call,
        pass: Option<Pass>,
    ) -> Result<Response<AnswerBody>, TransportError> {
        if self.inner.only_reads && call.method != Method::GET {
            let server = self.inner.server.clone();
            return Err(TransportError::OnlyRead { server });
        }
        let route = self.inner.route.load_full();
        let mut counted = self.inner.metrics.request(&call.method);
        let outgoing = self.outgoing(call, pass);
        // Boxed, so that the future of a watch that waits for events does not contain it.
        let response = Box::pin(route.client.send(purpose, outgoing, &route.replaced)).await;
        let response = response.map_err(|error| {
            self.note_down();
            error.of_server(&self.inner.server)
        })?;
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
        if let Some((name, value)) = call.header.clone() {
            headers.insert(name, value);
        }
        if let Some(parent) = call.traceparent.clone() {
            headers.insert(TRACEPARENT, parent);
        }
        let path = self.path(&call);
        let mut body = Bytes::new();
        if let Some((content_type, bytes)) = call.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            body = bytes;
        }
        Outgoing {
            method: call.method,
            path,
            headers,
            body: RequestBody::new(body, pass),
        }
    }

    /// An answer in an encoding that was not requested could decompress to any size.
    fn refuse_encoded(
        &self,
        response: Response<AnswerBody>,
    ) -> Result<Response<AnswerBody>, TransportError> {
        let encoding = response.headers().get(CONTENT_ENCODING);
        match encoding {
            Some(encoding) if encoding.as_bytes() != b"identity" => Err(TransportError::Encoded {
                server: self.inner.server.clone(),
            }),
            _ => Ok(response),
        }
    }

    pub(crate) fn retry_after(&self, response: &Response<AnswerBody>) -> Option<Duration> {
        let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
        let cap = self.inner.options.max_retry_after;
        retry_after::parse(value, SystemTime::now(), cap)
    }

    /// Reads a whole body of at most `max_body` bytes, for the host itself.
    pub(crate) async fn collect(&self, body: AnswerBody) -> Result<Bytes, TransportError> {
        self.read(body, None, false).await
    }

    async fn read(
        &self,
        body: AnswerBody,
        charge: Option<&mut Charge>,
        ask_account: bool,
    ) -> Result<Bytes, TransportError> {
        let limit = self.inner.options.max_body;
        let server = || self.inner.server.clone();
        read(body, limit, charge, ask_account)
            .await
            .map_err(|unread| match unread {
                Unread::Broken(error) => self.unreachable(root_cause(&error)),
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

/// A task that is aborted when this is dropped.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
