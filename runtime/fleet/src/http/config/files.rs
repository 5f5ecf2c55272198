//! The files that a kubeconfig names: where they are, and what they hold. Entry points: [`resolve_cluster`] and [`resolve_user`].

use super::ConfigError;
use crate::file::{self, FileError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_client::config::{NamedAuthInfo, NamedCluster};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Largest file that a kubeconfig may refer to, in bytes: a bundle of all public authorities has a quarter of a MiB.
pub(crate) const MAX_REFERENCED: u64 = 4 << 20;

/// Fields and the files that they name.
pub(super) type Files = Vec<(&'static str, PathBuf)>;

pub(super) fn resolve_cluster(cluster: &mut NamedCluster, base: Option<&Path>, files: &mut Files) {
    if let Some(cluster) = &mut cluster.cluster {
        resolve(
            &mut cluster.certificate_authority,
            "certificate-authority",
            base,
            files,
        );
    }
}

pub(super) fn resolve_user(user: &mut NamedAuthInfo, base: Option<&Path>, files: &mut Files) {
    if let Some(auth) = &mut user.auth_info {
        resolve(&mut auth.token_file, "tokenFile", base, files);
        resolve(
            &mut auth.client_certificate,
            "client-certificate",
            base,
            files,
        );
        resolve(&mut auth.client_key, "client-key", base, files);
        if let Some(command) = auth.exec.as_mut().and_then(|exec| exec.command.as_mut()) {
            resolve_command(command, base);
        }
    }
}

/// Takes a plugin's path from the kubeconfig's folder, as client-go does; a bare name is looked up in PATH.
fn resolve_command(command: &mut String, base: Option<&Path>) {
    if command.contains(std::path::MAIN_SEPARATOR)
        && let Some(base) = base
    {
        *command = base.join(&*command).to_string_lossy().into_owned();
    }
}

/// Makes a file reference absolute and notes it.
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

/// Puts what the authority's file holds in place of the file: kube would read it whatever it is.
pub(super) fn inline_authority(
    cluster: &mut NamedCluster,
    context: &str,
) -> Result<(), ConfigError> {
    let Some(cluster) = &mut cluster.cluster else {
        return Ok(());
    };
    if cluster.certificate_authority_data.is_some() {
        return Ok(());
    }
    let path = cluster.certificate_authority.take();
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        let held = file::read(Path::new(&path), MAX_REFERENCED);
        let held = held.map_err(|error| ConfigError::Unusable {
            context: context.to_owned(),
            reason: format!("certificate-authority {path:?} cannot be read: {error}"),
        })?;
        cluster.certificate_authority_data = Some(STANDARD.encode(held));
    }
    Ok(())
}

/// What files hold now. Which of them cannot be used is said where they are.
///
/// # Errors
/// [`ConfigError::File`], when the process is out of descriptors: otherwise each lack would look like a change of the files.
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
