//! Takes connections to one admin address, and answers one request on each. Entry point: [`Listener`].
//!
//! Whoever reaches the port may hold connections open, so each has little time, and there are few. A request's head has [`HEAD`], the
//! whole exchange [`EXCHANGE`], and a connection ends with its answer: there are no idle ones. Once there are [`CONNECTIONS`], a
//! further one takes the place of the oldest that waits for its caller. Requests that are being worked on never lose their place, so
//! where all are, further connections wait.
//!
//! An operator asks most when things are wrong. A few descriptors are kept in reserve: when none is left for a connection, one of
//! these is given up for it, and taken back once the connection has ended.

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
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Descriptors in reserve.
const RESERVE: usize = 4;
/// Connections at once: more than probes, scrapers and people need together.
const CONNECTIONS: usize = 64;
/// Time for a request's head, which every caller sends at once.
const HEAD: Duration = Duration::from_secs(5);
/// Time for a whole exchange: a large answer over a slow network takes a few seconds, and the program's own client waits for 10.
const EXCHANGE: Duration = Duration::from_secs(30);
/// Time that answers under way have once the process ends.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);
/// Largest body of a request, in bytes.
const MAX_BODY: usize = 64 << 10;
/// Largest head of a request, in bytes: a key in a query, percent-encoded, has a tenth of that.
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

    /// Takes connections until the future is dropped. Those that were taken are answered whatever becomes of it.
    pub(super) async fn take(&self) {
        loop {
            match self.tcp.accept().await {
                Ok((stream, _)) => {
                    while !self.connections.make_room() {
                        self.connections.settled.notified().await;
                    }
                    self.answer(stream);
                }
                Err(error) if is_exhausted(&error) && self.reserve.give_up_one() => {}
                Err(error) => {
                    tracing::debug!(%error, "a connection to the admin endpoints was not taken");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Takes no more connections, and waits for the answers that are under way, but not for callers that have not asked yet.
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

    fn answer(&self, stream: TcpStream) {
        let (entry, ended) = Entry::new(&self.connections, &self.reserve);
        let router = TowerToHyperService::new(self.router.clone());
        tokio::spawn(async move {
            // Dropped after the stream, whose descriptor is then there for the reserve.
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

/// Reads a request to its end, and only then counts its connection as worked on.
async fn respond(
    entry: &Entry,
    router: &TowerToHyperService<Router>,
    request: Request<Incoming>,
) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
        let message =
            format!("the request's body is broken off, or larger than {MAX_BODY} bytes\n");
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

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its caller has not asked to the end.
    Asking,
    /// We are to answer.
    Working,
    /// Its caller reads.
    Answering,
}

/// The connections of a listener.
#[derive(Debug, Default)]
struct Connections {
    open: Mutex<Open>,
    /// Told when one ends, or waits for its caller.
    settled: Notify,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    /// The oldest first.
    by_age: BTreeMap<u64, (Phase, CancellationToken)>,
}

impl Connections {
    fn len(&self) -> usize {
        self.open.lock().by_age.len()
    }

    /// Ends the oldest connection that waits for its caller, where there are as many as there may be. False where all are worked on.
    fn make_room(&self) -> bool {
        let mut open = self.open.lock();
        if open.by_age.len() < CONNECTIONS {
            return true;
        }
        let mut waiting = open.by_age.iter();
        let oldest = waiting.find(|(_, (phase, _))| *phase != Phase::Working);
        let oldest = oldest.map(|(id, _)| *id);
        let Some((_, end)) = oldest.and_then(|id| open.by_age.remove(&id)) else {
            return false;
        };
        end.cancel();
        true
    }

    fn end_unasked(&self) {
        let open = self.open.lock();
        let unasked = open.by_age.values();
        unasked
            .filter(|(phase, _)| *phase == Phase::Asking)
            .for_each(|(_, end)| end.cancel());
    }
}

/// A connection's place among those of its listener. Dropping it frees the place.
struct Entry {
    id: u64,
    connections: Arc<Connections>,
    reserve: Arc<Reserve>,
}

impl Entry {
    fn new(connections: &Arc<Connections>, reserve: &Arc<Reserve>) -> (Self, CancellationToken) {
        let end = CancellationToken::new();
        let mut open = connections.open.lock();
        open.last += 1;
        let id = open.last;
        open.by_age.insert(id, (Phase::Asking, end.clone()));
        drop(open);
        let entry = Self {
            id,
            connections: connections.clone(),
            reserve: reserve.clone(),
        };
        (entry, end)
    }

    fn set(&self, now: Phase) {
        if let Some((phase, _)) = self.connections.open.lock().by_age.get_mut(&self.id) {
            *phase = now;
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

/// Descriptors that are there to be given up.
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
