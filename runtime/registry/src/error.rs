//! Why an image is not available. Entry point: [`RegistryError`].

use crate::credentials::CredentialsError;
use crate::digest::ImageDigest;
use crate::manifest::LayoutError;
use crate::policy::PolicyError;
use crate::signature::SignatureError;
use http::StatusCode;
use std::path::PathBuf;
use std::time::Duration;

/// Why an image is not available. Never holds credentials.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// No connection.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// The registry.
        host: String,
        /// The cause.
        reason: String,
    },
    /// No answer in time.
    #[error("{host} does not answer within {after:?}: check that the registry is up")]
    Timeout {
        /// The registry.
        host: String,
        /// The limit.
        after: Duration,
    },
    /// The whole of it took too long.
    #[error("{image} did not come within {after:?}: raise spec.registries.timeout of the Manager")]
    Slow {
        /// The image.
        image: String,
        /// The limit.
        after: Duration,
    },
    /// The connection broke.
    #[error("the answer of {host} broke off: {reason}")]
    Broken {
        /// The registry.
        host: String,
        /// The cause.
        reason: String,
    },
    /// A failure of the registry.
    #[error("{host} answers {status} to {method} {path}{detail}")]
    Status {
        /// The registry.
        host: String,
        /// The answer.
        status: StatusCode,
        /// Of the request.
        method: String,
        /// Of the request.
        path: String,
        /// What the registry says, in brackets.
        detail: String,
    },
    /// The registry does not let us.
    #[error("{host} denies access to {image} ({status}): {remedy}")]
    Denied {
        /// The registry.
        host: String,
        /// The image.
        image: String,
        /// The answer.
        status: StatusCode,
        /// What to do.
        remedy: &'static str,
    },
    /// There is no such image.
    #[error("{0} is not in its registry: push it, or correct its name")]
    NotFound(String),
    /// More than is read.
    #[error("{what} has more than {most} bytes: {remedy}")]
    TooLarge {
        /// What was read.
        what: String,
        /// The limit, in bytes.
        most: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// Other bytes than asked for.
    #[error("{what} is not what was asked for: its digest is {found}, not {expected}")]
    Digest {
        /// What was read.
        what: String,
        /// The digest that was asked for.
        expected: ImageDigest,
        /// The digest of what came.
        found: ImageDigest,
    },
    /// An answer that no registry gives.
    #[error("{host} is not understood: {reason}")]
    Foreign {
        /// The registry.
        host: String,
        /// The cause.
        reason: String,
    },
    /// It sends us where we do not go.
    #[error(
        "{host} refers to {to}, which is not HTTPS: allow the host in spec.registries.plainHttp of the Manager if its network is trusted"
    )]
    Plain {
        /// The registry.
        host: String,
        /// Where it refers to.
        to: String,
    },
    /// The image holds no guest.
    #[error("{image} {reason}")]
    Layout {
        /// The image.
        image: String,
        /// The cause.
        reason: LayoutError,
    },
    /// The tenant's policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Nobody signed it.
    #[error(
        "{0} is not signed: sign it with cosign sign, by a key or a signer in spec.guests.signatures of the Tenant"
    )]
    Unsigned(String),
    /// Somebody else signed it.
    #[error("{image} has a signature that does not count: it {reason}")]
    Signature {
        /// The image.
        image: String,
        /// The cause.
        reason: SignatureError,
    },
    /// The credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The Secret with the credentials cannot be read.
    #[error("the pull secret {secret} cannot be read: {reason}")]
    Secret {
        /// Its namespace and name.
        secret: String,
        /// The cause.
        reason: String,
    },
    /// The Secret is there, and of no use.
    #[error("the pull secret {secret} cannot be used: {reason}")]
    SecretContent {
        /// Its namespace and name.
        secret: String,
        /// The cause.
        reason: String,
    },
    /// The Secret is for other registries.
    #[error("the pull secret {secret} has no login for {host}: add one, or name another Secret")]
    NoLogin {
        /// Its namespace and name.
        secret: String,
        /// The registry.
        host: String,
    },
    /// The file with the credentials cannot be read.
    #[error("{}: the logins of docker cannot be read: {reason}", .path.display())]
    DockerConfig {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The files of the cache cannot be written.
    #[error("{}: pulled images cannot be kept: {reason}", .path.display())]
    Store {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The file that keyless signatures are trusted by.
    #[error("{}: the trusted root of spec.registries.trustedRoot cannot be used: {reason}", .path.display())]
    TrustedRoot {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The files of an authority.
    #[error("{}: {reason}", .path.display())]
    Authority {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
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
