//! The files that a kubeconfig refers to. Entry points: [`resolve_cluster`] and [`resolve_user`].

use super::ConfigError;
use super::kubeconfig::{KubeconfigCluster, User};
use crate::file::{self, FileError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Largest file that a kubeconfig may refer to, in bytes. A bundle of all public authorities has a quarter of a MiB.
pub(crate) const MAX_REFERENCED: u64 = 4 << 20;

/// Fields and the files that they refer to.
pub(super) type Files = Vec<(&'static str, PathBuf)>;

pub(super) fn resolve_cluster(
    cluster: &mut KubeconfigCluster,
    base: Option<&Path>,
    files: &mut Files,
) {
    let path = &mut cluster.certificate_authority;
    resolve(path, "certificate-authority", base, files);
}

pub(super) fn resolve_user(user: &mut User, base: Option<&Path>, files: &mut Files) {
    resolve(&mut user.token_file, "tokenFile", base, files);
    let certificate = &mut user.client_certificate;
    resolve(certificate, "client-certificate", base, files);
    resolve(&mut user.client_key, "client-key", base, files);
    if let Some(command) = user.exec.as_mut().and_then(|exec| exec.command.as_mut()) {
        resolve_command(command, base);
    }
}

/// Makes a plugin's path relative to the kubeconfig's folder, as client-go does. A bare name is looked up in PATH.
fn resolve_command(command: &mut String, base: Option<&Path>) {
    if command.contains(std::path::MAIN_SEPARATOR)
        && let Some(base) = base
    {
        *command = base.join(&*command).to_string_lossy().into_owned();
    }
}

/// Makes a file reference absolute and records it.
fn resolve(
    value: &mut Option<String>,
    field: &'static str,
    base: Option<&Path>,
    files: &mut Files,
) {
    let Some(path) = value.as_ref().filter(|p| !p.is_empty()) else {
        return;
    };
    let path = base.map_or_else(|| PathBuf::from(path), |base| base.join(path));
    *value = Some(path.to_string_lossy().into_owned());
    files.push((field, path));
}

/// The certificate authorities of a cluster in PEM; `None`: it names none.
///
/// # Errors
/// The reason, as a message.
pub(super) fn authority(cluster: &KubeconfigCluster) -> Result<Option<Vec<u8>>, String> {
    let data = cluster.certificate_authority_data.as_deref();
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let decoded = STANDARD.decode(data);
        let decoded = decoded.map_err(|_| "certificate-authority-data is not base64".to_owned());
        return decoded.map(Some);
    }
    let path = cluster.certificate_authority.as_deref();
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    file::read(Path::new(path), MAX_REFERENCED)
        .map(Some)
        .map_err(|error| format!("certificate-authority {path:?} cannot be read: {error}"))
}

/// The certificates of a PEM text, in DER. Other sections are skipped.
///
/// # Errors
/// The reason, as a message.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    CertificateDer::pem_slice_iter(pem)
        .map(|certificate| certificate.map(|der| der.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|_| "certificate-authority holds no PEM".to_owned())
}

/// A digest of the present contents of files. One that cannot be read counts as empty here: its use gives the error.
///
/// # Errors
/// [`ConfigError::File`] if the process is out of descriptors, which is no change of a file.
pub(super) fn digest_files(files: &[PathBuf]) -> Result<[u8; 32], ConfigError> {
    let mut hash = Sha256::new();
    for path in files {
        let held = match file::read(path, MAX_REFERENCED) {
            Err(source @ FileError::NoDescriptors) => {
                let path = path.clone();
                return Err(ConfigError::File { path, source });
            }
            held => held.unwrap_or_default(),
        };
        hash.update(Sha256::digest(held));
    }
    Ok(hash.finalize().into())
}
