//! The connections to one server with one client certificate. Entry point: [`Pool::check_out`].
//!
//! Over HTTP/2 connections are filled one after another. A further one is made when the others carry four fifths of the streams that the
//! server allows, and watches never take the rest. Over HTTP/1.1 each request has a connection of its own. A task on the host's runtime
//! drives each connection, and closes it after [`IDLE`] without a request.
//!
//! Invariants:
//! * A connection carries at most as many requests as the server allows.
//! * `busy` and `watches` count every HTTP/1.1 connection that is checked out or being made, and no other ([`Busy`]).
//! * After [`Pool::close`] nothing is checked out, and no connection outlives its requests or [`LINGER`].
//! * Whenever a stream or a connection becomes free, `freed` wakes the waits. They look again and may find it taken: waits are not served in
//!   order.
//!
//! Cost: a checkout takes one lock and looks at the HTTP/2 connections in turn, of which there are few.
//!
//! Not guaranteed: a connection that was checked out may be closed already. `SendError` says whether the server can have seen the request.

mod capacity;
mod checkout;

pub(super) use capacity::four_fifths;
pub(super) use checkout::{Checkout, CheckoutError, Outgoing};

use super::connection_counts::{ConnectionCounter, Open, Protocol};
use super::dial::{Dialed, Dialer, Streams};
use super::request_body::RequestBody;
use super::single_flight::SingleFlight;
use super::sockets::HasIdle;
use super::{TransportError, TransportOptions};
use capacity::{Capacity, capacity};
use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long a connection may be idle before it is closed.
const IDLE: Duration = Duration::from_secs(90);
/// How often connections are checked for that.
const IDLE_CHECK: Duration = Duration::from_secs(30);
/// Most idle HTTP/1.1 connections.
const MAX_IDLE: usize = 32;
/// How long requests may go on after the pool was closed.
const LINGER: Duration = Duration::from_secs(60);

/// What a connection is checked out for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Call,
    Watch,
}

/// The connections to one server with one client certificate.
pub(super) struct Pool {
    dialer: Arc<Dialer>,
    host: Handle,
    max_connections: usize,
    state: Mutex<State>,
    /// Wakes the waits whenever a stream or a connection has become free.
    freed: Notify,
    /// The one dial for all checkouts that found no connection.
    dialing: SingleFlight<Result<(), TransportError>>,
    /// Cancelled when the pool is closed.
    closed: CancellationToken,
    counter: Arc<ConnectionCounter>,
}

#[derive(Default)]
struct State {
    /// The protocol of the last connection; `None` before the first.
    protocol: Option<Protocol>,
    http2: Vec<Arc<Http2>>,
    /// Idle HTTP/1.1 connections, the one used last at the end.
    idle: Vec<IdleHttp1>,
    /// HTTP/1.1 connections that are checked out or being made.
    busy: usize,
    /// Those of them that carry watches.
    watches: usize,
}

struct IdleHttp1 {
    send: http1::SendRequest<RequestBody>,
    since: Instant,
}

struct Http2 {
    send: http2::SendRequest<RequestBody>,
    streams: Streams,
    /// Streams that are checked out. Grows only under the pool's lock.
    taken: AtomicUsize,
    /// When the last checkout ended, or the connection was made.
    used: Mutex<Instant>,
}

/// The next step of a checkout.
enum Plan {
    Use(Sender),
    /// Dial an HTTP/1.1 connection for this checkout. It is counted as busy already.
    DialOwn,
    /// Join the dial that serves all checkouts.
    DialShared,
    Wait,
}

enum Sender {
    Http1(http1::SendRequest<RequestBody>),
    Http2(Arc<Http2>),
}

impl Pool {
    pub(super) fn new(
        dialer: Dialer,
        host: &Handle,
        options: &TransportOptions,
        counter: Arc<ConnectionCounter>,
    ) -> Arc<Self> {
        let pool = Arc::new(Self {
            dialer: Arc::new(dialer),
            host: host.clone(),
            max_connections: options.max_connections.max(1),
            state: Mutex::default(),
            freed: Notify::new(),
            dialing: SingleFlight::new(),
            closed: CancellationToken::new(),
            counter,
        });
        let idle: Weak<Self> = Arc::downgrade(&pool);
        pool.dialer.sockets().register(idle);
        pool
    }

    /// Cancelled when the pool is closed.
    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// The protocol of the last connection; `None` before the first.
    pub(super) fn protocol(&self) -> Option<Protocol> {
        self.state.lock().protocol
    }

    /// Checks out no more. Watches end at once, connections when their requests have ended.
    pub(super) fn close(&self) {
        self.closed.cancel();
        self.empty();
    }

    /// A connection for one request. Waits for ever while all connections are full: the caller has a deadline.
    ///
    /// # Errors
    /// No connection can be made, or the pool is closed.
    pub(super) async fn check_out(
        self: &Arc<Self>,
        purpose: Purpose,
    ) -> Result<Checkout, CheckoutError> {
        let mut watch_socket = None;
        loop {
            if self.closed.is_cancelled() {
                return Err(CheckoutError::Closed);
            }
            let is_http1 = self.protocol() == Some(Protocol::Http1);
            if is_http1 && purpose == Purpose::Watch && watch_socket.is_none() {
                let sockets = self.dialer.sockets();
                watch_socket = Some(sockets.take_watch(self.dialer.server()).await?);
            }
            // Registered before the plan, so that nothing that is freed in between is missed.
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let plan = self.plan(purpose);
            match plan {
                Plan::Use(sender) => {
                    return Ok(Checkout::new(self, sender, purpose, true).holding(watch_socket));
                }
                Plan::DialOwn => {
                    let mut busy = Busy::new(self, purpose);
                    match Box::pin(self.dialer.dial(purpose)).await? {
                        Dialed::Http1(send, driver) => {
                            self.drive(Protocol::Http1, driver, None);
                            busy.keep();
                            let sender = Sender::Http1(send);
                            let checkout = Checkout::new(self, sender, purpose, false);
                            return Ok(checkout.holding(watch_socket));
                        }
                        // The server speaks HTTP/2 now.
                        http2 @ Dialed::Http2(..) => {
                            drop(busy);
                            self.admit(http2);
                        }
                    }
                }
                Plan::DialShared => {
                    let dialing = self.dial_shared();
                    tokio::select! {
                        outcome = dialing => outcome.unwrap_or_else(|| Err(self.ended()))?,
                        () = freed => {}
                    }
                }
                Plan::Wait => freed.await,
            }
        }
    }

    fn plan(self: &Arc<Self>, purpose: Purpose) -> Plan {
        let mut state = self.state.lock();
        match state.protocol {
            None => Plan::DialShared,
            Some(Protocol::Http1) => self.plan_http1(&mut state, purpose),
            Some(Protocol::Http2) => self.plan_http2(&mut state, purpose),
        }
    }

    fn plan_http1(&self, state: &mut State, purpose: Purpose) -> Plan {
        if purpose == Purpose::Watch && state.watches >= four_fifths(self.max_connections) {
            return Plan::Wait;
        }
        let ready = loop {
            match state.idle.pop() {
                Some(idle) if idle.send.is_closed() || !idle.send.is_ready() => {}
                other => break other,
            }
        };
        if ready.is_none() && state.busy >= self.max_connections {
            return Plan::Wait;
        }
        state.busy += 1;
        state.watches += usize::from(purpose == Purpose::Watch);
        ready.map_or(Plan::DialOwn, |idle| Plan::Use(Sender::Http1(idle.send)))
    }

    fn plan_http2(self: &Arc<Self>, state: &mut State, purpose: Purpose) -> Plan {
        state
            .http2
            .retain(|connection| !connection.send.is_closed());
        let mut last = None;
        for connection in &state.http2 {
            let limit = connection.streams.allowed();
            match capacity(limit, connection.taken.load(Ordering::SeqCst), purpose) {
                Capacity::Free => return Plan::Use(connection.take()),
                Capacity::AlmostFull => last = last.or(Some(connection)),
                Capacity::Full => {}
            }
        }
        let may_dial = state.http2.len() < self.max_connections;
        match last {
            Some(connection) => {
                // A further connection is made for later requests, in the background.
                let plan = Plan::Use(connection.take());
                if may_dial {
                    drop(self.dial_shared());
                }
                plan
            }
            None if may_dial => Plan::DialShared,
            None => Plan::Wait,
        }
    }

    fn dial_shared(
        self: &Arc<Self>,
    ) -> impl Future<Output = Option<Result<(), TransportError>>> + use<> {
        let (dialer, pool) = (self.dialer.clone(), Arc::downgrade(self));
        self.dialing.join(&self.host, || async move {
            let dialed = dialer.dial(Purpose::Call).await?;
            if let Some(pool) = pool.upgrade() {
                pool.admit(dialed);
            }
            Ok(())
        })
    }

    /// Adds a connection that is not checked out.
    fn admit(self: &Arc<Self>, dialed: Dialed) {
        match dialed {
            Dialed::Http1(send, driver) => {
                self.drive(Protocol::Http1, driver, None);
                let mut state = self.state.lock();
                state.protocol = Some(Protocol::Http1);
                let since = Instant::now();
                state.idle.push(IdleHttp1 { send, since });
            }
            Dialed::Http2(send, streams, driver) => {
                let connection = Arc::new(Http2 {
                    send,
                    streams,
                    taken: AtomicUsize::new(0),
                    used: Mutex::new(Instant::now()),
                });
                self.drive(Protocol::Http2, driver, Some(Arc::downgrade(&connection)));
                let mut state = self.state.lock();
                state.protocol = Some(Protocol::Http2);
                state.http2.push(connection);
            }
        }
        // Checked after the connection was added: a close that came in between has not seen it.
        if self.closed.is_cancelled() {
            self.empty();
        }
        self.freed.notify_waiters();
    }

    /// Drops all connections. Each ends when its requests have ended.
    fn empty(&self) {
        let mut state = self.state.lock();
        let dropped = (
            std::mem::take(&mut state.http2),
            std::mem::take(&mut state.idle),
        );
        drop(state);
        drop(dropped);
    }

    /// Drives a connection until it ends. Closes it when it is idle for [`IDLE`], or [`LINGER`] after the pool is closed.
    fn drive(
        self: &Arc<Self>,
        protocol: Protocol,
        driver: impl Future<Output = Result<(), hyper::Error>> + Send + 'static,
        http2: Option<Weak<Http2>>,
    ) {
        let open = Open::new(&self.counter, protocol);
        let (pool, closed) = (Arc::downgrade(self), self.closed.clone());
        self.host.spawn(async move {
            let _open = open;
            tokio::pin!(driver);
            loop {
                tokio::select! {
                    _ = &mut driver => break,
                    () = closed.cancelled() => {
                        let _ = tokio::time::timeout(LINGER, &mut driver).await;
                        break;
                    }
                    () = tokio::time::sleep(IDLE_CHECK) => {
                        let Some(pool) = pool.upgrade() else { continue };
                        pool.close_idle(http2.as_ref());
                    }
                }
            }
            if let Some(pool) = pool.upgrade() {
                pool.freed.notify_waiters();
            }
        });
    }

    /// Drops the connections that have been idle for [`IDLE`].
    fn close_idle(&self, http2: Option<&Weak<Http2>>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let expired = |since: Instant| now.duration_since(since) >= IDLE;
        let mut dropped = Vec::new();
        state.idle.retain_mut(|idle| !expired(idle.since));
        if let Some(connection) = http2.and_then(Weak::upgrade)
            && connection.idle_since().is_some_and(expired)
        {
            dropped.extend(state.http2.extract_if(.., |c| Arc::ptr_eq(c, &connection)));
        }
        drop(state);
        drop(dropped);
    }

    /// Ends a checkout. Closes the connection if it is idle now and somebody waits for a socket.
    fn release(&self, connection: &Arc<Http2>) {
        connection.release();
        if connection.idle_since().is_none() || self.dialer.sockets().may_keep_idle() {
            return;
        }
        let mut state = self.state.lock();
        let is_idle =
            |one: &mut Arc<Http2>| Arc::ptr_eq(one, connection) && one.idle_since().is_some();
        let dropped: Vec<_> = state.http2.extract_if(.., is_idle).collect();
        drop(state);
        drop(dropped);
    }

    /// Keeps an HTTP/1.1 connection whose answer was read to its end.
    fn put_back(&self, send: http1::SendRequest<RequestBody>) {
        let mut state = self.state.lock();
        // Checked under the lock: `close` empties the pool under it, after the token.
        let keep = state.idle.len() < MAX_IDLE && self.dialer.sockets().may_keep_idle();
        if self.closed.is_cancelled() || !keep {
            return;
        }
        let since = Instant::now();
        state.idle.push(IdleHttp1 { send, since });
    }

    fn ended(&self) -> TransportError {
        TransportError::Unreachable {
            server: self.dialer.server().to_owned(),
            reason: "this process is ending".to_owned(),
        }
    }
}

impl Http2 {
    /// Called under the pool's lock.
    fn take(self: &Arc<Self>) -> Sender {
        self.taken.fetch_add(1, Ordering::SeqCst);
        Sender::Http2(self.clone())
    }

    fn release(&self) {
        *self.used.lock() = Instant::now();
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }

    /// `None` while the connection is in use.
    fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.taken.load(Ordering::SeqCst) == 0;
        is_idle.then(|| *self.used.lock())
    }
}

impl State {
    /// Since when the oldest idle HTTP/2 connection is idle, and its position.
    fn oldest_http2(&self) -> Option<(Instant, usize)> {
        let all = self.http2.iter().enumerate();
        all.filter_map(|(at, connection)| Some((connection.idle_since()?, at)))
            .min()
    }
}

impl HasIdle for Pool {
    fn oldest_idle(&self) -> Option<Instant> {
        let state = self.state.lock();
        let http1 = state.idle.first().map(|idle| idle.since);
        let http2 = state.oldest_http2().map(|(since, _)| since);
        http1.into_iter().chain(http2).min()
    }

    fn close_oldest_idle(&self) {
        let mut state = self.state.lock();
        // Almost always all connections of a pool speak one protocol.
        let http2 = state.oldest_http2().map(|(_, at)| state.http2.remove(at));
        let http1 = (http2.is_none() && !state.idle.is_empty()).then(|| state.idle.remove(0));
        drop(state);
        drop((http1, http2));
    }
}

/// Counts one HTTP/1.1 connection as busy until it is dropped.
struct Busy {
    pool: Arc<Pool>,
    purpose: Purpose,
    kept: bool,
}

impl Busy {
    fn new(pool: &Arc<Pool>, purpose: Purpose) -> Self {
        Self {
            pool: pool.clone(),
            purpose,
            kept: false,
        }
    }

    /// Leaves the connection counted: its checkout ends the count.
    fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if !self.kept {
            let mut state = self.pool.state.lock();
            state.busy -= 1;
            state.watches -= usize::from(self.purpose == Purpose::Watch);
            drop(state);
            self.pool.freed.notify_waiters();
        }
    }
}
