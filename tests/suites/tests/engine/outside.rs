//! Calls of reconcilers to servers that are no API servers: authorities of a rule, and the proxy of the environment. A guest's calls go the
//! same way, through `Context::http`. Entry points: the tests below.

use super::fixture::{Log, bytes, client, config_map, controller, object};
use super::proxies::{Manner, TestProxy, tls_of};
use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_fleet::Action;
use windlass_fleet::api::{ApiCode, ApiError, WriteOptions};
use windlass_fleet::cluster::{ProxyFromEnvironment, TransportOptions};
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::outbound::{HttpGrant, HttpRequest, HttpResponse, HttpRule, HttpRuleText};
use windlass_harness::fleet::{TestFleet, request};
use windlass_harness::outside::Outside;

const CREDENTIAL: &str = "Bearer hunter2";

/// TLS in front of a server. Dropping it closes it to new connections.
struct Front {
    address: SocketAddr,
    _stop: DropGuard,
}

impl Front {
    async fn start(server: u16, tls: TlsAcceptor) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, stop) = (listener.local_addr()?, CancellationToken::new());
        let accept = async move {
            while let Ok((client, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    let mut client = tls.accept(client).await?;
                    let mut server = TcpStream::connect(("127.0.0.1", server)).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        };
        let token = stop.clone();
        tokio::spawn(async move { token.run_until_cancelled(accept).await });
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }
}

/// A rule for these servers, with a credential.
fn rule(hosts: &[&str], ports: &[u16], authority: Option<&str>) -> HttpRuleText {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    HttpRuleText {
        hosts: texts(hosts),
        ports: ports.into(),
        methods: texts(&["GET", "POST"]),
        addresses: texts(&["127.0.0.0/8"]),
        headers: vec![("Authorization".into(), CREDENTIAL.into())],
        authority: authority.map(str::to_owned),
        ..HttpRuleText::default()
    }
}

/// The answers that a reconciler gets, each under a rule of its own.
async fn answers(
    transport: TransportOptions,
    calls: Vec<(HttpRuleText, &str, String)>,
) -> Result<Vec<Result<HttpResponse, ApiError>>> {
    let calls = calls.into_iter().map(|(rule, method, url)| {
        let grant = Arc::new(HttpGrant::new(vec![HttpRule::new(rule)?], None));
        let request = HttpRequest {
            method: method.to_owned(),
            url,
            ..HttpRequest::default()
        };
        Ok((grant, request))
    });
    let calls: Arc<[_]> = calls.collect::<Result<Vec<_>>>()?.into();
    let (log, answers) = (Arc::new(Log::default()), Arc::<Mutex<Vec<_>>>::default());
    let taken = answers.clone();
    let asking = controller(&log, move |context| {
        let (calls, taken) = (calls.clone(), taken.clone());
        async move {
            for (grant, request) in calls.iter() {
                let answer = context.http(grant).send(request.clone()).await;
                taken.lock().push(answer);
            }
            Ok(Action::Done)
        }
    });
    let options = ManagerOptions {
        transport,
        ..ManagerOptions::default()
    };
    let fleet = TestFleet::start(&["alpha"], |b| b.options(options).controller(asking)).await?;
    let made = bytes(&object("made", json!({})));
    fleet.add("alpha")?;
    let alpha = fleet.ready("alpha").await?;
    client(&alpha)
        .create(&config_map(), made, &WriteOptions::default())
        .await?;
    log.ended(1).await?;
    assert_eq!(log.count(&request("alpha", "made")), 1);
    fleet.stop().await?;
    Ok(std::mem::take(&mut answers.lock()))
}

/// Why there is no answer.
fn refusal(answer: &Result<HttpResponse, ApiError>) -> Result<&ApiError> {
    answer.as_ref().err().context("a refusal")
}

#[tokio::test]
async fn a_server_with_an_authority_of_its_own_is_called_only_where_the_rule_names_it() -> Result<()>
{
    let server = Outside::start().await?;
    let ((tls, own), (_, other)) = (tls_of("localhost")?, tls_of("localhost")?);
    let front = Front::start(server.port, tls).await?;
    let port = front.address.port();
    let call = |host: &str, method, authority| {
        let url = format!("https://{host}:{port}/status/200");
        (rule(&[host], &[port], authority), method, url)
    };
    let calls = vec![
        call("localhost", "GET", None),
        call("localhost", "POST", Some(&*other)),
        // The certificate is of another name.
        call("127.0.0.1", "GET", Some(&*own)),
        call("localhost", "GET", Some(&*own)),
        call("localhost", "POST", Some(&*own)),
    ];
    let answers = answers(TransportOptions::default(), calls).await?;
    for refused in &answers[..3] {
        let error = refusal(refused)?;
        assert_eq!(error.code, ApiCode::Unavailable, "{error:?}");
        let why = "invalid peer certificate";
        assert!(error.message.contains(why), "{error:?}");
    }
    for answer in &answers[3..] {
        let answer = answer
            .as_ref()
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
        assert_eq!(answer.status, 200);
    }
    let heads = server.heads();
    let line = format!("authorization: {CREDENTIAL}\r\n");
    assert_eq!(heads.len(), 2, "{heads:?}");
    assert!(heads.iter().all(|head| head.contains(&line)), "{heads:?}");
    Ok(())
}

#[tokio::test]
async fn calls_go_through_the_environments_proxy_which_sees_nothing_of_those_with_tls() -> Result<()>
{
    let server = Outside::start().await?;
    let (tls, own) = tls_of("api.example.com")?;
    let front = Front::start(server.port, tls).await?;
    let plain = SocketAddr::from(([127, 0, 0, 1], server.port));
    let tunnel = TestProxy::start(front.address, Manner::Connect, None).await?;
    let forwarder = TestProxy::start(plain, Manner::ConnectWithLogin, None).await?;
    let variables = |name: &str| match name {
        "HTTPS_PROXY" => Some(tunnel.url("")),
        "HTTP_PROXY" => Some(forwarder.url("me:p%40ss@")),
        _ => None,
    };
    let transport = TransportOptions {
        proxy: ProxyFromEnvironment::read(variables)?,
        ..TransportOptions::default()
    };
    // Only the proxies know the name.
    let to = |url: &str, authority| {
        let mut rule = rule(
            &["api.example.com", "10.0.0.1", "localhost"],
            &[],
            authority,
        );
        rule.plain = true;
        rule.ports = vec![80, 443, server.port];
        (rule, "GET", url.to_owned())
    };
    let direct = format!("http://localhost:{}/status/204", server.port);
    let calls = vec![
        to("https://api.example.com/status/200?a=b", Some(&*own)),
        to("https://api.example.com/status/200", None),
        to("http://api.example.com/status/200", None),
        to("https://10.0.0.1/status/200", Some(&*own)),
        to("https://other.example.com/status/200", Some(&*own)),
        to(&direct, None),
    ];
    let answers = answers(transport, calls).await?;
    let shown = format!("{answers:?}");
    let status = |at: usize| answers[at].as_ref().ok().map(|answer| answer.status);
    assert_eq!(
        (status(0), status(2), status(5)),
        (Some(200), Some(200), Some(204)),
        "{shown}"
    );
    let unknown = refusal(&answers[1])?;
    assert!(
        unknown.message.contains("invalid peer certificate"),
        "{unknown:?}"
    );
    for at in [3, 4] {
        assert_eq!(refusal(&answers[at])?.code, ApiCode::Denied, "{shown}");
    }
    assert_eq!(tunnel.asked(), ["CONNECT api.example.com:443 HTTP/1.1"; 2]);
    let forwarded = "GET http://api.example.com/status/200 HTTP/1.1";
    assert_eq!(forwarder.asked(), [forwarded]);
    Ok(())
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_to_the_caller_without_its_password() -> Result<()> {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let proxy = TestProxy::start(nowhere, Manner::ConnectWithLogin, None).await?;
    let variables = |name: &str| (name == "HTTPS_PROXY").then(|| proxy.url("me:hush@"));
    let transport = TransportOptions {
        proxy: ProxyFromEnvironment::read(variables)?,
        ..TransportOptions::default()
    };
    let rule = rule(&["api.example.com"], &[], None);
    let calls = vec![(rule, "POST", "https://api.example.com/v1".to_owned())];
    let answers = answers(transport, calls).await?;
    let error = refusal(&answers[0])?;
    let why = format!(
        "through the proxy {}: it rejects the user or the password",
        proxy.url("")
    );
    assert_eq!(error.code, ApiCode::Unavailable);
    assert!(
        error.message.contains(&why) && !error.message.contains("hush"),
        "{error:?}"
    );
    Ok(())
}
