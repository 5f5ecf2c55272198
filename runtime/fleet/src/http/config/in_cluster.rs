//! The service account of the pod that this process runs in. Entry point: [`access`].

use super::files::{MAX_REFERENCED, certificates};
use super::{Access, ConfigError};
use crate::file;
use http::Uri;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Where the kubelet mounts the service account.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// As client-go's `InClusterConfig`: the address from the environment, which only the program reads, the rest from the mounted files.
///
/// # Errors
/// [`ConfigError::InCluster`].
pub(super) fn access(host: &str, port: &str) -> Result<Access, ConfigError> {
    let folder = Path::new(FOLDER);
    url(host, port)
        .and_then(|url| read(folder, url))
        .map_err(ConfigError::InCluster)
}

fn read(folder: &Path, url: Uri) -> Result<Access, String> {
    let mut access = Access::of_url(url);
    let read = |path: &PathBuf| {
        let bytes = file::read(path, MAX_REFERENCED);
        bytes.map_err(|error| format!("{path:?} cannot be read: {error}"))
    };
    let authority = folder.join("ca.crt");
    access.authorities = Some(certificates(&read(&authority)?)?);
    access.authorities_file = Some(authority);
    let namespace = String::from_utf8(read(&folder.join("namespace"))?);
    let namespace = namespace.map_err(|_| "the namespace is no text".to_owned())?;
    namespace.trim().clone_into(&mut access.namespace);
    let token = folder.join("token");
    access.user.token_file = Some(token.to_string_lossy().into_owned());
    Ok(access)
}

fn url(host: &str, port: &str) -> Result<Uri, String> {
    let host = match host.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => host.to_owned(),
    };
    format!("https://{host}:{port}")
        .parse()
        .map_err(|_| "KUBERNETES_SERVICE_HOST and _PORT are no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_either_family_and_a_name_make_a_url() {
        for (host, expected) in [
            ("10.1.2.3", "https://10.1.2.3:443/"),
            ("2001:db8::1", "https://[2001:db8::1]:443/"),
            (
                "kubernetes.default.svc",
                "https://kubernetes.default.svc:443/",
            ),
        ] {
            assert_eq!(url(host, "443").unwrap().to_string(), expected);
        }
        assert!(url("a b", "443").is_err());
    }
}
