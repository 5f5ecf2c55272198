//! The addresses of the admin endpoints, which may change while the process runs. Entry points: [`bind`] and [`Served::follow`].

use super::listener::Listener;
use anyhow::{Context, Result};
use axum::Router;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Duration;
use tokio::net::TcpListener;

/// Pause before a taken address is retried.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// The wanted addresses of the admin endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The address of all endpoints.
    pub(crate) admin: SocketAddr,
    /// A second address with only the probes.
    pub(crate) probes: Option<SocketAddr>,
}

/// The sockets of both addresses.
pub(crate) struct Sockets {
    wanted: Addresses,
    admin: TcpListener,
    probes: Option<TcpListener>,
}

/// Binds both addresses. With `free_port`, uses a free port if the admin address is taken.
///
/// # Errors
/// When an address is taken or belongs to another machine; the error names the field to change.
pub(crate) fn bind(wanted: Addresses, free_port: bool) -> Result<Sockets> {
    let admin = match listen(wanted.admin) {
        Err(_) if free_port => {
            let address = wanted.admin;
            tracing::info!(%address, "the admin address is taken, a free port is used");
            listen(SocketAddr::new(address.ip(), 0))
        }
        other => other,
    };
    let probes = wanted.probes.map(|address| {
        let taken = listen(address);
        taken.with_context(|| refusal(address, PROBES))
    });
    Ok(Sockets {
        wanted,
        admin: admin.with_context(|| refusal(wanted.admin, ADMIN))?,
        probes: probes.transpose()?,
    })
}

/// The fields that name the addresses.
const ADMIN: &str = "spec.admin.address";
const PROBES: &str = "spec.admin.probeAddress";

fn refusal(address: SocketAddr, field: &str) -> String {
    let flag = if field == ADMIN { "--admin or " } else { "" };
    format!("cannot serve at {address}: choose another address with {flag}the Manager's {field}")
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = StdListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// A served address.
struct Listening {
    wanted: SocketAddr,
    listener: Listener,
}

/// The endpoints at one address, or nothing.
pub(super) struct Served {
    field: &'static str,
    router: Router,
    listening: Option<Listening>,
}

impl Served {
    /// Serves all endpoints at one socket, and only the probes at the other.
    pub(super) fn both(sockets: Sockets, all: Router, probes: Router) -> [Self; 2] {
        let Sockets {
            wanted,
            admin,
            probes: second,
        } = sockets;
        let serve = |field, router, socket: Option<(SocketAddr, TcpListener)>| {
            let mut served = Self {
                field,
                router,
                listening: None,
            };
            if let Some((wanted, tcp)) = socket {
                served.begin(wanted, tcp);
            }
            served
        };
        [
            serve(ADMIN, all, Some((wanted.admin, admin))),
            serve(PROBES, probes, wanted.probes.zip(second)),
        ]
    }

    fn begin(&mut self, wanted: SocketAddr, tcp: TcpListener) {
        let listener = Listener::new(tcp, self.router.clone());
        if let Ok(address) = listener.address() {
            match self.field {
                ADMIN => tracing::info!(%address, "admin endpoints are served"),
                _ => tracing::info!(%address, "probes are served"),
            }
        }
        self.listening = Some(Listening { wanted, listener });
    }

    /// Accepts connections until the future is dropped.
    pub(super) async fn take(&self) {
        match &self.listening {
            Some(listening) => listening.listener.take().await,
            None => std::future::pending().await,
        }
    }

    /// Moves to another address, or to none. If the new address is taken, keeps the old one and returns the reason.
    /// Answers that have begun are completed.
    pub(super) fn follow(&mut self, wanted: Option<SocketAddr>) -> Result<(), String> {
        let before = self.listening.as_ref().map(|listening| listening.wanted);
        if before == wanted {
            return Ok(());
        }
        let Some(address) = wanted else {
            self.listening = None;
            tracing::info!(
                field = self.field,
                "probes have no address of their own any more"
            );
            return Ok(());
        };
        let mut taken = listen(address);
        let overlaps = |before: SocketAddr| before.port() == address.port();
        if taken.is_err() && before.is_some_and(overlaps) {
            // `127.0.0.1:8080` and `0.0.0.0:8080` cannot be bound at the same time.
            self.listening = None;
            taken = listen(address);
        }
        match taken {
            Ok(tcp) => {
                self.begin(address, tcp);
                Ok(())
            }
            Err(error) => {
                if let (None, Some(before)) = (&self.listening, before)
                    && let Ok(tcp) = listen(before)
                {
                    self.begin(before, tcp);
                }
                Err(format!("{}: {error}", refusal(address, self.field)))
            }
        }
    }

    /// Accepts no more connections, and waits for the answers that have begun.
    pub(super) async fn close(self) {
        if let Some(listening) = self.listening {
            listening.listener.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn free() -> SocketAddr {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    }

    fn served(at: &Served) -> Option<SocketAddr> {
        let listening = at.listening.as_ref();
        listening.map(|listening| listening.listener.address().unwrap())
    }

    fn start(admin: SocketAddr, probes: Option<SocketAddr>) -> [Served; 2] {
        let sockets = bind(Addresses { admin, probes }, false).unwrap();
        Served::both(sockets, Router::new(), Router::new())
    }

    #[tokio::test]
    async fn an_address_moves_and_one_that_overlaps_is_given_up_first() {
        let (first, second) = (free(), free());
        let [mut admin, mut probes] = start(first, None);
        admin.follow(Some(second)).unwrap();
        assert_eq!(served(&admin), Some(second));
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, second.port()));
        admin.follow(Some(everywhere)).unwrap();
        assert_eq!(served(&admin), Some(everywhere));
        probes.follow(Some(first)).unwrap();
        assert_eq!(served(&probes), Some(first));
        probes.follow(None).unwrap();
        assert_eq!(served(&probes), None);
    }

    #[tokio::test]
    async fn an_address_that_is_taken_leaves_the_one_before() {
        let taken = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = taken.local_addr().map(|address| (taken, address)).unwrap();
        let [mut admin, _] = start(free(), None);
        let before = served(&admin);
        let error = admin.follow(Some(taken.1)).unwrap_err();
        assert!(error.contains("spec.admin.address"), "{error}");
        assert_eq!(served(&admin), before);
        drop(taken.0);
        admin.follow(Some(taken.1)).unwrap();
        assert_eq!(served(&admin), Some(taken.1));
    }
}
