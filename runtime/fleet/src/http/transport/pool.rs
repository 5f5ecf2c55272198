//! The connections to one server with one identity, and which of them carries the next request. Entry point: [`Pool::lease`].
//!
//! HTTP/2 connections are filled one after another: a further one is made once the others carry 80 % of the streams that their
//! peer allows, and watches never take the rest. Over HTTP/1.1 each request has a connection of its own while it lasts. Connections
//! that are made are driven by tasks on the host's runtime; they are closed after [`IDLE`] without a request.

mod lease;

pub(super) use lease::{Broken, Lease, LeaseError, Outgoing};

use super::content::Content;
use super::dial::{Dialed, Dialer, Streams};
use super::single::Single;
use super::sockets;
use super::tally::{Open, Protocol, Tally};
use super::{TransportError, TransportOptions};
use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long a connection may be unused before it is closed, and how often that is looked at.
const IDLE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_secs(30);
/// Most HTTP/1.1 connections that wait for a request.
const MAX_IDLE: usize = 32;
/// How long requests on a connection that is given up may still take.
const LINGER: Duration = Duration::from_secs(60);

/// What a connection is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Call,
    Watch,
}

/// The part of `limit` that is taken before more is made: four fifths.
pub(super) fn most(limit: usize) -> usize {
    (limit - limit / 5).max(1)
}

/// Whether a connection of which `taken` of `limit` streams are in use may carry one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// Yes.
    Plenty,
    /// If there is no other: the last part, which watches never take.
    Last,
    No,
}

fn room(limit: usize, taken: usize, wanted: Use) -> Room {
    if taken < most(limit) && taken < limit {
        Room::Plenty
    } else if taken < limit && wanted == Use::Call {
        Room::Last
    } else {
        Room::No
    }
}

/// Requests of one identity to one server.
pub(super) struct Pool {
    dialer: Arc<Dialer>,
    host: Handle,
    max_connections: usize,
    state: Mutex<State>,
    /// Told whenever a stream or a connection has become free.
    freed: Notify,
    /// The one dial, which all callers without a connection wait for.
    dialing: Single<Result<(), TransportError>>,
    /// Cancelled when the credentials are no longer used: nothing is leased any more, and watches end.
    over: CancellationToken,
    tally: Arc<Tally>,
}

#[derive(Default)]
struct State {
    /// What the last connection spoke; `None` before the first.
    protocol: Option<Protocol>,
    http2: Vec<Arc<Http2>>,
    /// HTTP/1.1 connections that wait for a request; the one used last at the end.
    idle: Vec<Idle>,
    /// HTTP/1.1 connections in use or being made, and those of them that carry watches.
    busy: usize,
    watches: usize,
}

struct Idle {
    send: http1::SendRequest<Content>,
    since: Instant,
}

struct Http2 {
    send: http2::SendRequest<Content>,
    streams: Streams,
    /// Streams that are leased. Grows only under the pool's lock.
    taken: AtomicUsize,
    /// When the last lease ended, or it was made.
    used: Mutex<Instant>,
}

/// What to do about a request.
enum Plan {
    Go(Sender),
    /// An HTTP/1.1 connection of its own, already counted as busy.
    DialAlone,
    DialTogether,
    Wait,
}

enum Sender {
    Http1(http1::SendRequest<Content>),
    Http2(Arc<Http2>),
}

impl Pool {
    pub(super) fn new(
        dialer: Dialer,
        host: &Handle,
        options: &TransportOptions,
        tally: Arc<Tally>,
    ) -> Arc<Self> {
        let pool = Arc::new(Self {
            dialer: Arc::new(dialer),
            host: host.clone(),
            max_connections: options.max_connections.max(1),
            state: Mutex::default(),
            freed: Notify::new(),
            dialing: Single::new(),
            over: CancellationToken::new(),
            tally,
        });
        let idle: Weak<Self> = Arc::downgrade(&pool);
        pool.dialer.sockets().watch_over(idle);
        pool
    }

    /// Cancelled when the pool is given up.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// What the last connection spoke; `None` before the first.
    pub(super) fn protocol(&self) -> Option<Protocol> {
        self.state.lock().protocol
    }

    /// Leases no more; watches end at once, and connections once what they carry has ended.
    pub(super) fn give_up(&self) {
        self.over.cancel();
        self.empty();
    }

    /// A place for one request, as soon as there is one. Waits without end when all connections are full: callers have deadlines.
    ///
    /// # Errors
    /// When no connection can be made, or the pool was given up.
    pub(super) async fn lease(self: &Arc<Self>, wanted: Use) -> Result<Lease, LeaseError> {
        let mut room = None;
        loop {
            if self.over.is_cancelled() {
                return Err(LeaseError::GivenUp);
            }
            let alone = wanted == Use::Watch && self.protocol() == Some(Protocol::Http1);
            if alone && room.is_none() {
                let sockets = self.dialer.sockets();
                room = Some(sockets.take_watch(self.dialer.server()).await?);
            }
            // Registered before the look: what is freed in between is not missed.
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let plan = self.plan(wanted);
            match plan {
                Plan::Go(sender) => return Ok(Lease::new(self, sender, wanted, true).with(room)),
                Plan::DialAlone => {
                    let mut busy = Busy::new(self, wanted);
                    match Box::pin(self.dialer.dial(wanted)).await? {
                        Dialed::Http1(send, driver) => {
                            self.drive(Protocol::Http1, driver, None);
                            busy.keep();
                            let lease = Lease::new(self, Sender::Http1(send), wanted, false);
                            return Ok(lease.with(room));
                        }
                        // The server has learned to speak HTTP/2.
                        http2 @ Dialed::Http2(..) => {
                            drop(busy);
                            self.admit(http2);
                        }
                    }
                }
                Plan::DialTogether => {
                    let dialing = self.dial_together();
                    tokio::select! {
                        outcome = dialing => outcome.unwrap_or_else(|| Err(self.ended()))?,
                        () = freed => {}
                    }
                }
                Plan::Wait => freed.await,
            }
        }
    }

    fn plan(self: &Arc<Self>, wanted: Use) -> Plan {
        let mut state = self.state.lock();
        match state.protocol {
            None => Plan::DialTogether,
            Some(Protocol::Http1) => self.plan_http1(&mut state, wanted),
            Some(Protocol::Http2) => {
                let plan = self.plan_http2(&mut state, wanted);
                drop(state);
                plan
            }
        }
    }

    fn plan_http1(&self, state: &mut State, wanted: Use) -> Plan {
        if wanted == Use::Watch && state.watches >= most(self.max_connections) {
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
        state.watches += usize::from(wanted == Use::Watch);
        ready.map_or(Plan::DialAlone, |idle| Plan::Go(Sender::Http1(idle.send)))
    }

    fn plan_http2(self: &Arc<Self>, state: &mut State, wanted: Use) -> Plan {
        state
            .http2
            .retain(|connection| !connection.send.is_closed());
        let mut last = None;
        for connection in &state.http2 {
            let limit = connection.streams.allowed();
            match room(limit, connection.taken.load(Ordering::SeqCst), wanted) {
                Room::Plenty => return Plan::Go(connection.take()),
                Room::Last => last = last.or(Some(connection)),
                Room::No => {}
            }
        }
        let may_dial = state.http2.len() < self.max_connections;
        match last {
            Some(connection) => {
                // Goes at once, while a further connection is made for those who come.
                let plan = Plan::Go(connection.take());
                if may_dial {
                    drop(self.dial_together());
                }
                plan
            }
            None if may_dial => Plan::DialTogether,
            None => Plan::Wait,
        }
    }

    fn dial_together(
        self: &Arc<Self>,
    ) -> impl Future<Output = Option<Result<(), TransportError>>> + use<> {
        let (dialer, pool) = (self.dialer.clone(), Arc::downgrade(self));
        self.dialing.join(&self.host, || async move {
            let dialed = dialer.dial(Use::Call).await?;
            if let Some(pool) = pool.upgrade() {
                pool.admit(dialed);
            }
            Ok(())
        })
    }

    /// Takes in a connection that nobody has leased yet.
    fn admit(self: &Arc<Self>, dialed: Dialed) {
        match dialed {
            Dialed::Http1(send, driver) => {
                self.drive(Protocol::Http1, driver, None);
                let mut state = self.state.lock();
                state.protocol = Some(Protocol::Http1);
                let since = Instant::now();
                state.idle.push(Idle { send, since });
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
        // Checked afterwards: the pool may have been given up and emptied meanwhile.
        if self.over.is_cancelled() {
            self.empty();
        }
        self.freed.notify_waiters();
    }

    /// Drops all connections; each closes after its last request has ended.
    fn empty(&self) {
        let mut state = self.state.lock();
        let dropped = (
            std::mem::take(&mut state.http2),
            std::mem::take(&mut state.idle),
        );
        drop(state);
        drop(dropped);
    }

    /// Runs a connection until it ends, is unused for long, or the pool is given up and what it carries has had time to end.
    fn drive(
        self: &Arc<Self>,
        protocol: Protocol,
        driver: impl Future<Output = Result<(), hyper::Error>> + Send + 'static,
        http2: Option<Weak<Http2>>,
    ) {
        let open = Open::new(&self.tally, protocol);
        let (pool, over) = (Arc::downgrade(self), self.over.clone());
        self.host.spawn(async move {
            let _open = open;
            tokio::pin!(driver);
            loop {
                tokio::select! {
                    _ = &mut driver => break,
                    () = over.cancelled() => {
                        let _ = tokio::time::timeout(LINGER, &mut driver).await;
                        break;
                    }
                    () = tokio::time::sleep(LOOK) => {
                        let Some(pool) = pool.upgrade() else { continue };
                        pool.close_unused(http2.as_ref());
                    }
                }
            }
            if let Some(pool) = pool.upgrade() {
                pool.freed.notify_waiters();
            }
        });
    }

    /// Drops the connections that were unused for [`IDLE`]; they then close.
    fn close_unused(&self, http2: Option<&Weak<Http2>>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let expired = |since: Instant| now.duration_since(since) >= IDLE;
        let mut dropped = Vec::new();
        state.idle.retain_mut(|idle| !expired(idle.since));
        if let Some(connection) = http2.and_then(Weak::upgrade)
            && connection.unused_since().is_some_and(expired)
        {
            dropped.extend(state.http2.extract_if(.., |c| Arc::ptr_eq(c, &connection)));
        }
        drop(state);
        drop(dropped);
    }

    /// Ends a lease. While somebody waits for a socket, a connection that is unused is closed.
    fn release(&self, connection: &Arc<Http2>) {
        connection.release();
        if connection.unused_since().is_none() || !self.dialer.sockets().are_wanted() {
            return;
        }
        let mut state = self.state.lock();
        let unused =
            |of: &mut Arc<Http2>| Arc::ptr_eq(of, connection) && of.unused_since().is_some();
        let dropped: Vec<_> = state.http2.extract_if(.., unused).collect();
        drop(state);
        drop(dropped);
    }

    /// Keeps an HTTP/1.1 connection whose answer was read to its end.
    fn put_back(&self, send: http1::SendRequest<Content>) {
        let mut state = self.state.lock();
        // Looked at under the lock, under which a pool that is given up is emptied.
        let unwanted = state.idle.len() >= MAX_IDLE || self.dialer.sockets().are_wanted();
        if self.over.is_cancelled() || unwanted {
            return;
        }
        let since = Instant::now();
        state.idle.push(Idle { send, since });
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

    /// `None` while it is used.
    fn unused_since(&self) -> Option<Instant> {
        let unused = self.taken.load(Ordering::SeqCst) == 0;
        unused.then(|| *self.used.lock())
    }
}

impl State {
    /// The HTTP/2 connection that is unused for longest, and since when.
    fn oldest_http2(&self) -> Option<(Instant, usize)> {
        let all = self.http2.iter().enumerate();
        all.filter_map(|(at, connection)| Some((connection.unused_since()?, at)))
            .min()
    }
}

impl sockets::Idle for Pool {
    fn since(&self) -> Option<Instant> {
        let state = self.state.lock();
        let http1 = state.idle.first().map(|idle| idle.since);
        let http2 = state.oldest_http2().map(|(since, _)| since);
        http1.into_iter().chain(http2).min()
    }

    fn close(&self) {
        let mut state = self.state.lock();
        // It speaks one of the two at a time.
        let http2 = state.oldest_http2().map(|(_, at)| state.http2.remove(at));
        let http1 = (http2.is_none() && !state.idle.is_empty()).then(|| state.idle.remove(0));
        drop(state);
        drop((http1, http2));
    }
}

/// One HTTP/1.1 connection that is counted as busy until this is dropped.
struct Busy {
    pool: Arc<Pool>,
    wanted: Use,
    kept: bool,
}

impl Busy {
    fn new(pool: &Arc<Pool>, wanted: Use) -> Self {
        Self {
            pool: pool.clone(),
            wanted,
            kept: false,
        }
    }

    /// The next caller counts it.
    fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if !self.kept {
            let mut state = self.pool.state.lock();
            state.busy -= 1;
            state.watches -= usize::from(self.wanted == Use::Watch);
            drop(state);
            self.pool.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_leave_the_last_fifth_of_a_connection_to_calls() {
        let of_hundred = |taken, wanted| room(100, taken, wanted);
        assert_eq!(of_hundred(79, Use::Watch), Room::Plenty);
        assert_eq!(of_hundred(80, Use::Watch), Room::No);
        assert_eq!(of_hundred(80, Use::Call), Room::Last);
        assert_eq!(of_hundred(100, Use::Call), Room::No);
    }

    #[test]
    fn a_peer_with_few_streams_gets_a_connection_for_each() {
        assert_eq!(room(1, 0, Use::Watch), Room::Plenty);
        assert_eq!(room(1, 1, Use::Call), Room::No);
        assert_eq!(room(0, 0, Use::Call), Room::No);
    }
}
