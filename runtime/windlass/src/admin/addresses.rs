//! The addresses of the admin endpoints, which may change while the process runs. Entry points: [`bind`] and [`Served::follow`].

use super::listener::Listener;
use crate::config::kinds::Authentication;
use anyhow::{Context, Result, bail};
use axum::Router;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Pause before a taken address is retried.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// The wanted addresses of the admin endpoints, and how callers of the API prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The address of all endpoints.
    pub(crate) admin: SocketAddr,
    /// Another address with only the probes.
    pub(crate) probes: Option<SocketAddr>,
    /// Another address with only the metrics.
    pub(crate) metrics: Option<SocketAddr>,
    /// How callers prove who they are.
    pub(crate) authentication: Authentication,
}

impl Addresses {
    /// Refuses to serve a token of a file to other machines: it would cross the network in the clear, and it never expires.
    fn check(&self) -> Result<(), String> {
        let (address, file) = (self.admin, Authentication::TokenFile);
        if self.authentication != file || address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        Err(format!(
            "spec.admin.address: {address} is open to other machines, which cannot read the token file: use 127.0.0.1, with probeAddress and \
             metricsAddress for others, or authentication: TokenReview"
        ))
    }
}

/// The endpoints that are served together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoints {
    All,
    Probes,
    Metrics,
}

impl Endpoints {
    const EACH: [Self; 3] = [Self::All, Self::Probes, Self::Metrics];

    fn wanted(self, addresses: &Addresses) -> Option<SocketAddr> {
        match self {
            Self::All => Some(addresses.admin),
            Self::Probes => addresses.probes,
            Self::Metrics => addresses.metrics,
        }
    }

    /// The field that names the address.
    fn field(self) -> &'static str {
        match self {
            Self::All => "spec.admin.address",
            Self::Probes => "spec.admin.probeAddress",
            Self::Metrics => "spec.admin.metricsAddress",
        }
    }

    fn refusal(self, address: SocketAddr) -> String {
        let flag = if self == Self::All { "--admin or " } else { "" };
        let field = self.field();
        format!(
            "cannot serve at {address}: choose another address with {flag}the Manager's {field}"
        )
    }
}

/// The sockets of all addresses.
pub(crate) struct Sockets {
    wanted: Addresses,
    /// In the order of [`Endpoints::EACH`].
    bound: [Option<TcpListener>; 3],
}

impl Sockets {
    /// Where all endpoints are served.
    pub(crate) fn admin(&self) -> Option<SocketAddr> {
        let [admin, ..] = &self.bound;
        admin.as_ref()?.local_addr().ok()
    }
}

/// Binds all addresses. With `free_port`, uses a free port if the admin address is taken.
///
/// # Errors
/// When an address is taken or belongs to another machine, or the API may not be served there; the error names the field to change.
pub(crate) fn bind(wanted: Addresses, free_port: bool) -> Result<Sockets> {
    if let Err(refusal) = wanted.check() {
        bail!(refusal);
    }
    let mut bound = [const { None }; 3];
    for (endpoints, place) in Endpoints::EACH.into_iter().zip(&mut bound) {
        let Some(address) = endpoints.wanted(&wanted) else {
            continue;
        };
        let taken = match listen(address) {
            Err(_) if free_port && endpoints == Endpoints::All => {
                tracing::info!(%address, "the admin address is taken, a free port is used");
                listen(SocketAddr::new(address.ip(), 0))
            }
            other => other,
        };
        *place = Some(taken.with_context(|| endpoints.refusal(address))?);
    }
    Ok(Sockets { wanted, bound })
}

/// Listens at an address. `[::]` is every address of IPv6 and IPv4, or of IPv4 alone where the machine has no IPv6.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = on_any_family(address, StdListener::bind)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn on_any_family<T>(
    address: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let is_everywhere = address.is_ipv6() && address.ip().is_unspecified();
    match bind(address) {
        Err(error) if is_everywhere && error.kind() != io::ErrorKind::AddrInUse => {
            let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            // The first error names the address that was asked for.
            bind(SocketAddr::new(everywhere, address.port())).map_err(|_| error)
        }
        other => other,
    }
}

/// A served address.
struct Listening {
    wanted: SocketAddr,
    listener: Listener,
}

/// Called before all endpoints are served at an address.
pub(super) type Begins = Arc<dyn Fn(SocketAddr) + Send + Sync>;

/// The endpoints at one address, or nothing.
pub(super) struct Served {
    endpoints: Endpoints,
    router: Router,
    begins: Begins,
    listening: Option<Listening>,
}

/// The routers of all addresses.
pub(super) struct Routers {
    pub(super) all: Router,
    pub(super) probes: Router,
    pub(super) metrics: Router,
}

impl Served {
    /// Serves all endpoints, the probes and the metrics, each at its socket.
    pub(super) fn each(sockets: Sockets, routers: Routers, begins: &Begins) -> [Self; 3] {
        let Sockets { wanted, bound } = sockets;
        let [all, probes, metrics] = bound;
        let serve = |endpoints: Endpoints, router, socket| {
            let mut served = Self {
                endpoints,
                router,
                begins: begins.clone(),
                listening: None,
            };
            if let Some((wanted, tcp)) = endpoints.wanted(&wanted).zip(socket) {
                served.begin(wanted, tcp);
            }
            served
        };
        [
            serve(Endpoints::All, routers.all, all),
            serve(Endpoints::Probes, routers.probes, probes),
            serve(Endpoints::Metrics, routers.metrics, metrics),
        ]
    }

    fn begin(&mut self, wanted: SocketAddr, tcp: TcpListener) {
        let listener = Listener::new(tcp, self.router.clone());
        if let Ok(address) = listener.address() {
            match self.endpoints {
                Endpoints::All => {
                    // Before it is logged: a reader of the log may call at once.
                    (self.begins)(address);
                    tracing::info!(%address, "admin endpoints are served");
                }
                Endpoints::Probes => tracing::info!(%address, "probes are served"),
                Endpoints::Metrics => tracing::info!(%address, "metrics are served"),
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

    /// Moves to another address, or to none. If the new address cannot be used, keeps the old one and returns the reason.
    /// Answers that have begun are completed.
    pub(super) fn follow(&mut self, addresses: &Addresses) -> Result<(), String> {
        let wanted = self.endpoints.wanted(addresses);
        if self.endpoints == Endpoints::All {
            addresses.check()?;
        }
        let before = self.listening.as_ref().map(|listening| listening.wanted);
        if before == wanted {
            return Ok(());
        }
        let Some(address) = wanted else {
            self.listening = None;
            let field = self.endpoints.field();
            tracing::info!(field, "nothing is served at an address of its own any more");
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
                Err(format!("{}: {error}", self.endpoints.refusal(address)))
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
    use std::net::{Ipv6Addr, TcpStream};

    fn free() -> SocketAddr {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    }

    fn served(at: &Served) -> Option<SocketAddr> {
        let listening = at.listening.as_ref();
        listening.map(|listening| listening.listener.address().unwrap())
    }

    fn wanted(admin: SocketAddr, probes: Option<SocketAddr>) -> Addresses {
        Addresses {
            admin,
            probes,
            metrics: None,
            authentication: Authentication::TokenReview,
        }
    }

    fn start(admin: SocketAddr) -> [Served; 3] {
        let routers = Routers {
            all: Router::new(),
            probes: Router::new(),
            metrics: Router::new(),
        };
        let sockets = bind(wanted(admin, None), false).unwrap();
        Served::each(sockets, routers, &(Arc::new(|_| ()) as Begins))
    }

    #[tokio::test]
    async fn an_address_moves_and_one_that_overlaps_is_given_up_first() {
        let (first, second) = (free(), free());
        let [mut admin, mut probes, _] = start(first);
        admin.follow(&wanted(second, None)).unwrap();
        assert_eq!(served(&admin), Some(second));
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, second.port()));
        admin.follow(&wanted(everywhere, None)).unwrap();
        assert_eq!(served(&admin), Some(everywhere));
        probes.follow(&wanted(everywhere, Some(first))).unwrap();
        assert_eq!(served(&probes), Some(first));
        probes.follow(&wanted(everywhere, None)).unwrap();
        assert_eq!(served(&probes), None);
    }

    #[tokio::test]
    async fn every_address_is_of_both_families_or_of_the_one_that_there_is() {
        let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let both = listen(everywhere).unwrap();
        let port = both.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();

        let without_ipv6 = |address: SocketAddr| match address {
            // "Address family not supported by protocol".
            SocketAddr::V6(_) => Err(io::Error::from_raw_os_error(97)),
            SocketAddr::V4(_) => Ok(address),
        };
        let found = on_any_family(everywhere, without_ipv6).unwrap();
        assert_eq!(found, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let one = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
        assert!(on_any_family(one, without_ipv6).is_err());
    }

    #[tokio::test]
    async fn an_address_that_is_taken_leaves_the_one_before() {
        let taken = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = taken.local_addr().map(|address| (taken, address)).unwrap();
        let [mut admin, ..] = start(free());
        let before = served(&admin);
        let error = admin.follow(&wanted(taken.1, None)).unwrap_err();
        assert!(error.contains("spec.admin.address"), "{error}");
        assert_eq!(served(&admin), before);
        drop(taken.0);
        admin.follow(&wanted(taken.1, None)).unwrap();
        assert_eq!(served(&admin), Some(taken.1));
    }

    #[tokio::test]
    async fn the_token_of_a_file_is_asked_for_on_this_machine_only() {
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, free().port()));
        let open = Addresses {
            authentication: Authentication::TokenFile,
            ..wanted(everywhere, None)
        };
        let refused = bind(open, false).err().unwrap().to_string();
        assert!(refused.contains("TokenReview"), "{refused}");
        let [mut admin, ..] = start(free());
        let before = served(&admin);
        assert!(admin.follow(&open).is_err());
        assert_eq!(served(&admin), before);
    }
}
