//! Accepts connections to one admin address, and answers one request on each. Entry point: [`Listener`].
//!
//! A caller may hold connections open, so time and number are limited. A request's head has [`HEAD`], the
//! whole exchange [`EXCHANGE`], and a connection ends after its answer: there are no idle connections. Once a peer has [`PER_PEER`], or all
//! peers together have [`CONNECTIONS`], a new connection closes the oldest one that waits for its caller: of this peer, or of any. So no
//! peer's connections displace those of another one while there is room for both. A connection whose request is being answered is never
//! closed. If all are, further connections of the peer are closed at once, and those of other peers wait.
//!
//! Operators need the endpoints most when the process is in trouble. So a few descriptors are reserved: if no descriptor is left for
//! a connection, a reserved one is closed for it, and reopened after the connection has ended.

use crate::status::process::is_exhausted;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The number of reserved descriptors.
const RESERVE: usize = 4;
/// Most connections at the same time: more than probes, scrapers and people need together.
const CONNECTIONS: usize = 64;
/// Most connections of one peer at the same time. Behind a proxy, such as the API server's, all callers are one peer.
const PER_PEER: usize = 32;
/// Time for a request's head, which every caller sends at once.
const HEAD: Duration = Duration::from_secs(5);
/// Time for a whole exchange: a large answer over a slow network takes a few seconds, and the program's own client waits for 10.
const EXCHANGE: Duration = Duration::from_secs(30);
/// Time for unfinished answers when the process ends.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);
/// Largest body of a request, in bytes.
const MAX_BODY: usize = 64 << 10;
/// Largest head of a request, in bytes: ten times the longest percent-encoded key in a query.
const MAX_HEAD: usize = 32 << 10;

/// One admin address.
pub(super) struct Listener {
    tcp: TcpListener,
    router: Router,
    reserve: Arc<Reserve>,
    connections: Arc<Connections>,
}

impl Listener {
    pub(super) fn new(tcp: TcpListener, router: Router) -> Self {
        let reserve = Arc::new(Reserve::default());
        reserve.refill();
        Self {
            tcp,
            router,
            reserve,
            connections: Arc::default(),
        }
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Accepts connections until the future is dropped. Accepted connections are still answered after that.
    pub(super) async fn take(&self) {
        loop {
            match self.tcp.accept().await {
                Ok((stream, peer)) => {
                    // The same machine over IPv4 and over IPv6's form of IPv4 is one peer.
                    let peer = peer.ip().to_canonical();
                    if self.connections.room_for(peer).await {
                        self.answer(stream, peer);
                    }
                }
                Err(error) if is_exhausted(&error) && self.reserve.give_up_one() => {}
                Err(error) => {
                    tracing::debug!(%error, "a connection to the admin endpoints was not accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Accepts no more connections, and waits for unfinished answers, but not for callers that have not sent a request yet.
    pub(super) async fn close(self) {
        drop(self.tcp);
        self.connections.end_unasked();
        let answered = async {
            while self.connections.len() > 0 {
                self.connections.settled.notified().await;
            }
        };
        if timeout(LAST_WORDS, answered).await.is_err() {
            tracing::debug!("answers of the admin endpoints were cut off");
        }
    }

    fn answer(&self, stream: TcpStream, peer: IpAddr) {
        let (entry, ended) = Entry::new(&self.connections, &self.reserve, peer);
        let router = TowerToHyperService::new(self.router.clone());
        tokio::spawn(async move {
            // Dropped after the stream, so that the reserve can take its descriptor.
            let entry = Arc::new(entry);
            let serving = entry.clone();
            let service = service_fn(move |request| {
                let (serving, router) = (serving.clone(), router.clone());
                async move { Ok::<_, Infallible>(respond(&serving, &router, request).await) }
            });
            let exchange = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(MAX_HEAD)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let exchange = timeout(EXCHANGE, exchange);
            if let Some(Ok(Err(error))) = ended.run_until_cancelled(exchange).await {
                tracing::debug!(%error, "a connection to the admin endpoints ended early");
            }
            drop(entry);
        });
    }
}

/// Reads a request to its end. Only then the connection counts as being answered.
async fn respond(
    entry: &Entry,
    router: &TowerToHyperService<Router>,
    request: Request<Incoming>,
) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
        let message =
            format!("the request's body is incomplete, or larger than {MAX_BODY} bytes\n");
        return (StatusCode::PAYLOAD_TOO_LARGE, message).into_response();
    };
    let request = Request::from_parts(head, Body::from(body.to_bytes()));
    entry.set(Phase::Working);
    let answer = router.call(request).await;
    entry.set(Phase::Answering);
    match answer {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The request is incomplete.
    Asking,
    /// The request is being answered.
    Working,
    /// The caller reads the answer.
    Answering,
}

/// The connections of a listener.
#[derive(Debug, Default)]
struct Connections {
    open: Mutex<Open>,
    /// Notified when a connection ends, or waits for its caller.
    settled: Notify,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    /// The oldest first.
    by_age: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    phase: Phase,
    end: CancellationToken,
}

impl Open {
    /// Ends the oldest connection that waits for its caller, of a peer or of any. False if there is none.
    fn end_oldest(&mut self, peer: Option<IpAddr>) -> bool {
        let mut waiting = self.by_age.iter().filter(|(_, connection)| {
            connection.phase != Phase::Working && peer.is_none_or(|peer| connection.peer == peer)
        });
        let oldest = waiting.next().map(|(id, _)| *id);
        let Some(connection) = oldest.and_then(|id| self.by_age.remove(&id)) else {
            return false;
        };
        connection.end.cancel();
        true
    }
}

/// Whether there is room for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Free,
    /// All connections are being answered.
    Full,
    /// All connections of the peer are being answered, and it has as many as it may have.
    FullOfPeer,
}

impl Connections {
    fn len(&self) -> usize {
        self.open.lock().by_age.len()
    }

    /// Waits for room for a connection of a peer. False: the peer has too many.
    async fn room_for(&self, peer: IpAddr) -> bool {
        loop {
            match self.make_room(peer) {
                Room::Free => return true,
                Room::FullOfPeer => return false,
                Room::Full => self.settled.notified().await,
            }
        }
    }

    /// If there is no room, ends the oldest connection that waits for its caller.
    fn make_room(&self, peer: IpAddr) -> Room {
        let mut open = self.open.lock();
        let of_peer = open.by_age.values().filter(|other| other.peer == peer);
        if of_peer.count() >= PER_PEER {
            return if open.end_oldest(Some(peer)) {
                Room::Free
            } else {
                Room::FullOfPeer
            };
        }
        if open.by_age.len() < CONNECTIONS || open.end_oldest(None) {
            Room::Free
        } else {
            Room::Full
        }
    }

    fn end_unasked(&self) {
        let open = self.open.lock();
        let unasked = open.by_age.values();
        unasked
            .filter(|connection| connection.phase == Phase::Asking)
            .for_each(|connection| connection.end.cancel());
    }
}

/// A connection's place among those of its listener. Dropping it frees the place.
struct Entry {
    id: u64,
    connections: Arc<Connections>,
    reserve: Arc<Reserve>,
}

impl Entry {
    fn new(
        connections: &Arc<Connections>,
        reserve: &Arc<Reserve>,
        peer: IpAddr,
    ) -> (Self, CancellationToken) {
        let end = CancellationToken::new();
        let mut open = connections.open.lock();
        open.last += 1;
        let id = open.last;
        let connection = Connection {
            peer,
            phase: Phase::Asking,
            end: end.clone(),
        };
        open.by_age.insert(id, connection);
        drop(open);
        let entry = Self {
            id,
            connections: connections.clone(),
            reserve: reserve.clone(),
        };
        (entry, end)
    }

    fn set(&self, now: Phase) {
        if let Some(connection) = self.connections.open.lock().by_age.get_mut(&self.id) {
            connection.phase = now;
        }
        self.connections.settled.notify_one();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.reserve.refill();
        self.connections.open.lock().by_age.remove(&self.id);
        self.connections.settled.notify_one();
    }
}

/// The open reserved descriptors.
#[derive(Default)]
struct Reserve {
    /// At most [`RESERVE`].
    held: Mutex<Vec<File>>,
}

impl Reserve {
    fn give_up_one(&self) -> bool {
        self.held.lock().pop().is_some()
    }

    fn refill(&self) {
        let mut held = self.held.lock();
        while held.len() < RESERVE {
            match File::open("/dev/null") {
                Ok(file) => held.push(file),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
