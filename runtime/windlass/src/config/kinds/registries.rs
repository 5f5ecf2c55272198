//! How registries of images are reached. Entry point: [`RegistriesSpec`].

use crate::config::kinds::bounded::{GI, HOUR, MI, SECOND, TI};
use crate::config::kinds::{Bytes, Interval, Items, Refusal, Within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use windlass_registry::is_host;

/// How registries are reached, and what is kept of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct RegistriesSpec {
    /// A file of authorities (PEM) for registries, beside the system's. Relative to the document's folder. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Sigstore's `trusted_root.json`, which keyless signatures are verified with. Relative to the document's folder. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trusted_root: Option<PathBuf>,
    /// Hosts, with their ports, that are spoken to without TLS. Default: none.
    pub(crate) plain_http: Items<String, 0, 100>,
    /// The file with docker's logins, relative to the document's folder. Default: docker's own file, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) docker_config: Option<PathBuf>,
    /// Largest component that is pulled. Default: 64Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_component: Option<Within<Bytes, MI, { 64 * MI }>>,
    /// Pulled images that are kept on disk. Default: 1Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_size: Option<Within<Bytes, { 64 * MI }, TI>>,
    /// Time to look an image up and to pull it. Default: 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Within<Interval, SECOND, HOUR>>,
}

impl RegistriesSpec {
    /// Largest component, in bytes, the default filled in.
    pub(crate) fn max_component(&self) -> u64 {
        self.max_component.map_or(64 * MI, |size| size.get().0)
    }

    /// Bytes of images that are kept, the default filled in.
    pub(crate) fn cache_size(&self) -> u64 {
        self.cache_size.map_or(GI, |size| size.get().0)
    }

    /// Time for an image, the default filled in.
    pub(crate) fn timeout(&self) -> Interval {
        self.timeout.map_or(Interval::seconds(300), Within::get)
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let path = "spec.registries.plainHttp";
        if let Some(host) = self.plain_http.iter().find(|host| !is_host(host)) {
            let message = format!(
                "{host:?} is not a host of a registry: write its name and its port, for example registry.test:5000"
            );
            return Err(Refusal::new(path, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let host = RegistriesSpec {
            plain_http: Items::new(vec!["http://registry:5000".to_owned()]).unwrap(),
            ..RegistriesSpec::default()
        };
        assert_eq!(host.check().unwrap_err().path, "spec.registries.plainHttp");
        assert_eq!(RegistriesSpec::default().check(), Ok(()));
    }
}
