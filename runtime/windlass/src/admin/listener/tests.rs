//! A listener with slow callers.

use super::*;
use axum::routing::get;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

/// Longer than any step of these tests.
const LONG: Duration = Duration::from_secs(20);

/// What the callers of `/slow` wait for, and how many have come to it.
#[derive(Clone, Default)]
struct Gate(Arc<Notify>, Arc<AtomicUsize>);

async fn serve(gate: Gate) -> (SocketAddr, JoinHandle<()>) {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let slow = move || async move {
        gate.1.fetch_add(1, Ordering::Relaxed);
        gate.0.notified().await;
        "slow"
    };
    let router = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/slow", get(slow));
    let listener = Listener::new(tcp, router);
    let address = listener.address().unwrap();
    (address, tokio::spawn(async move { listener.take().await }))
}

async fn begin(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// All bytes of the answer until the connection ends.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A closed connection may end in an error.
    let read = timeout(LONG, stream.read_to_end(&mut answer)).await;
    let _ = read.expect("the connection ends");
    String::from_utf8(answer).unwrap()
}

async fn ask(address: SocketAddr, path: &str) -> String {
    rest(begin(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await).await
}

#[tokio::test]
async fn requests_that_are_never_finished_silence_nobody() {
    let (address, _serving) = serve(Gate::default()).await;
    let mut open = Vec::new();
    for text in [
        "",
        "GET / HTTP/1.1\r\nHost: x\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
    ] {
        for _ in 0..CONNECTIONS {
            open.push(begin(address, text).await);
        }
        assert!(ask(address, "/").await.ends_with("here"));
    }
    // The oldest made room, and got no answer.
    assert_eq!(rest(open.remove(0)).await, "");
}

/// A connection from one of this machine's addresses.
async fn begin_from(peer: [u8; 4], address: SocketAddr, text: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((peer, 0).into()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn hundreds_of_idle_connections_of_one_peer_displace_no_connection_of_another() {
    let (address, _serving) = serve(Gate::default()).await;
    // It has begun before all others, and is the oldest of all for as long as they come.
    let mut slow = begin_from([127, 0, 0, 2], address, "GET / HTTP/1.1\r\n").await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(begin_from([127, 0, 0, 3], address, "").await);
    }
    assert!(ask(address, "/").await.ends_with("here"));
    slow.write_all(b"Host: x\r\n\r\n").await.unwrap();
    assert!(rest(slow).await.ends_with("here"));
    // The newest of the peer are still open.
    let mut newest = idle.pop().unwrap();
    newest
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(rest(newest).await.ends_with("here"));
}

#[tokio::test]
async fn a_peer_whose_requests_are_all_being_answered_delays_no_other_peer() {
    let gate = Gate::default();
    let (address, _serving) = serve(gate.clone()).await;
    let slow = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut answered = Vec::new();
    for _ in 0..PER_PEER {
        answered.push(begin_from([127, 0, 0, 2], address, slow).await);
    }
    let all_are_answered = async {
        while gate.1.load(Ordering::Relaxed) < PER_PEER {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, all_are_answered)
        .await
        .expect("the requests are read");
    let one_more = begin_from([127, 0, 0, 2], address, "").await;
    assert_eq!(rest(one_more).await, "");
    assert!(ask(address, "/").await.ends_with("here"));
    gate.0.notify_waiters();
}

#[tokio::test]
async fn an_answer_under_way_is_not_given_up_for_callers_that_have_not_asked() {
    let gate = Gate::default();
    let (address, _serving) = serve(gate.clone()).await;
    let slow = tokio::spawn(async move { ask(address, "/slow").await });
    let mut open = Vec::new();
    for _ in 0..2 * CONNECTIONS {
        open.push(begin(address, "GET / HTTP/1.1\r\n").await);
    }
    assert!(ask(address, "/").await.ends_with("here"));
    gate.0.notify_one();
    assert!(slow.await.unwrap().ends_with("slow"));
}

#[tokio::test]
async fn an_unfinished_head_has_a_time_limit_and_nothing_stays_idle() {
    let (address, _serving) = serve(Gate::default()).await;
    let silent = begin(address, "").await;
    let half = begin(address, "GET / HTTP/1.1\r\nHost:").await;
    let before = tokio::time::Instant::now();
    let answer = ask(address, "/").await;
    assert!(
        answer.to_lowercase().contains("connection: close"),
        "{answer}"
    );
    assert_eq!(rest(silent).await, "");
    rest(half).await;
    assert!(before.elapsed() >= HEAD - Duration::from_millis(100));
}

#[tokio::test]
async fn a_listener_closes_without_waiting_for_callers_that_have_not_asked() {
    let gate = Gate::default();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let within = gate.clone();
    let slow = move || async move {
        within.0.notified().await;
        "slow"
    };
    let listener = Listener::new(tcp, Router::new().route("/slow", get(slow)));
    let address = listener.address().unwrap();
    let connections = listener.connections.clone();
    let _silent = begin(address, "").await;
    let asked = begin(address, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let both_taken = async {
        while connections
            .open
            .lock()
            .by_age
            .values()
            .filter(|c| c.phase == Phase::Working)
            .count()
            == 0
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = listener.take() => {}
        () = both_taken => {}
    }
    gate.0.notify_one();
    listener.close().await;
    assert!(rest(asked).await.ends_with("slow"));
}
