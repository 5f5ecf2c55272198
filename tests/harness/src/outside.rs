//! A server that is no API server. Entry point: [`Outside::start`].
//!
//! | path | answer |
//! |---|---|
//! | `/echo` | the request, as JSON |
//! | `/body` | the request's body, with its type |
//! | `/status/N` | status N |
//! | `/to?URL` | a redirect to the URL |
//! | `/large?N` | N bytes |
//! | `/slow` | a head, and then a byte every 100 ms |
//! | `/never` | none |
//! | `/kept/…` | what a PUT of that path had, until a DELETE |

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What requests have left.
#[derive(Default)]
struct Seen {
    heads: Mutex<Vec<String>>,
    /// Bodies by path.
    kept: Mutex<HashMap<String, String>>,
}

/// A running server. Dropping it closes it.
pub struct Outside {
    /// Its port, on the loopback address.
    pub port: u16,
    seen: Arc<Seen>,
    _stop: DropGuard,
}

impl Outside {
    /// Listens on a free port of the loopback address.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port")?;
        let port = listener.local_addr()?.port();
        let (stop, seen) = (CancellationToken::new(), Arc::<Seen>::default());
        let (ends, notes) = (stop.clone(), seen.clone());
        tokio::spawn(ends.run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, notes.clone()));
            }
        }));
        Ok(Self {
            port,
            seen,
            _stop: stop.drop_guard(),
        })
    }

    /// The heads of the requests so far.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.seen.heads.lock().clone()
    }

    /// Keeps a body at a path, as a PUT does.
    pub fn keep(&self, path: &str, body: &str) {
        let mut kept = self.seen.kept.lock();
        kept.insert(path.to_owned(), body.to_owned());
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Seen>) {
    while let Ok(Some((head, body))) = request(&mut stream).await {
        seen.heads.lock().push(head.clone());
        if answer(&mut stream, &head, &body, &seen).await.is_err() {
            return;
        }
    }
}

/// The next request of a connection.
async fn request(stream: &mut TcpStream) -> Result<Option<(String, String)>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        bytes.extend(byte);
    }
    let head = String::from_utf8(bytes)?;
    let length = header(&head, "content-length").and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok(Some((head, String::from_utf8(body)?)))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    headers
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

async fn answer(stream: &mut TcpStream, head: &str, body: &str, seen: &Seen) -> Result<()> {
    let mut line = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (
        line.next().unwrap_or_default(),
        line.next().unwrap_or_default(),
    );
    // A proxy passes on the whole URL.
    let target = match target.strip_prefix("http://") {
        Some(url) => url.find('/').map_or("/", |path| &url[path..]),
        None => target,
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let plain = |status: &str, more: &str, body: &str| {
        format!(
            "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n{more}\r\n{body}",
            body.len()
        )
    };
    let text = match path {
        "/echo" => {
            let headers = head
                .lines()
                .skip(1)
                .filter_map(|line| line.split_once(": "));
            let headers: serde_json::Map<String, Value> = headers
                .map(|(name, value)| (name.to_lowercase(), value.into()))
                .collect();
            let asked =
                json!({"method": method, "target": target, "headers": headers, "body": body});
            plain(
                "200",
                "content-type: application/json\r\n",
                &asked.to_string(),
            )
        }
        "/body" => {
            let content = header(head, "content-type").unwrap_or("text/plain");
            plain("200", &format!("content-type: {content}\r\n"), body)
        }
        "/to" => plain("302", &format!("location: {query}\r\n"), ""),
        "/large" => plain("200", "", &"x".repeat(query.parse()?)),
        "/slow" => {
            stream
                .write_all(b"HTTP/1.1 200 x\r\ncontent-length: 1000\r\n\r\n")
                .await?;
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            loop {
                ticks.tick().await;
                stream.write_all(b"x").await?;
            }
        }
        "/never" => std::future::pending().await,
        path if path.starts_with("/kept/") => {
            let mut kept = seen.kept.lock();
            let there = match method {
                "PUT" => kept
                    .insert(path.to_owned(), body.to_owned())
                    .or(Some(String::new())),
                "DELETE" => kept.remove(path),
                _ => kept.get(path).cloned(),
            };
            there.map_or_else(|| plain("404", "", ""), |body| plain("200", "", &body))
        }
        path => {
            let status = path.strip_prefix("/status/").unwrap_or("404");
            plain(status, "retry-after: 7\r\n", "as asked")
        }
    };
    Ok(stream.write_all(text.as_bytes()).await?)
}
