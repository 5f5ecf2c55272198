//! A TCP proxy that fails as networks do. Entry point: [`Proxy::start`].
//!
//! It forwards bytes between a client and a server and does not read them, so it works for TLS, HTTP/2 and real servers.
//! For servers with wrong answers there is the in-memory server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, interval_at};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The largest number of bytes that are forwarded at once.
const PIECE: usize = 16 * 1024;
/// The pieces per second of a throttled connection, if it has at least as many bytes per second.
const PIECES: u32 = 10;

/// The behaviour of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Forwards everything.
    Well,
    /// Forwards nothing, for new connections too, and breaks no connection.
    Frozen,
    /// Forwards this number of bytes per second, direction and connection, from the second piece on; 0 counts as 1.
    Slow(u32),
    /// Closes new connections at once; open ones continue.
    Refusing,
}

/// A running proxy. Dropping it closes every connection.
pub struct Proxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
    /// The token of the open connections, cancelled with the kind of their end. Each break replaces it.
    breaks: watch::Sender<Break>,
    /// How often the open connections were stalled.
    stalls: watch::Sender<u64>,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

/// The last break, and the number of breaks.
#[derive(Debug, Clone, Copy, Default)]
struct Break {
    count: u64,
    reset: bool,
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    open: AtomicUsize,
}

impl Proxy {
    /// Listens on a free port of the loopback address and forwards each connection to `target`.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("no port for a proxy")?;
        let address = listener.local_addr()?;
        let (network, stop) = (watch::channel(Network::Well).0, CancellationToken::new());
        let (breaks, shared) = (watch::Sender::default(), Arc::<Shared>::default());
        let stalls = watch::Sender::default();
        let carry = Carry {
            target,
            network: network.subscribe(),
            breaks: breaks.subscribe(),
            stalls: stalls.subscribe(),
            shared: shared.clone(),
            stop: stop.clone(),
        };
        tokio::spawn(async move {
            let stop = carry.stop.clone();
            stop.run_until_cancelled(accept(listener, carry)).await
        });
        Ok(Self {
            address,
            network,
            breaks,
            stalls,
            shared,
            _stop: stop.drop_guard(),
        })
    }

    /// The address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the behaviour of the network, for open connections too.
    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }

    /// Forwards nothing more on the open connections, for ever, and breaks none of them, like a router that has lost its
    /// state. New connections work.
    pub fn stall(&self) {
        self.stalls.send_modify(|count| *count += 1);
    }

    /// Closes every open connection in both directions (FIN).
    pub fn cut(&self) {
        self.end(false);
    }

    /// Resets every open connection in both directions (RST).
    pub fn reset(&self) {
        self.end(true);
    }

    fn end(&self, reset: bool) {
        self.breaks.send_modify(|last| {
            last.count += 1;
            last.reset = reset;
        });
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }
}

/// The state that connections share.
#[derive(Clone)]
struct Carry {
    target: SocketAddr,
    network: watch::Receiver<Network>,
    breaks: watch::Receiver<Break>,
    stalls: watch::Receiver<u64>,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

/// Counts a connection for as long as it is open.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn accept(listener: TcpListener, carry: Carry) {
    while let Ok((client, _)) = listener.accept().await {
        carry.shared.accepted.fetch_add(1, Ordering::SeqCst);
        if *carry.network.borrow() == Network::Refusing {
            continue;
        }
        let carry = carry.clone();
        carry.shared.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(carry.shared.clone());
        tokio::spawn(async move {
            let stop = carry.stop.clone();
            stop.run_until_cancelled(connection(client, carry)).await;
            drop(open);
        });
    }
}

async fn connection(client: TcpStream, mut carry: Carry) {
    carry.breaks.mark_unchanged();
    carry.stalls.mark_unchanged();
    let Ok(server) = TcpStream::connect(carry.target).await else {
        return;
    };
    for end in [&client, &server] {
        // Without this the proxy would delay small packets.
        let _ = end.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut there = Direction::new(from_client, to_server, &carry);
    let mut back = Direction::new(from_server, to_client, &carry);
    tokio::select! {
        () = async { tokio::join!(there.run(), back.run()); } => {}
        changed = carry.breaks.changed() => {
            if changed.is_ok() && carry.breaks.borrow().reset {
                there.reset();
                back.reset();
            }
        }
        _ = carry.stalls.changed() => drop(carry.breaks.changed().await),
    }
}

/// One direction of a connection.
struct Direction {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    network: watch::Receiver<Network>,
}

impl Direction {
    fn new(from: OwnedReadHalf, to: OwnedWriteHalf, carry: &Carry) -> Self {
        Self {
            from,
            to,
            network: carry.network.clone(),
        }
    }

    /// Forwards until either side has ended.
    async fn run(&mut self) {
        let mut buffer = vec![0; PIECE];
        loop {
            let room = self.room().await;
            let read = self.from.read(&mut buffer[..room]).await;
            // Bytes that were read before a freeze are forwarded after it.
            self.room().await;
            match read {
                Ok(read) if read > 0 && self.to.write_all(&buffer[..read]).await.is_ok() => {}
                _ => break,
            }
        }
        let _ = self.to.shutdown().await;
    }

    /// Waits for the network, and returns how many bytes may be forwarded.
    async fn room(&mut self) -> usize {
        let now = self.network.wait_for(|network| *network != Network::Frozen);
        let now = now.await.map_or(Network::Well, |network| *network);
        let Network::Slow(rate) = now else {
            return PIECE;
        };
        let rate = rate.max(1);
        let pieces = rate.min(PIECES);
        let pause = Duration::from_secs(1) / pieces;
        interval_at(Instant::now() + pause, pause).tick().await;
        (rate / pieces) as usize
    }

    /// Ends with an RST, after the other direction has ended.
    fn reset(self) {
        let _ = self.to.as_ref().set_zero_linger();
        // A drop would send a FIN first.
        self.to.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// An echo server behind a proxy, and a client of it.
    async fn echo() -> Result<(Proxy, TcpStream)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxy = Proxy::start(listener.local_addr()?).await?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        let client = TcpStream::connect(proxy.address()).await?;
        Ok((proxy, client))
    }

    async fn said(client: &mut TcpStream, text: &[u8]) -> Result<()> {
        client.write_all(text).await?;
        let mut back = vec![0; text.len()];
        tokio::time::timeout(Duration::from_secs(10), client.read_exact(&mut back)).await??;
        assert_eq!(back, text);
        Ok(())
    }

    #[tokio::test]
    async fn what_is_said_in_a_freeze_arrives_after_it() -> Result<()> {
        let (proxy, mut client) = echo().await?;
        said(&mut client, b"before").await?;
        proxy.set(Network::Frozen);
        client.write_all(b"within").await?;
        let mut back = [0; 6];
        let short = Duration::from_millis(100);
        assert!(
            tokio::time::timeout(short, client.read_exact(&mut back))
                .await
                .is_err()
        );
        proxy.set(Network::Well);
        tokio::time::timeout(Duration::from_secs(10), client.read_exact(&mut back)).await??;
        assert_eq!(&back, b"within");
        Ok(())
    }

    #[tokio::test]
    async fn a_stalled_connection_stays_open_and_new_ones_go_through() -> Result<()> {
        let (proxy, mut client) = echo().await?;
        said(&mut client, b"before").await?;
        proxy.stall();
        client.write_all(b"within").await?;
        let mut again = TcpStream::connect(proxy.address()).await?;
        said(&mut again, b"new").await?;
        let short = Duration::from_millis(100);
        let silent = tokio::time::timeout(short, client.read(&mut [0])).await;
        assert!(silent.is_err(), "{silent:?}");
        assert_eq!(proxy.open(), 2);
        Ok(())
    }

    #[tokio::test]
    async fn a_cut_ends_connections_and_a_reset_breaks_them() -> Result<()> {
        let (proxy, mut client) = echo().await?;
        said(&mut client, b"x").await?;
        proxy.cut();
        assert_eq!(client.read(&mut [0]).await?, 0);
        let mut client = TcpStream::connect(proxy.address()).await?;
        said(&mut client, b"x").await?;
        proxy.reset();
        let broken = client.read(&mut [0]).await.map_err(|error| error.kind());
        assert_eq!(broken, Err(ErrorKind::ConnectionReset));
        assert_eq!(proxy.accepted(), 2);
        Ok(())
    }

    #[tokio::test]
    async fn a_slow_network_takes_its_time_and_one_that_refuses_takes_nobody() -> Result<()> {
        let (proxy, mut client) = echo().await?;
        said(&mut client, b"x").await?;
        proxy.set(Network::Slow(20));
        // The first piece arrives at full speed, because the throttle starts with the second.
        said(&mut client, b"x").await?;
        let began = Instant::now();
        said(&mut client, b"12345678").await?;
        assert!(began.elapsed() >= Duration::from_millis(300));
        proxy.set(Network::Refusing);
        let mut refused = TcpStream::connect(proxy.address()).await?;
        assert_eq!(refused.read(&mut [0]).await.unwrap_or(0), 0);
        assert_eq!(proxy.open(), 1);
        Ok(())
    }
}
