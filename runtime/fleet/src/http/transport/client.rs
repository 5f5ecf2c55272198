//! One user on one server: adds credentials to requests and renews them. Entry point: [`AuthenticatedClient::send`].
//!
//! Clusters with the same server, TLS and credentials share a client. Credentials are loaded at the first request, and again
//!
//! * a little before they expire, or a minute after a token file was read;
//! * when the server answers 401, and the request is then sent once more;
//! * when no connection can be made with a client certificate from a file, because the server may have rejected the certificate.
//!
//! A new token is used by the next request. A new client certificate gets a new pool: calls on the old connections end by themselves, and
//! watches end at once, to resume on the new ones.
//!
//! Invariants:
//! * One load at a time, and a failed load is not repeated for [`FAILED_FOR`], so a plugin that fails is not run for each request.
//! * Credentials that a server rejected are loaded again only when they are older than [`FRESH`], so a server that always answers 401 costs
//!   at most two loads a second.
//! * If loading fails, credentials that have not expired stay in use.
//!
//! Not guaranteed: a write whose connection broke is not sent again, and may have happened.

use super::answer_body::AnswerBody;
use super::connection_counts::{ConnectionCounter, ConnectionCounts, Protocol};
use super::credentials::{Credentials, CredentialsError, Tls, is_renewable, load};
use super::dial::Dialer;
use super::pool::{CheckoutError, Outgoing, Pool, Purpose};
use super::proxy::ServerProxy;
use super::single_flight::SingleFlight;
use super::sockets::Sockets;
use super::{TransportError, TransportOptions};
use crate::grant::Identity;
use crate::http::config::{ClusterConfig, ServerAddresses};
use arc_swap::ArcSwapOption;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// How long a failed load answers all requests.
const FAILED_FOR: Duration = Duration::from_secs(2);
/// The age below which credentials are not loaded again.
const FRESH: Duration = Duration::from_millis(500);
/// How often a request is sent again if the server certainly has not seen it, or if it is a read whose reused connection was closed.
const RETRIES: usize = 2;

/// One user on one server.
pub(super) struct AuthenticatedClient {
    config: ClusterConfig,
    proxy: Option<ServerProxy>,
    host: Handle,
    options: TransportOptions,
    /// Permits for credential plugins, shared by all servers.
    plugins: Arc<Semaphore>,
    sockets: Sockets,
    /// Where the server's addresses are noted. `None`: it is no API server.
    server_addresses: Option<ServerAddresses>,
    /// Whether the local cluster uses this client.
    is_local: Arc<AtomicBool>,
    counter: Arc<ConnectionCounter>,
    /// How many clusters use this client.
    pub(super) users: AtomicUsize,
    /// Empty until the first request.
    current: ArcSwapOption<Current>,
    loading: SingleFlight<Result<(), TransportError>>,
    failed: Mutex<Option<(Instant, TransportError)>>,
}

/// The credentials in use, and the pool of connections made with their client certificate.
struct Current {
    pool: Arc<Pool>,
    credentials: Credentials,
    loaded: Instant,
    /// Set when the server has rejected the credentials, or may have.
    rejected: AtomicBool,
}

impl Current {
    fn is_fresh(&self) -> bool {
        self.loaded.elapsed() < FRESH
    }

    fn must_be_renewed(&self, now: SystemTime) -> bool {
        // Credentials that have expired by our clock when they are issued are not loaded for each request.
        let is_due = || self.credentials.renew_at.is_some_and(|at| now >= at);
        self.rejected.load(Ordering::Relaxed) || (!self.is_fresh() && is_due())
    }

    /// Whether the credentials may stay in use if no others can be loaded.
    fn is_valid(&self, now: SystemTime) -> bool {
        self.credentials.valid_until.is_none_or(|end| now < end)
    }
}

impl AuthenticatedClient {
    pub(super) fn new(
        config: ClusterConfig,
        host: &Handle,
        options: &TransportOptions,
        plugins: Arc<Semaphore>,
        sockets: Sockets,
        server_addresses: Option<ServerAddresses>,
    ) -> Arc<Self> {
        Arc::new(Self {
            server_addresses,
            proxy: ServerProxy::choose(config.access(), &options.proxy),
            config,
            host: host.clone(),
            options: options.clone(),
            plugins,
            sockets,
            is_local: Arc::default(),
            counter: Arc::default(),
            users: AtomicUsize::new(0),
            current: ArcSwapOption::empty(),
            loading: SingleFlight::new(),
            failed: Mutex::default(),
        })
    }

    /// From now on the local cluster uses this client, and its calls may take the reserved sockets.
    pub(super) fn mark_local(&self) {
        self.is_local.store(true, Ordering::Relaxed);
    }

    /// The server's URL.
    pub(super) fn server(&self) -> String {
        self.config.server()
    }

    pub(super) fn counts(&self) -> ConnectionCounts {
        self.counter.counts(self.users.load(Ordering::Relaxed))
    }

    /// Whether the connections detect a dead peer by PING.
    pub(super) fn pings(&self) -> bool {
        let current = self.current.load();
        let protocol = current.as_ref().and_then(|current| current.pool.protocol());
        protocol == Some(Protocol::Http2)
    }

    /// When the credentials expire, if that is known.
    pub(super) fn valid_until(&self) -> Option<SystemTime> {
        self.current.load().as_ref()?.credentials.valid_until
    }

    /// Sends a request and returns once the head of its answer is here. The body of a watch ends when `end` is cancelled.
    ///
    /// # Errors
    /// The credentials cannot be used, or there is no answer. Waits for ever for a silent server: the caller has a deadline.
    pub(super) async fn send(
        self: &Arc<Self>,
        purpose: Purpose,
        outgoing: Outgoing,
        end: &CancellationToken,
    ) -> Result<Response<AnswerBody>, TransportError> {
        let mut renewed = false;
        let mut current = None;
        loop {
            let (used, response) = self.answer(current, purpose, &outgoing, end).await?;
            if response.status() != StatusCode::UNAUTHORIZED || renewed {
                return Ok(response);
            }
            if self.config.access().user.is_anonymous() {
                let server = self.config.server();
                return Err(TransportError::Anonymous { server });
            }
            renewed = true;
            match self.renew_rejected(&used).await {
                Some(next) => current = Some(next),
                None => return Ok(response),
            }
        }
    }

    /// As [`Self::send`], for a server that is asked once, whatever it answers.
    ///
    /// # Errors
    /// As [`Self::send`], but never because of an answer.
    pub(super) async fn ask(
        self: &Arc<Self>,
        outgoing: Outgoing,
    ) -> Result<Response<AnswerBody>, TransportError> {
        let never = CancellationToken::new();
        let answer = self.answer(None, Purpose::Call, &outgoing, &never);
        answer.await.map(|(_, response)| response)
    }

    /// The answer to a request with these credentials (`None`: those of now), and the credentials that it was sent with.
    async fn answer(
        self: &Arc<Self>,
        current: Option<Arc<Current>>,
        purpose: Purpose,
        outgoing: &Outgoing,
        end: &CancellationToken,
    ) -> Result<(Arc<Current>, Response<AnswerBody>), TransportError> {
        let mut current = match current {
            Some(current) => current,
            None => self.current().await?,
        };
        loop {
            match self.exchange(&current, purpose, outgoing, end).await {
                Ok(response) => return Ok((current, response)),
                // The credentials were replaced meanwhile. This loops only as often as that happens.
                Err(CheckoutError::Closed) => current = self.current().await?,
                Err(CheckoutError::Transport(error)) => {
                    self.suspect_certificate(&current);
                    return Err(error);
                }
            }
        }
    }

    async fn exchange(
        &self,
        current: &Current,
        purpose: Purpose,
        outgoing: &Outgoing,
        end: &CancellationToken,
    ) -> Result<Response<AnswerBody>, CheckoutError> {
        let mut outgoing = outgoing.clone();
        let headers = &current.credentials.headers;
        // A server would merge the two users into one.
        if impersonates(headers) && impersonates(&outgoing.headers) {
            return Err(CheckoutError::Transport(self.unusable(
                "they impersonate a user already, and so no call can be made in the name of another: take `as` out of the kubeconfig"
                    .to_owned(),
            )));
        }
        for (name, value) in headers {
            outgoing.headers.append(name, value.clone());
        }
        let mut retries = RETRIES;
        loop {
            let mut checkout = current.pool.check_out(purpose).await?;
            let error = match checkout.send(outgoing.clone()).await {
                Ok(response) => {
                    if let Some(refusal) = checkout.refusal_of_proxy(response.status()) {
                        return Err(CheckoutError::Transport(refusal));
                    }
                    let ends = match purpose {
                        Purpose::Call => Vec::new(),
                        Purpose::Watch => vec![end.clone(), current.pool.closed().clone()],
                    };
                    return Ok(response.map(|body: Incoming| AnswerBody::new(body, checkout, ends)));
                }
                Err(error) => error,
            };
            let is_stale_read = checkout.is_reused() && outgoing.method == Method::GET;
            if retries == 0 || !(error.unsent || is_stale_read) {
                return Err(CheckoutError::Transport(TransportError::Unreachable {
                    server: self.config.server(),
                    reason: error.reason,
                }));
            }
            retries -= 1;
        }
    }

    /// Credentials for a request that is sent now.
    async fn current(self: &Arc<Self>) -> Result<Arc<Current>, TransportError> {
        let there = self.current.load_full();
        let now = SystemTime::now();
        if let Some(current) = there.as_ref().filter(|there| !there.must_be_renewed(now)) {
            return Ok(current.clone());
        }
        let outcome = match self.failed_lately() {
            Some(error) => Err(error),
            None => self.load().await,
        };
        match (outcome, there) {
            (Ok(()), _) => self.current.load_full().ok_or_else(|| self.ending()),
            (Err(_), Some(old)) if old.is_valid(now) => Ok(old),
            (Err(error), _) => Err(error),
        }
    }

    fn failed_lately(&self) -> Option<TransportError> {
        let failed = self.failed.lock();
        let (at, error) = failed.as_ref()?;
        (at.elapsed() < FAILED_FOR).then(|| error.clone())
    }

    async fn load(self: &Arc<Self>) -> Result<(), TransportError> {
        let this = Arc::downgrade(self);
        let (config, plugins) = (self.config.clone(), self.plugins.clone());
        let proxy = self.proxy.clone();
        let deadline = self.options.plugin_timeout;
        let outcome = self.loading.join(&self.host, || async move {
            let loaded = load(config.access(), proxy.as_ref(), deadline, &plugins).await;
            let Some(client) = this.upgrade() else {
                return Ok(());
            };
            let outcome = loaded
                .and_then(|(credentials, tls)| client.replace(credentials, tls))
                .map_err(|error| client.failure(&error));
            *client.failed.lock() = outcome
                .as_ref()
                .err()
                .map(|error| (Instant::now(), error.clone()));
            outcome
        });
        outcome.await.unwrap_or_else(|| Err(self.ending()))
    }

    /// Uses new credentials from now on. The pool stays if the client certificate does.
    fn replace(&self, credentials: Credentials, tls: Tls) -> Result<(), CredentialsError> {
        let old = self.current.load_full();
        let certificate = credentials.client_certificate;
        let same = |old: &&Arc<Current>| old.credentials.client_certificate == certificate;
        let pool = match old.as_ref().filter(same) {
            Some(old) => old.pool.clone(),
            None => {
                let dialer = Dialer::new(
                    self.config.access(),
                    tls,
                    &self.host,
                    &self.options,
                    self.sockets.clone(),
                    self.is_local.clone(),
                )?;
                let dialer = dialer.noting(self.server_addresses.clone());
                Pool::new(dialer, &self.host, &self.options, self.counter.clone())
            }
        };
        let replaced = old.filter(|old| !Arc::ptr_eq(&old.pool, &pool));
        self.current.store(Some(Arc::new(Current {
            pool,
            credentials,
            loaded: Instant::now(),
            rejected: AtomicBool::new(false),
        })));
        if let Some(old) = replaced {
            old.pool.close();
        }
        Ok(())
    }

    /// Credentials that differ from those that the server has just rejected, if there are any.
    async fn renew_rejected(self: &Arc<Self>, rejected: &Arc<Current>) -> Option<Arc<Current>> {
        if !is_renewable(&self.config.access().user) {
            return None;
        }
        let is_current = |current: &Arc<Current>| Arc::ptr_eq(current, rejected);
        if self.current.load().as_ref().is_some_and(is_current) {
            if rejected.is_fresh() {
                return None;
            }
            rejected.rejected.store(true, Ordering::Relaxed);
        }
        let next = self.current().await.ok()?;
        let (new, old) = (&next.credentials, &rejected.credentials);
        let same = new.headers == old.headers && new.client_certificate == old.client_certificate;
        (!same).then_some(next)
    }

    /// Without a connection, the server may have rejected the certificate: the next request reads its file again.
    fn suspect_certificate(&self, current: &Current) {
        let from_file = self.config.access().user.client_certificate.is_some();
        if from_file && !current.is_fresh() {
            current.rejected.store(true, Ordering::Relaxed);
        }
    }

    fn failure(&self, error: &CredentialsError) -> TransportError {
        match error {
            CredentialsError::NoDescriptors => TransportError::NoDescriptors {
                server: self.config.server(),
            },
            error => self.unusable(error.to_string()),
        }
    }

    fn unusable(&self, reason: String) -> TransportError {
        TransportError::Credentials {
            server: self.config.server(),
            reason,
        }
    }

    fn ending(&self) -> TransportError {
        self.failure(&CredentialsError::Ending)
    }
}

/// Whether headers impersonate a user.
fn impersonates(headers: &HeaderMap) -> bool {
    headers.keys().any(Identity::is_told_by)
}

impl Drop for AuthenticatedClient {
    fn drop(&mut self) {
        if let Some(current) = self.current.load_full() {
            current.pool.close();
        }
    }
}
