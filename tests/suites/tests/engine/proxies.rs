//! Clusters behind proxies, and clusters whose kubeconfig may not name their server. Entry points: [`TestProxy`] and the tests.

use super::fixture::{Log, bytes, client, config_map, object, recording};
use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_apiserver::Server;
use windlass_fleet::api::WriteOptions;
use windlass_fleet::cluster::{
    AllowServers, KubeconfigPolicy, ProxyFromEnvironment, TransportOptions,
};
use windlass_fleet::manager::ManagerOptions;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

/// The user and password that a proxy demands, as a URL has them and as HTTP sends them.
const LOGIN: &str = "me:p%40ss";
const BASIC: &str = "Proxy-Authorization: Basic bWU6cEBzcw==";

/// What a proxy does with its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Connects, whichever server is asked for, to the one that it was started with.
    Connect,
    /// As [`Manner::Connect`], for those who send [`LOGIN`].
    ConnectWithLogin,
    /// Reads, and never answers.
    Silent,
}

/// A proxy for HTTP and SOCKS5, which records what it is asked.
pub(super) struct TestProxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl TestProxy {
    pub(super) async fn start(
        server: SocketAddr,
        manner: Manner,
        tls: Option<TlsAcceptor>,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, asked) = (listener.local_addr()?, Arc::<Mutex<Vec<_>>>::default());
        let (stop, record) = (CancellationToken::new(), asked.clone());
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                let (record, tls) = (record.clone(), tls.clone());
                tokio::spawn(async move {
                    let served = match tls {
                        None => serve(client, server, manner, &record).await,
                        Some(tls) => match tls.accept(client).await {
                            Ok(client) => serve(client, server, manner, &record).await,
                            Err(error) => Err(error.into()),
                        },
                    };
                    // An end of either side is no failure.
                    drop(served);
                });
            }
        };
        let token = stop.clone();
        tokio::spawn(async move { token.run_until_cancelled(accept).await });
        Ok(Self {
            address,
            asked,
            _stop: stop.drop_guard(),
        })
    }

    /// Its URL, with a login before the address.
    pub(super) fn url(&self, login: &str) -> String {
        format!("http://{login}{}", self.address)
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut client: S,
    server: SocketAddr,
    manner: Manner,
    record: &Mutex<Vec<String>>,
) -> Result<()> {
    let mut head = vec![client.read_u8().await?];
    let is_socks = head[0] == 5;
    if manner == Manner::Silent {
        record.lock().push("silence".to_owned());
        tokio::io::copy(&mut client, &mut tokio::io::sink()).await?;
        return Ok(());
    }
    let with_login = manner == Manner::ConnectWithLogin;
    if is_socks {
        let target = negotiate(&mut client, with_login).await?;
        record.lock().push(format!("SOCKS5 {target}"));
        let mut upstream = TcpStream::connect(server).await?;
        tokio::io::copy_bidirectional(&mut client, &mut upstream).await?;
        return Ok(());
    }
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let first = text.lines().next().unwrap_or_default();
    record.lock().push(first.to_owned());
    if with_login && !text.lines().any(|line| line.eq_ignore_ascii_case(BASIC)) {
        let answer = b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n";
        return Ok(client.write_all(answer).await?);
    }
    let mut upstream = TcpStream::connect(server).await?;
    if first.starts_with("CONNECT ") {
        let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
        client.write_all(answer).await?;
    } else {
        // A server takes requests with its whole URL as well.
        upstream.write_all(&head).await?;
    }
    tokio::io::copy_bidirectional(&mut client, &mut upstream).await?;
    Ok(())
}

/// The server's half of SOCKS5 behind its first byte. Returns the target.
async fn negotiate<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut S,
    with_login: bool,
) -> Result<String> {
    let mut methods = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut methods).await?;
    let method = if with_login { 2 } else { 0 };
    if !methods.contains(&method) {
        client.write_all(&[5, 0xff]).await?;
        anyhow::bail!("no login was offered");
    }
    client.write_all(&[5, method]).await?;
    if with_login {
        let mut sent = vec![0; 1 + 1 + 2 + 1 + 4];
        client.read_exact(&mut sent).await?;
        let is_right = sent == *b"\x01\x02me\x04p@ss";
        client.write_all(&[1, u8::from(!is_right)]).await?;
    }
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let length: usize = match head[3] {
        1 => 4,
        4 => 16,
        _ => client.read_u8().await?.into(),
    };
    let mut host = vec![0; length];
    client.read_exact(&mut host).await?;
    let port = client.read_u16().await?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    let host = match head[3] {
        3 => String::from_utf8(host)?,
        _ => host.iter().map(u8::to_string).collect::<Vec<_>>().join("."),
    };
    Ok(format!("{host}:{port}"))
}

/// TLS for a server of this name, and the certificate of its own authority in PEM.
pub(super) fn tls_of(name: &str) -> Result<(TlsAcceptor, String)> {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed([name.to_owned()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())?;
    Ok((TlsAcceptor::from(Arc::new(config)), cert.pem()))
}

/// The server's kubeconfig with a `proxy-url`.
fn proxied(fleet: &TestFleet, url: &str) -> String {
    let text = fleet.server.kubeconfig();
    text.replace(
        "    server: ",
        &format!("    proxy-url: '{url}'\n    server: "),
    )
}

/// Engages a cluster, writes an object and waits until the controller has run for it.
async fn works(fleet: &TestFleet, log: &Log, kubeconfig: &str) -> Result<()> {
    fleet.add_from("alpha", kubeconfig, &KubeconfigPolicy::file())?;
    let cluster = fleet.ready("alpha").await?;
    let made = bytes(&object("made", json!({})));
    client(&cluster)
        .create(&config_map(), made, &WriteOptions::default())
        .await?;
    log.ran(&request("alpha", "made"), 1).await
}

#[tokio::test]
async fn a_cluster_is_reached_through_each_kind_of_proxy_with_the_same_connections() -> Result<()> {
    for (is_tls, is_http2) in [(true, true), (true, false), (false, false)] {
        for scheme in ["http", "https", "socks5", "socks5h"] {
            let log = Arc::new(Log::default());
            let mut server = Server::builder();
            if is_tls {
                server = server.tls();
            }
            if !is_http2 {
                server = server.http1_only();
            }
            let fleet =
                TestFleet::start_on(server, &["alpha"], |b| b.controller(recording(&log))).await?;
            let (tls, pem) = tls_of("127.0.0.1")?;
            let tls = (scheme == "https").then_some(tls);
            let address = fleet.server.address();
            let proxy = TestProxy::start(address, Manner::ConnectWithLogin, tls).await?;
            let text = proxied(&fleet, &format!("{scheme}://{LOGIN}@{}", proxy.address));
            works(&fleet, &log, &trusting(&text, &pem)).await?;

            let (asked, server) = (proxy.asked(), format!("{address}"));
            let is_tunnel = is_tls || scheme.starts_with("socks5");
            let expected = match scheme {
                _ if !is_tunnel => format!("http://{server}/clusters/alpha/"),
                "http" | "https" => format!("CONNECT {server} HTTP/1.1"),
                _ => format!("SOCKS5 {server}"),
            };
            let is_expected = |line: &String| line.contains(&expected);
            assert!(
                asked.iter().all(is_expected),
                "{scheme} {expected}: {asked:?}"
            );
            wait("as many connections to the proxy as to the server", || {
                let accepted = usize::try_from(fleet.server.connections().accepted);
                Seen::of((proxy.asked().len(), accepted.ok()), |(asked, accepted)| {
                    Some(*asked) == *accepted
                })
            })
            .await?;
            let counts = fleet.ready("alpha").await?.status().connections;
            if is_http2 {
                assert_eq!((counts.http2.made, counts.http1.made), (1, 0), "{scheme}");
            } else {
                assert!(
                    counts.http1.made >= 1 && counts.http2.made == 0,
                    "{counts:?}"
                );
            }
            fleet.stop().await?;
        }
    }
    Ok(())
}

/// A kubeconfig that trusts one authority more, in each of its clusters; one without TLS gets its first.
fn trusting(text: &str, pem: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let field = "    certificate-authority-data: ";
    let line = |line: &str| match line.strip_prefix(field) {
        Some(data) => {
            let present = STANDARD.decode(data).unwrap_or_default();
            let both = [&present[..], pem.as_bytes()].concat();
            format!("{field}{}\n", STANDARD.encode(both))
        }
        None if !text.contains(field) && line.starts_with("    server: ") => {
            format!("{line}\n{field}{}\n", STANDARD.encode(pem))
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[tokio::test]
async fn the_environments_proxy_serves_clusters_that_name_none() -> Result<()> {
    let log = Arc::new(Log::default());
    let server = Server::builder().tls().cluster("alpha");
    let server = server.bind("127.0.0.1:0").await?;
    let proxy = TestProxy::start(server.address(), Manner::Connect, None).await?;
    let variables = |name: &str| match name {
        "HTTPS_PROXY" => Some(proxy.address.to_string()),
        _ => None,
    };
    let options = ManagerOptions {
        transport: TransportOptions {
            proxy: ProxyFromEnvironment::read(variables)?,
            ..TransportOptions::default()
        },
        ..ManagerOptions::default()
    };
    let fleet = TestFleet::start(&[], |b| b.options(options).controller(recording(&log))).await?;
    // Only the proxy knows this name.
    let text = server.kubeconfig().replace(
        &format!("https://{}", server.address()),
        "https://alpha.example:6443",
    );
    let named = "    tls-server-name: localhost\n    server: ";
    works(&fleet, &log, &text.replace("    server: ", named)).await?;
    assert_eq!(proxy.asked(), ["CONNECT alpha.example:6443 HTTP/1.1"]);
    fleet.stop().await
}

#[tokio::test]
async fn a_proxy_that_gives_no_connection_is_named_without_its_password() -> Result<()> {
    let options = ManagerOptions {
        transport: TransportOptions {
            connect_timeout: Duration::from_millis(500),
            ..TransportOptions::default()
        },
        ..ManagerOptions::default()
    };
    for server in [Server::builder().tls(), Server::builder()] {
        let fleet = TestFleet::start_on(server, &["alpha"], |b| b.options(options.clone())).await?;
        let address = fleet.server.address();
        let demanding = TestProxy::start(address, Manner::ConnectWithLogin, None).await?;
        let silent = TestProxy::start(address, Manner::Silent, None).await?;
        let gone = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        for (url, shown, reason) in [
            (
                format!("http://{}", demanding.address),
                format!("http://{}", demanding.address),
                "it demands a user and a password",
            ),
            (
                format!("http://me:hush@{}", demanding.address),
                format!("http://{}", demanding.address),
                "it rejects the user or the password",
            ),
            (
                format!("socks5://me:hush@{}", demanding.address),
                format!("socks5://{}", demanding.address),
                "it rejects the user or the password",
            ),
            (
                format!("socks5://me:hush@{}", silent.address),
                format!("socks5://{}", silent.address),
                "no connection within 500ms",
            ),
            (
                format!("http://me:hush@{gone}"),
                format!("http://{gone}"),
                "it cannot be reached: ",
            ),
        ] {
            fleet.add_from("alpha", &proxied(&fleet, &url), &KubeconfigPolicy::file())?;
            let expected = format!("through the proxy {shown}: {reason}");
            let status = wait(&format!("the reason {expected:?}"), || {
                match fleet.status("alpha") {
                    Ok(status) if status.reason.contains(&expected) => Seen::Yes(status),
                    seen => Seen::NotYet(format!("{seen:?}")),
                }
            })
            .await?;
            assert!(!format!("{status:?}").contains("hush"), "{status:?}");
        }
        fleet.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_may_not_name_its_server_uses_no_connection_of_one_that_may() -> Result<()> {
    let server = Server::builder().tls();
    let fleet = TestFleet::start_on(server, &["alpha", "beta"], |b| b).await?;
    let port = fleet.server.address().port();
    let text = fleet
        .server
        .kubeconfig()
        .replace("https://127.0.0.1", "https://localhost");
    let policy = |list: &[&str]| -> Result<KubeconfigPolicy> {
        Ok(KubeconfigPolicy {
            allow_servers: AllowServers::parse(list)?,
            ..KubeconfigPolicy::object()
        })
    };
    fleet.add_from("alpha", &text, &policy(&["127.0.0.0/8", "::1"])?)?;
    fleet.ready("alpha").await?;
    fleet.add_from("beta", &text, &policy(&["10.0.0.0/8"])?)?;
    let expected = format!("cannot connect to https://localhost:{port}");
    let status = wait("the refusal", || match fleet.status("beta") {
        Ok(status) if status.reason.contains(&expected) => Seen::Yes(status),
        seen => Seen::NotYet(format!("{seen:?}")),
    })
    .await?;
    assert!(
        status.reason.contains("allowServers, which has 10.0.0.0/8"),
        "{}",
        status.reason
    );
    let shared = fleet
        .engaged("alpha")
        .context("engaged")?
        .status()
        .connections;
    assert_eq!(shared.shared_by, 1);
    fleet.stop().await
}

#[tokio::test]
async fn a_proxy_with_the_certificate_of_an_unknown_authority_is_not_used() -> Result<()> {
    let fleet = TestFleet::start_on(Server::builder().tls(), &["alpha"], |b| b).await?;
    let (tls, _) = tls_of("127.0.0.1")?;
    let proxy = TestProxy::start(fleet.server.address(), Manner::Connect, Some(tls)).await?;
    let url = format!("https://{}", proxy.address);
    fleet.add_from("alpha", &proxied(&fleet, &url), &KubeconfigPolicy::file())?;
    let expected =
        format!("through the proxy {url}: it cannot be reached: invalid peer certificate");
    wait(&format!("the reason {expected:?}"), || {
        match fleet.status("alpha") {
            Ok(status) if status.reason.contains(&expected) => Seen::Yes(()),
            seen => Seen::NotYet(format!("{seen:?}")),
        }
    })
    .await?;
    assert_eq!(proxy.asked(), [""; 0]);
    fleet.stop().await
}
