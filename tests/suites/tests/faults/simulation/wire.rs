//! A network in memory: streams to a server whose every message takes its time. Entry point: [`Wire`].

use fastrand::Rng;
use futures::future::BoxFuture;
use http::Uri;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex, split};
use tokio::sync::watch;
use windlass_apiserver::Entrance;
use windlass_fleet::cluster::{OpenStream, Stream};

/// Bytes under way in each direction of a stream.
const UNDER_WAY: usize = 64 << 10;

/// Messages of which one takes long.
const SLOW: u32 = 50;

/// The way to one server. Every message takes up to 2 ms, some up to 200 ms; one connection in a hundred breaks within its first minutes.
#[derive(Debug)]
pub(super) struct Wire {
    server: Entrance,
    rng: Arc<Mutex<Rng>>,
    /// Whether nothing gets through for now.
    cut: watch::Sender<bool>,
}

impl Wire {
    pub(super) fn new(server: Entrance, seed: u64) -> Self {
        Self {
            server,
            rng: Arc::new(Mutex::new(Rng::with_seed(seed ^ 0x7769_7265))),
            cut: watch::channel(false).0,
        }
    }

    /// From now on nothing gets through, or what is under way arrives.
    pub(super) fn cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }
}

/// Waits until something gets through.
async fn through(cut: &mut watch::Receiver<bool>) {
    // The wire outlives what it carries, or nothing is cut any more.
    let _ = cut.wait_for(|cut| !cut).await;
}

impl OpenStream for Wire {
    fn open(&self, _: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (server, rng) = (self.server.clone(), self.rng.clone());
        let mut cut = self.cut.subscribe();
        Box::pin(async move {
            // Not a wait: time is simulated.
            tokio::time::sleep(delay(&rng)).await;
            through(&mut cut).await;
            let (ours, end) = duplex(UNDER_WAY);
            let breaks = rng.lock().u32(0..100) == 0;
            let life = Duration::from_secs(rng.lock().u64(1..300));
            let carried = carry(end, server.connect(), rng, cut);
            tokio::spawn(async move {
                if breaks {
                    let _ = tokio::time::timeout(life, carried).await;
                } else {
                    carried.await;
                }
            });
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
}

fn delay(rng: &Mutex<Rng>) -> Duration {
    let mut rng = rng.lock();
    let most = if rng.u32(0..SLOW) == 0 {
        200_000
    } else {
        2_000
    };
    Duration::from_micros(rng.u64(20..most))
}

/// Carries bytes in both directions until either end is closed.
async fn carry(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
    rng: Arc<Mutex<Rng>>,
    cut: watch::Receiver<bool>,
) {
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = split(server);
    tokio::join!(
        one_way(from_client, to_server, &rng, cut.clone()),
        one_way(from_server, to_client, &rng, cut)
    );
}

async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    rng: &Mutex<Rng>,
    mut cut: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        // Not a wait: time is simulated.
        tokio::time::sleep(delay(rng)).await;
        through(&mut cut).await;
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
