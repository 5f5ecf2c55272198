//! The Providers that read the in-memory kcp of `dev`. Entry point: [`providers`].

use crate::config::clusters::provider;
use crate::config::kinds::{HubSpec, KcpSpec, ProviderSpec, Refusal, Source};
use crate::config::load::{Configuration, Document};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::sync::Arc;
use windlass_apiserver::Server;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::kcp::Workspaces as Whose;

/// The Providers of workspaces, as `run` makes them, but that they read the in-memory kcp.
///
/// # Errors
/// When the workspace that a Provider has to read is not found.
pub(super) fn providers(
    server: &Server,
    configuration: &Configuration,
    kubeconfig: &Path,
) -> Result<Vec<Arc<dyn Provider>>> {
    let kubeconfig = kubeconfig.canonicalize().context("find the kubeconfig")?;
    let mut providers = Vec::new();
    for (document, spec) in configuration.providers() {
        let Ok(Source::Kcp(kcp)) = spec.source() else {
            continue;
        };
        let from = HubSpec {
            kubeconfig: Some(kubeconfig.clone()),
            context: Some(read_by(server, document, kcp)?),
            kubeconfig_secret: None,
        };
        let spec = ProviderSpec {
            kcp: Some(KcpSpec {
                from: Some(from),
                ..kcp.clone()
            }),
            // The real hosts.
            allow_servers: None,
            ..spec.clone()
        };
        let provider = provider(document, &spec);
        providers.push(provider.map_err(|problem| anyhow::anyhow!("{problem}"))?);
    }
    Ok(providers)
}

/// The path of the workspace that a Provider reads: the one that its context is named by, else the one that has what it reads.
fn read_by(server: &Server, document: &Document, kcp: &KcpSpec) -> Result<String> {
    let refused = |refusal: Refusal| document.problem(refusal.message);
    let wanted = kcp.workspaces().map_err(refused);
    let wanted = wanted.map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let named = kcp.from.as_ref().and_then(|from| from.context.as_deref());
    if let Some(path) = named.filter(|path| server.workspace(path).is_some()) {
        return Ok(path.to_owned());
    }
    let paths = server.workspaces().into_iter();
    let found: Vec<String> = paths.filter(|path| has(server, path, &wanted)).collect();
    let what = match &wanted {
        Whose::EndpointSlice(name) => format!("an APIExportEndpointSlice {name:?}"),
        Whose::Export { name, .. } => format!("an APIExport {name:?}"),
        Whose::Initializing(name) | Whose::Terminating(name) => format!("a WorkspaceType {name:?}"),
    };
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => bail!(
            "{}: no workspace of the seed has {what}: put it into seed/kcp/<workspace>, or name a workspace in spec.kcp.from.context",
            document.identity
        ),
        several => bail!(
            "{}: several workspaces of the seed have {what}, {}: name one of them in spec.kcp.from.context",
            document.identity,
            several.join(" and ")
        ),
    }
}

/// Whether a workspace has what a Provider reads.
fn has(server: &Server, path: &str, wanted: &Whose) -> bool {
    let has = |version, kind, name: &str| {
        let found = server.workspace(path)?.get(version, kind, "", name);
        found.ok().flatten()
    };
    let apis = "apis.kcp.io/v1alpha1";
    let found = match wanted {
        Whose::EndpointSlice(name) => has(apis, "APIExportEndpointSlice", name),
        Whose::Export { path: at, .. } if at.as_deref().is_some_and(|at| at != path) => None,
        Whose::Export { name, .. } => has(apis, "APIExport", name),
        Whose::Initializing(name) | Whose::Terminating(name) => {
            has("tenancy.kcp.io/v1alpha1", "WorkspaceType", name)
        }
    };
    found.is_some()
}
