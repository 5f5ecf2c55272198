//! Why an image is not available. Entry point: [`RegistryError`].

use super::credentials::CredentialsError;
use super::digest::ImageDigest;
use super::manifest::LayoutError;
use super::policy::PolicyError;
use super::signature::SignatureError;
use http::StatusCode;
use std::path::PathBuf;
use std::time::Duration;

/// Why an image is not available. Never holds credentials.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistryError {
    /// No connection.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    /// No answer in time.
    #[error("{host} does not answer within {after:?}: check that the registry is up")]
    Timeout { host: String, after: Duration },
    /// The whole of it took too long.
    #[error("{image} did not come within {after:?}: raise spec.registries.timeout of the Manager")]
    Slow { image: String, after: Duration },
    /// The connection broke.
    #[error("the answer of {host} broke off: {reason}")]
    Broken { host: String, reason: String },
    /// A failure of the registry.
    #[error("{host} answers {status} to {method} {path}{detail}")]
    Status {
        host: String,
        status: StatusCode,
        method: String,
        path: String,
        /// What the registry says, in brackets.
        detail: String,
    },
    /// The registry does not let us.
    #[error("{host} denies access to {image} ({status}): {remedy}")]
    Denied {
        host: String,
        image: String,
        status: StatusCode,
        remedy: &'static str,
    },
    /// There is no such image.
    #[error("{0} is not in its registry: push it, or correct its name")]
    NotFound(String),
    /// More than is read.
    #[error("{what} has more than {most} bytes: {remedy}")]
    TooLarge {
        what: String,
        most: u64,
        remedy: &'static str,
    },
    /// Other bytes than asked for.
    #[error("{what} is not what was asked for: its digest is {found}, not {expected}")]
    Digest {
        what: String,
        expected: ImageDigest,
        found: ImageDigest,
    },
    /// An answer that no registry gives.
    #[error("{host} is not understood: {reason}")]
    Foreign { host: String, reason: String },
    /// It sends us where we do not go.
    #[error(
        "{host} refers to {to}, which is not HTTPS: allow the host in spec.registries.plainHttp of the Manager if its network is trusted"
    )]
    Plain { host: String, to: String },
    /// The image holds no guest.
    #[error("{image} {reason}")]
    Layout { image: String, reason: LayoutError },
    /// The tenant's policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Nobody signed it.
    #[error(
        "{0} is not signed: sign it with cosign sign --key and one of the keys in spec.guests.signatures.keys of the Tenant"
    )]
    Unsigned(String),
    /// Somebody else signed it.
    #[error("{image} has a signature that does not count: it {reason}")]
    Signature {
        image: String,
        reason: SignatureError,
    },
    /// The credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The Secret with the credentials cannot be read.
    #[error("the pull secret {secret} cannot be read: {reason}")]
    Secret { secret: String, reason: String },
    /// The Secret is there, and of no use.
    #[error("the pull secret {secret} cannot be used: {reason}")]
    SecretContent { secret: String, reason: String },
    /// The Secret is for other registries.
    #[error("the pull secret {secret} has no login for {host}: add one, or name another Secret")]
    NoLogin { secret: String, host: String },
    /// The file with the credentials cannot be read.
    #[error("{}: the logins of docker cannot be read: {reason}", .path.display())]
    DockerConfig { path: PathBuf, reason: String },
    /// The files of the cache cannot be written.
    #[error("{}: pulled images cannot be kept: {reason}", .path.display())]
    Store { path: PathBuf, reason: String },
    /// The files of an authority.
    #[error("{}: {reason}", .path.display())]
    Authority { path: PathBuf, reason: String },
}

impl RegistryError {
    /// Whether the registry gave no answer that counts, so that what it said last still holds.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Slow { .. }
            | Self::Broken { .. }
            | Self::Secret { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }
}
