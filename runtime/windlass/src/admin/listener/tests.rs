//! A listener with slow callers.

use super::*;
use axum::routing::get;
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

/// Longer than any step of these tests.
const LONG: Duration = Duration::from_secs(20);

/// What the caller of `/slow` waits for.
#[derive(Clone, Default)]
struct Gate(Arc<Notify>);

async fn serve(gate: Gate) -> (SocketAddr, JoinHandle<()>) {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let slow = move || async move {
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
            .filter(|c| c.0 == Phase::Working)
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
