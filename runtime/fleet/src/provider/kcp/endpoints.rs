//! The endpoints that slices and workspace types name. Entry point: [`Wanted::read`].

use super::members::Members;
use super::{KcpOptions, Workspaces};
use crate::cluster::ClusterConfig;
use crate::engage::Engage;
use crate::hub::{HubObject, HubWatch};
use crate::provider::Problem;
use crate::workspace::WILDCARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most endpoints of a provider: one for each shard.
const MOST: usize = 1000;

/// An endpoint that is watched.
pub(super) struct Endpoint {
    /// How all of its workspaces are reached.
    pub(super) config: ClusterConfig,
    /// Holds the endpoint's hub.
    pub(super) watch: Arc<HubWatch>,
    /// Its workspaces, as they were when a list of them was in last.
    pub(super) members: Members,
}

impl Endpoint {
    /// Reads its workspaces, if a list of them is in. Returns whether it is.
    pub(super) fn read(&mut self, workspaces: &Workspaces) -> bool {
        let listed = self.watch.listed();
        if listed {
            self.members.read(workspaces, self.watch.objects());
        }
        listed
    }
}

/// The endpoints that there should be, by URL.
pub(super) struct Wanted<'a> {
    options: &'a KcpOptions,
    configs: BTreeMap<String, ClusterConfig>,
    /// URLs whose server may not be used.
    refused: Vec<String>,
}

#[derive(Deserialize)]
struct Slice {
    #[serde(default)]
    spec: SliceSpec,
    #[serde(default)]
    status: SliceStatus,
}

#[derive(Default, Deserialize)]
struct SliceSpec {
    #[serde(default)]
    export: ExportReference,
}

#[derive(Default, Deserialize)]
struct ExportReference {
    #[serde(default)]
    path: String,
    #[serde(default)]
    name: String,
}

/// Of a slice, or of a workspace type.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceStatus {
    #[serde(default)]
    endpoints: Option<Vec<Url>>,
    #[serde(default)]
    virtual_workspaces: Option<Vec<Url>>,
}

#[derive(Deserialize)]
struct Url {
    #[serde(default)]
    url: String,
}

impl<'a> Wanted<'a> {
    /// Reads the endpoints of the slices or types of a hub.
    pub(super) fn read(
        options: &'a KcpOptions,
        source: &HubWatch,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut wanted = Self {
            options,
            configs: BTreeMap::new(),
            refused: Vec::new(),
        };
        let objects = source.objects();
        if objects.is_empty() {
            problems.push(Problem {
                subject: source.hub().server(),
                message: options.workspaces.absent(),
            });
        }
        let credentials = source.hub().config();
        for object in objects {
            match urls(&options.workspaces, &object) {
                Ok(urls) => wanted.add(urls, &credentials, problems),
                Err(message) => problems.push(Problem {
                    subject: object.key().to_string(),
                    message,
                }),
            }
        }
        wanted
    }

    fn add(&mut self, urls: Vec<String>, credentials: &ClusterConfig, problems: &mut Vec<Problem>) {
        for url in urls {
            let address = format!("{}{WILDCARD}", url.trim_end_matches('/'));
            let allowed = self.options.allow_servers.as_ref();
            match credentials.at_endpoint(&address, allowed) {
                Ok(config) if self.configs.len() < MOST => {
                    self.configs.insert(url, config);
                }
                Ok(_) => {}
                Err(error) => {
                    problems.push(Problem {
                        subject: url.clone(),
                        message: error.to_string(),
                    });
                    self.refused.push(url);
                }
            }
        }
    }

    /// Ends endpoints that are not wanted, opens those that are, and gives all of them the current credentials.
    pub(super) fn bring_in_line(
        self,
        endpoints: &mut BTreeMap<String, Endpoint>,
        engage: &dyn Engage,
        problems: &mut Vec<Problem>,
    ) {
        endpoints.retain(|url, _| self.configs.contains_key(url) || self.refused.contains(url));
        for (url, config) in self.configs {
            let current = endpoints.get_mut(&url);
            if let Some(current) = &current
                && current.config.same(&config)
                && !current.watch.hub().is_gone()
            {
                continue;
            }
            // With other credentials it is the same hub, which exchanges them.
            let hub = match engage.hub(Some(config.clone())) {
                Ok(hub) => hub,
                Err(error) => {
                    let message = error.to_string();
                    let subject = url;
                    problems.push(Problem { subject, message });
                    continue;
                }
            };
            match current {
                Some(current) => {
                    current.config = config;
                    if !current.watch.hub().is(&hub) {
                        current.watch = Arc::new(self.options.workspaces.watch_members(&hub));
                    }
                }
                None => {
                    let endpoint = Endpoint {
                        config,
                        watch: Arc::new(self.options.workspaces.watch_members(&hub)),
                        members: Members::default(),
                    };
                    endpoints.insert(url, endpoint);
                }
            }
        }
    }
}

/// The URLs of endpoints that an object names.
fn urls(workspaces: &Workspaces, object: &HubObject) -> Result<Vec<String>, String> {
    let slice: Slice = object.parse().map_err(|error| error.to_string())?;
    let all = match workspaces {
        Workspaces::EndpointSlice(_) => slice.status.endpoints,
        Workspaces::Export { name, path } => {
            let export = slice.spec.export;
            let is_it =
                export.name == *name && path.as_ref().is_none_or(|path| export.path == *path);
            slice.status.endpoints.filter(|_| is_it)
        }
        Workspaces::Initializing(_) => of_service(slice, "/initializingworkspaces/"),
        Workspaces::Terminating(_) => of_service(slice, "/terminatingworkspaces/"),
    };
    let all = all.unwrap_or_default().into_iter().map(|of| of.url);
    Ok(all.filter(|url| !url.is_empty()).collect())
}

/// The endpoints of a workspace type for one service: the path of their URLs tells them apart.
fn of_service(slice: Slice, service: &str) -> Option<Vec<Url>> {
    let mut all = slice.status.virtual_workspaces?;
    all.retain(|of| of.url.contains(service));
    Some(all)
}

impl Workspaces {
    /// What to do when the object that has the URLs does not exist.
    fn absent(&self) -> String {
        match self {
            Self::EndpointSlice(name) => format!(
                "no APIExportEndpointSlice {name:?} there: name one of the export's slices, and use a kubeconfig of the workspace that has it"
            ),
            Self::Export { name, .. } => format!(
                "no APIExportEndpointSlice there is for the export {name:?}: use a kubeconfig of the workspace that has one"
            ),
            Self::Initializing(name) | Self::Terminating(name) => format!(
                "no WorkspaceType {name:?} there: use a kubeconfig of the workspace that has it"
            ),
        }
    }
}
