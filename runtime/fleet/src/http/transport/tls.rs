//! TLS for one server: the trusted authorities and the client certificate. Entry point: [`client_config`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// The servers that are trusted.
pub(super) enum Trust<'a> {
    /// Servers with a certificate of one of these authorities, in DER.
    Authorities(&'a [Vec<u8>]),
    /// All servers: `insecure-skip-tls-verify`.
    Anyone,
}

/// A client's certificate chain and key, PEM in base64 as in a kubeconfig.
pub(super) struct ClientCertificate<'a> {
    pub(super) chain: &'a str,
    pub(super) key: &'a str,
}

/// # Errors
/// The field that cannot be used, as a message. Never a key.
pub(super) fn client_config(
    trust: &Trust<'_>,
    client: Option<&ClientCertificate<'_>>,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if let Trust::Authorities(authorities) = trust {
        for der in *authorities {
            let added = roots.add(CertificateDer::from(der.clone()));
            added.map_err(|error| format!("certificate-authority cannot be used: {error}"))?;
        }
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match client {
        Some(client) => {
            let (chain, key) = client.read()?;
            let config = builder.with_client_auth_cert(chain, key);
            config
                .map_err(|_| "the client key cannot be used, or belongs to another certificate")?
        }
        None => builder.with_no_client_auth(),
    };
    if matches!(trust, Trust::Anyone) {
        let verifier = TrustAnyone::new(config.crypto_provider());
        let mut dangerous = config.dangerous();
        dangerous.set_certificate_verifier(Arc::new(verifier));
    }
    Ok(config)
}

impl ClientCertificate<'_> {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let decode = |data: &str, what: &str| {
            let decoded = STANDARD.decode(data);
            decoded.map_err(|_| format!("{what} is not base64"))
        };
        let chain = decode(self.chain, "client-certificate-data")?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
        let chain = chain.map_err(|_| "the client certificate is not PEM")?;
        if chain.is_empty() {
            return Err("the client certificate holds no certificate".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(&decode(self.key, "client-key-data")?);
        let key = key.map_err(|_| "the client key is no private key in PEM")?;
        Ok((chain, key))
    }
}

/// Accepts any server's certificate. Signatures are checked, so the server has the key of its certificate.
#[derive(Debug)]
struct TrustAnyone {
    algorithms: WebPkiSupportedAlgorithms,
}

impl TrustAnyone {
    fn new(provider: &CryptoProvider) -> Self {
        let algorithms = provider.signature_verification_algorithms;
        Self { algorithms }
    }
}

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
