//! TLS, protocols and who is admitted, asked over real connections. Entry point: [`ask`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use windlass_apiserver::{ClientCertificate, Server};

type Failure = Box<dyn std::error::Error>;

/// How a client asks: the authority it trusts, what it shows and what it speaks.
#[derive(Default, Clone, Copy)]
struct Client<'a> {
    ca: &'a str,
    token: Option<&'a str>,
    certificate: Option<&'a ClientCertificate>,
}

/// The protocol that was agreed on and the status of the answer.
async fn ask(server: &Server, client: Client<'_>) -> Result<(String, u16), Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(client.ca.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match client.certificate {
        None => builder.with_no_client_auth(),
        Some(pem) => builder.with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(pem.certificate.as_bytes())?],
            PrivateKeyDer::from_pem_slice(pem.key.as_bytes())?,
        )?,
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let tcp = TcpStream::connect(server.address()).await?;
    let name = ServerName::IpAddress(server.address().ip().into());
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await?;
    let protocol = stream.get_ref().1.alpn_protocol().unwrap_or_default();
    let protocol = String::from_utf8(protocol.to_vec())?;
    let mut request = Request::get(format!("{}/api/v1/namespaces", server.url("alpha")));
    if let Some(token) = client.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Empty::<Bytes>::new())?;
    let io = TokioIo::new(stream);
    let status = if protocol == "h2" {
        let (mut send, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
        tokio::spawn(connection);
        send.send_request(request).await?.status()
    } else {
        let (mut send, connection) = hyper::client::conn::http1::handshake(io).await?;
        tokio::spawn(connection);
        send.send_request(request).await?.status()
    };
    Ok((protocol, status.as_u16()))
}

fn builder() -> windlass_apiserver::Builder {
    Server::builder().cluster("alpha").tls()
}

#[tokio::test]
async fn a_server_with_tls_speaks_http2_unless_told_not_to() -> Result<(), Failure> {
    for (builder, protocol) in [(builder(), "h2"), (builder().http1_only(), "http/1.1")] {
        let server = builder.bind("127.0.0.1:0").await?;
        let ca = server.ca().expect("tls has an authority");
        let client = Client {
            ca: &ca,
            ..Client::default()
        };
        assert_eq!(ask(&server, client).await?, (protocol.to_owned(), 200));
        assert!(server.kubeconfig().contains("certificate-authority-data"));
        assert_eq!(server.connections().accepted, 1);
    }
    Ok(())
}

#[tokio::test]
async fn only_who_shows_an_accepted_token_or_certificate_is_admitted() -> Result<(), Failure> {
    let server = builder().bind("127.0.0.1:0").await?;
    let ca = server.ca().expect("tls has an authority");
    let anonymous = Client {
        ca: &ca,
        ..Client::default()
    };
    let bearer = Client {
        token: Some("one"),
        ..anonymous
    };
    server.set_tokens(Some(&["one"]));
    assert_eq!(ask(&server, anonymous).await?.1, 401);
    assert_eq!(ask(&server, bearer).await?.1, 200);
    server.set_tokens(Some(&["two"]));
    assert_eq!(ask(&server, bearer).await?.1, 401);
    let certificate = server
        .issue_certificate("robot", Duration::from_secs(60))?
        .expect("tls has an authority");
    let certified = Client {
        certificate: Some(&certificate),
        ..anonymous
    };
    assert_eq!(ask(&server, certified).await?.1, 200);
    Ok(())
}

#[tokio::test]
async fn another_authority_holds_for_new_connections() -> Result<(), Failure> {
    let server = builder().bind("127.0.0.1:0").await?;
    let old = server.ca().expect("tls has an authority");
    server.rotate_ca()?;
    let new = server.ca().expect("tls has an authority");
    let client = |ca| Client {
        ca,
        ..Client::default()
    };
    assert!(ask(&server, client(&old)).await.is_err());
    assert_eq!(ask(&server, client(&new)).await?.1, 200);
    Ok(())
}
