//! How registries of images are reached. Entry point: [`RegistriesSpec`].

use crate::config::kinds::{Bytes, Interval, Refusal, within};
use crate::registry::is_host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most hosts in `spec.registries.plainHttp`.
const MAX_HOSTS: usize = 100;

/// How registries are reached, and what is kept of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct RegistriesSpec {
    /// A file of authorities (PEM) for registries, beside the system's. Relative to the document's folder. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Hosts, with their ports, that are spoken to without TLS; up to 100. Default: none.
    pub(crate) plain_http: Vec<String>,
    /// The file with docker's logins, relative to the document's folder. Default: docker's own file, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) docker_config: Option<PathBuf>,
    /// Largest component that is pulled, 1Mi to 64Mi. Default: 64Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_component: Option<Bytes>,
    /// Pulled images that are kept on disk, 64Mi to 1Ti. Default: 1Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_size: Option<Bytes>,
    /// Time to look an image up and to pull it, 1s to 1h. Default: 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Interval>,
}

impl RegistriesSpec {
    /// Largest component, in bytes, the default filled in.
    pub(crate) fn max_component(&self) -> u64 {
        self.max_component.unwrap_or(Bytes::mebibytes(64)).0
    }

    /// Bytes of images that are kept, the default filled in.
    pub(crate) fn cache_size(&self) -> u64 {
        self.cache_size.unwrap_or(Bytes::mebibytes(1024)).0
    }

    /// Time for an image, the default filled in.
    pub(crate) fn timeout(&self) -> Interval {
        self.timeout.unwrap_or(Interval::seconds(300))
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let path = "spec.registries.plainHttp";
        within(path, self.plain_http.len(), &(0..=MAX_HOSTS))?;
        if let Some(host) = self.plain_http.iter().find(|host| !is_host(host)) {
            let message = format!(
                "{host:?} is not a host of a registry: write its name and its port, for example registry.test:5000"
            );
            return Err(Refusal::new(path, message));
        }
        let mebibytes = |least, most| Bytes::mebibytes(least)..=Bytes::mebibytes(most);
        let sizes = [
            (
                "spec.registries.maxComponent",
                self.max_component,
                mebibytes(1, 64),
            ),
            (
                "spec.registries.cacheSize",
                self.cache_size,
                mebibytes(64, 1 << 20),
            ),
        ];
        for (path, size, range) in sizes {
            size.map_or(Ok(()), |size| within(path, size, &range))?;
        }
        let times = Interval::seconds(1)..=Interval::seconds(3600);
        self.timeout.map_or(Ok(()), |timeout| {
            within("spec.registries.timeout", timeout, &times)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let host = RegistriesSpec {
            plain_http: vec!["http://registry:5000".to_owned()],
            ..RegistriesSpec::default()
        };
        assert_eq!(host.check().unwrap_err().path, "spec.registries.plainHttp");
        let size = RegistriesSpec {
            max_component: Some(Bytes::mebibytes(65)),
            ..RegistriesSpec::default()
        };
        assert_eq!(
            size.check().unwrap_err().path,
            "spec.registries.maxComponent"
        );
        assert_eq!(RegistriesSpec::default().check(), Ok(()));
    }
}
