//! The way to one server as one identity, shared by the clusters that have both in common. Entry point: [`Http::send`].
//!
//! Credentials are renewed here: a little before they end, when a file that holds them may have changed, and when the server
//! answers 401. A new token is used by the next request; a new client certificate gives up the connections made with the old one.

use super::body::Body;
use super::credentials::{Prepared, Unprepared, is_renewable, prepare};
use super::dial::Dialer;
use super::pool::{Broken, LeaseError, Outgoing, Pool, Use};
use super::single::Single;
use super::sockets::Sockets;
use super::tally::{ConnectionCounts, Protocol, Tally};
use super::{TransportError, TransportOptions};
use crate::grant::Identity;
use crate::http::config::ClusterConfig;
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

/// How long a failure to prepare credentials answers for everybody: a plugin that fails is not run for each call.
const FAILED_FOR: Duration = Duration::from_secs(2);
/// How old credentials are at least before they are renewed.
const FRESH: Duration = Duration::from_millis(500);
/// How often a request is sent again that certainly was not seen, or that changes nothing and met a connection that was closed.
const AGAIN: usize = 2;

/// The way to one server as one identity.
pub(super) struct Http {
    config: ClusterConfig,
    host: Handle,
    options: TransportOptions,
    /// Permits for credential plugins, of all servers together.
    plugins: Arc<Semaphore>,
    sockets: Sockets,
    /// Whether the local cluster uses this.
    vital: Arc<AtomicBool>,
    tally: Arc<Tally>,
    /// Clusters that use this.
    pub(super) users: AtomicUsize,
    /// Empty until the first request.
    session: ArcSwapOption<Session>,
    preparing: Single<Result<(), TransportError>>,
    failed: Mutex<Option<(Instant, TransportError)>>,
}

/// Credentials, and the connections that were made with them.
struct Session {
    pool: Arc<Pool>,
    headers: HeaderMap,
    identity: [u8; 32],
    made: Instant,
    renew_at: Option<SystemTime>,
    valid_until: Option<SystemTime>,
    /// Set when a server refuses them.
    refused: AtomicBool,
}

impl Session {
    fn is_due(&self, now: SystemTime) -> bool {
        // What has ended when it comes, by some clock, is not asked for anew for each request.
        let ended = || self.renew_at.is_some_and(|at| now >= at);
        self.refused.load(Ordering::Relaxed) || (self.made.elapsed() >= FRESH && ended())
    }

    /// Whether it may still be used if nothing newer is available.
    fn is_valid(&self, now: SystemTime) -> bool {
        self.valid_until.is_none_or(|end| now < end)
    }
}

impl Http {
    pub(super) fn new(
        config: ClusterConfig,
        host: &Handle,
        options: &TransportOptions,
        plugins: Arc<Semaphore>,
        sockets: Sockets,
    ) -> Arc<Self> {
        Arc::new(Self {
            config,
            host: host.clone(),
            options: options.clone(),
            plugins,
            sockets,
            vital: Arc::default(),
            tally: Arc::default(),
            users: AtomicUsize::new(0),
            session: ArcSwapOption::empty(),
            preparing: Single::new(),
            failed: Mutex::default(),
        })
    }

    /// From now on the local cluster uses this: its calls find a socket whatever other clusters have.
    pub(super) fn becomes_vital(&self) {
        self.vital.store(true, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> ConnectionCounts {
        self.tally.now(self.users.load(Ordering::Relaxed))
    }

    /// Whether the connections find out by themselves that their peer is dead.
    pub(super) fn pings(&self) -> bool {
        let session = self.session.load();
        let protocol = session.as_ref().and_then(|session| session.pool.protocol());
        protocol == Some(Protocol::Http2)
    }

    /// When the credentials end, as far as they say.
    pub(super) fn valid_until(&self) -> Option<SystemTime> {
        self.session.load().as_ref()?.valid_until
    }

    /// Sends a request and returns once the head of its answer is there. The body of a watch ends with `over` too.
    ///
    /// # Errors
    /// No credentials, or no answer. Waits without end for a silent server: callers have deadlines.
    pub(super) async fn send(
        self: &Arc<Self>,
        wanted: Use,
        outgoing: Outgoing,
        over: &CancellationToken,
    ) -> Result<Response<Body>, TransportError> {
        let mut session = self.session().await?;
        let mut renewed = false;
        loop {
            let response = match self.exchange(&session, wanted, &outgoing, over).await {
                Ok(response) => response,
                // Its credentials were renewed meanwhile; the next is given up only as late as it is renewed itself.
                Err(LeaseError::GivenUp) => {
                    session = self.session().await?;
                    continue;
                }
                Err(LeaseError::Transport(error)) => {
                    self.suspect_certificate(&session);
                    return Err(error);
                }
            };
            if response.status() != StatusCode::UNAUTHORIZED || renewed {
                return Ok(response);
            }
            renewed = true;
            match self.renewed(&session).await {
                Some(next) => session = next,
                None => return Ok(response),
            }
        }
    }

    async fn exchange(
        &self,
        session: &Session,
        wanted: Use,
        outgoing: &Outgoing,
        over: &CancellationToken,
    ) -> Result<Response<Body>, LeaseError> {
        let mut outgoing = outgoing.clone();
        if names_somebody(&session.headers) && names_somebody(&outgoing.headers) {
            return Err(LeaseError::Transport(self.unusable(
                "they impersonate a user already, and so no call can be made in the name of another: take `as` out of the kubeconfig"
                    .to_owned(),
            )));
        }
        for (name, value) in &session.headers {
            outgoing.headers.append(name, value.clone());
        }
        let mut again = AGAIN;
        loop {
            let mut lease = session.pool.lease(wanted).await?;
            let broken = match lease.send(outgoing.clone()).await {
                Ok(response) => {
                    let ends = match wanted {
                        Use::Call => Vec::new(),
                        Use::Watch => vec![over.clone(), session.pool.over().clone()],
                    };
                    return Ok(response.map(|body: Incoming| Body::new(body, lease, ends)));
                }
                Err(broken) => broken,
            };
            let harmless = lease.is_reused() && outgoing.method == Method::GET;
            if again == 0 || !(broken.unsent || harmless) {
                return Err(LeaseError::Transport(self.broken(broken)));
            }
            again -= 1;
        }
    }

    fn broken(&self, broken: Broken) -> TransportError {
        TransportError::Unreachable {
            server: self.config.server(),
            reason: broken.reason,
        }
    }

    /// Credentials to use now.
    async fn session(self: &Arc<Self>) -> Result<Arc<Session>, TransportError> {
        let there = self.session.load_full();
        let now = SystemTime::now();
        if let Some(session) = there.as_ref().filter(|session| !session.is_due(now)) {
            return Ok(session.clone());
        }
        let outcome = match self.failed_lately() {
            Some(error) => Err(error),
            None => self.prepare().await,
        };
        match (outcome, there) {
            (Ok(()), _) => self.session.load_full().ok_or_else(|| self.unprepared()),
            (Err(_), Some(old)) if old.is_valid(now) => Ok(old),
            (Err(error), _) => Err(error),
        }
    }

    fn failed_lately(&self) -> Option<TransportError> {
        let failed = self.failed.lock();
        let (at, error) = failed.as_ref()?;
        (at.elapsed() < FAILED_FOR).then(|| error.clone())
    }

    async fn prepare(self: &Arc<Self>) -> Result<(), TransportError> {
        let this = Arc::downgrade(self);
        let (config, plugins) = (self.config.clone(), self.plugins.clone());
        let deadline = self.options.plugin_timeout;
        let outcome = self.preparing.join(&self.host, || async move {
            let prepared = prepare(config.access(), deadline, &plugins).await;
            let Some(http) = this.upgrade() else {
                return Ok(());
            };
            let installed = prepared.and_then(|prepared| Ok(http.install(prepared)?));
            let outcome = installed.map_err(|unprepared| match unprepared {
                Unprepared::Unusable(reason) => http.unusable(reason),
                Unprepared::NoDescriptors => TransportError::NoDescriptors {
                    server: http.config.server(),
                },
            });
            *http.failed.lock() = outcome
                .as_ref()
                .err()
                .map(|error| (Instant::now(), error.clone()));
            outcome
        });
        outcome.await.unwrap_or_else(|| Err(self.unprepared()))
    }

    fn install(&self, prepared: Prepared) -> Result<(), String> {
        let old = self.session.load_full();
        let kept = old.as_ref().filter(|old| old.identity == prepared.identity);
        let pool = match kept {
            Some(old) => old.pool.clone(),
            None => {
                let access = self.config.access();
                let sockets = self.sockets.clone();
                let dialer = Dialer::new(
                    access,
                    prepared.tls,
                    &self.host,
                    &self.options,
                    sockets,
                    self.vital.clone(),
                )?;
                Pool::new(dialer, &self.host, &self.options, self.tally.clone())
            }
        };
        let replaced = old.filter(|old| !Arc::ptr_eq(&old.pool, &pool));
        self.session.store(Some(Arc::new(Session {
            pool,
            headers: prepared.headers,
            identity: prepared.identity,
            made: Instant::now(),
            renew_at: prepared.renew_at,
            valid_until: prepared.valid_until,
            refused: AtomicBool::new(false),
        })));
        if let Some(old) = replaced {
            old.pool.give_up();
        }
        Ok(())
    }

    /// Newer credentials than those that a server has just refused, if there are such.
    async fn renewed(self: &Arc<Self>, refused: &Arc<Session>) -> Option<Arc<Session>> {
        if !is_renewable(&self.config.access().user) {
            return None;
        }
        let is_current = |session: &Arc<Session>| Arc::ptr_eq(session, refused);
        if self.session.load().as_ref().is_some_and(is_current) {
            if refused.made.elapsed() < FRESH {
                return None;
            }
            refused.refused.store(true, Ordering::Relaxed);
        }
        let next = self.session().await.ok()?;
        let same = next.headers == refused.headers && next.identity == refused.identity;
        (!same).then_some(next)
    }

    /// A server that cannot be connected to may have refused a certificate: its file is read again for the next request.
    fn suspect_certificate(&self, session: &Session) {
        let from_file = self.config.access().user.client_certificate.is_some();
        if from_file && session.made.elapsed() >= FRESH {
            session.refused.store(true, Ordering::Relaxed);
        }
    }

    fn unusable(&self, reason: String) -> TransportError {
        TransportError::Credentials {
            server: self.config.server(),
            reason,
        }
    }

    fn unprepared(&self) -> TransportError {
        self.unusable("they could not be prepared: this process is ending".to_owned())
    }
}

/// Whether headers tell a server to take the caller for somebody else. Two such would be one, made of both.
fn names_somebody(headers: &HeaderMap) -> bool {
    headers.keys().any(Identity::is_told_by)
}

impl Drop for Http {
    fn drop(&mut self) {
        if let Some(session) = self.session.load_full() {
            session.pool.give_up();
        }
    }
}
