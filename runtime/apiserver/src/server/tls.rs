//! TLS with a certificate authority of the server's own: [`Tls`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take for its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate could not be made.
    #[error("a certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library refused what was made.
    #[error("tls cannot be set up with the server's own certificates")]
    Config(#[from] rustls::Error),
    /// Client certificates cannot be verified.
    #[error("client certificates cannot be verified against the server's own authority")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// A client certificate and its key, both PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// The authority now, and what new connections are served with.
pub(super) struct Tls {
    http2: bool,
    addresses: Vec<IpAddr>,
    now: Mutex<Authority>,
}

struct Authority {
    ca: CertifiedIssuer<'static, KeyPair>,
    config: Arc<ServerConfig>,
}

impl Tls {
    pub(super) fn new(bound: SocketAddr, http2: bool) -> Result<Self, TlsError> {
        let addresses = vec![
            bound.ip(),
            IpAddr::from([127, 0, 0, 1]),
            std::net::Ipv6Addr::LOCALHOST.into(),
        ];
        let now = Mutex::new(authority(&addresses, http2)?);
        Ok(Self {
            http2,
            addresses,
            now,
        })
    }

    pub(super) fn ca_pem(&self) -> String {
        self.now.lock().ca.pem()
    }

    /// Puts a new authority and server certificate in place; connections that stand are left alone.
    pub(super) fn rotate(&self) -> Result<(), TlsError> {
        *self.now.lock() = authority(&self.addresses, self.http2)?;
        Ok(())
    }

    pub(super) fn issue(&self, name: &str, valid: Duration) -> Result<ClientCertificate, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = (SystemTime::now() - Duration::from_secs(60)).into();
        params.not_after = (SystemTime::now() + valid).into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.now.lock().ca)?;
        Ok(ClientCertificate {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> std::io::Result<TlsStream<S>> {
        let acceptor = TlsAcceptor::from(self.now.lock().config.clone());
        tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await?
    }
}

fn authority(addresses: &[IpAddr], http2: bool) -> Result<Authority, TlsError> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "windlass-apiserver");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

    let mut names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    names.push("localhost".to_owned());
    let mut params = CertificateParams::new(names)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &ca)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.der().clone())?;
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.alpn_protocols = if http2 {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    } else {
        vec![b"http/1.1".to_vec()]
    };
    Ok(Authority {
        ca,
        config: Arc::new(config),
    })
}
