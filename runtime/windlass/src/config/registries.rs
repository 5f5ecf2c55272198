//! How registries are reached, by the Manager's document and the environment. Entry point: [`options`].

use crate::config::load::Configuration;
use crate::config::proxy;
use anyhow::Result;
use std::path::{Path, PathBuf};
use windlass_registry::RegistryOptions;

/// The options of a configuration. `cache` is the folder of compiled guests, if there is one: pulled images are in a folder of it.
///
/// # Errors
/// When the proxy of the environment cannot be used.
pub(crate) fn options(
    configuration: &Configuration,
    cache: Option<&Path>,
) -> Result<RegistryOptions> {
    let manager = configuration.manager();
    let resolve = |path: &Option<PathBuf>| {
        let (document, _) = manager?;
        Some(document.resolve(path.as_ref()?))
    };
    let spec = configuration.manager_spec().registries;
    Ok(RegistryOptions {
        authorities: resolve(&spec.certificate_authority),
        trusted_root: resolve(&spec.trusted_root),
        docker_config: resolve(&spec.docker_config),
        usual_docker_config: usual_docker_config(),
        proxy: proxy::from_environment()?,
        folder: cache.map(|cache| cache.join("pulled")),
        temporary: std::env::temp_dir(),
        kept_bytes: spec.cache_size(),
        largest: spec.max_component(),
        timeout: spec.timeout().0,
        plain_http: spec.plain_http.to_vec(),
    })
}

/// docker's configuration of this user.
fn usual_docker_config() -> Option<PathBuf> {
    let folder = |variable| std::env::var_os(variable).filter(|value| !value.is_empty());
    let folder = match folder("DOCKER_CONFIG") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(folder("HOME")?).join(".docker"),
    };
    Some(folder.join("config.json"))
}
