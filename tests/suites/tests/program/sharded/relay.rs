//! An API server's way to pods: passes requests for a pod's port on to a process, and all others to the API server. Entry point: [`Relay::start`].

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_harness::http::Http;

/// Longest head of a request.
const HEAD: usize = 16 << 10;

/// It answers one request a connection. Dropping it ends it.
pub(super) struct Relay {
    pub(super) address: String,
    _stop: DropGuard,
}

impl Relay {
    /// `pods`: the admin address of each.
    pub(super) async fn start(server: &str, pods: BTreeMap<String, String>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (stop, ways) = (
            CancellationToken::new(),
            Arc::new((server.to_owned(), pods)),
        );
        let stopped = stop.clone();
        tokio::spawn(stopped.run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                let ways = ways.clone();
                // A caller that goes away, and a process that is dead, are no errors of the test.
                tokio::spawn(async move { drop(pass(client, &ways.0, &ways.1).await) });
            }
        }));
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }
}

async fn pass(mut client: TcpStream, server: &str, pods: &BTreeMap<String, String>) -> Result<()> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(end) = read.windows(4).position(|part| part == b"\r\n\r\n") {
            break end;
        }
        anyhow::ensure!(read.len() < HEAD && client.read_buf(&mut read).await? > 0);
    };
    let head = String::from_utf8(read[..end].to_vec())?;
    let (first, headers) = head.split_once("\r\n").context("a first line")?;
    let pod = first
        .split_once("/pods/")
        .and_then(|(before, rest)| Some((before, rest.split_once("/proxy")?)));
    let (to, head) = match pod {
        None => (server, format!("{first}\r\n{headers}")),
        Some((before, (named, rest))) => {
            let name = named.split([':', '%']).next().unwrap_or_default();
            let to = pods.get(name).context("a pod")?;
            let http = Http {
                address: to.clone(),
            };
            let method = before.split(' ').next().unwrap_or_default();
            let kept = headers.lines().filter(|line| {
                let line = line.to_lowercase();
                !["x-windlass-token:", "authorization:", "host:"]
                    .iter()
                    .any(|own| line.starts_with(own))
            });
            let kept: Vec<&str> = kept.collect();
            let (kept, token) = (kept.join("\r\n"), http.authorization());
            let head = format!("{method} {rest}\r\nHost: {to}\r\n{token}{kept}");
            (to.as_str(), head)
        }
    };
    let mut server = TcpStream::connect(to).await?;
    let head = format!("{head}\r\nConnection: close\r\n\r\n");
    server.write_all(head.as_bytes()).await?;
    server.write_all(&read[end + 4..]).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
