//! The permissions that Providers need in the hubs that they read. Entry points: [`Hub::of`], [`in_local`] and [`definitions`].

use crate::config::kinds::{HubSecretSpec, HubSpec, KcpSpec, ProviderSpec, Source};
use crate::config::load::Configuration;
use windlass_fleet::grant::{Right, RuleSet, Verb};

/// Group and resource of the objects that Providers read.
const SECRETS: (&str, &str) = ("", "secrets");
const NAMESPACES: (&str, &str) = ("", "namespaces");
const PROFILES: (&str, &str) = ("multicluster.x-k8s.io", "clusterprofiles");
const CLUSTERS: (&str, &str) = ("cluster.x-k8s.io", "clusters");

/// The hub of a Provider, and what the Provider reads there.
pub(crate) struct Hub<'a> {
    /// The cluster; `None`: the local one.
    from: Option<&'a HubSpec>,
    permissions: RuleSet,
}

impl<'a> Hub<'a> {
    /// The hub of a Provider. `None`: it reads none.
    pub(crate) fn of(spec: &'a ProviderSpec) -> Option<Self> {
        let (from, namespaces, kinds): (_, _, &[_]) = match spec.source().ok()? {
            Source::KubeconfigSecret(secret) => return Some(Self::of_secret(secret)),
            Source::KubeconfigSecrets(secrets) => (&secrets.from, &secrets.namespaces, &[SECRETS]),
            Source::ClusterApi(clusters) => {
                (&clusters.from, &clusters.namespaces, &[CLUSTERS, SECRETS])
            }
            Source::ClusterProfiles(profiles) => {
                let kinds: &[_] = match &profiles.secrets {
                    Some(_) => &[PROFILES, SECRETS],
                    None => &[PROFILES],
                };
                (&profiles.from, &profiles.namespaces, kinds)
            }
            Source::Namespaces(namespaces) => (&namespaces.from, &None, &[NAMESPACES]),
            Source::Kcp(kcp) => return Some(Self::of_kcp(kcp)),
            Source::KubeconfigFiles(_) | Source::Single(_) | Source::Kind(_) | Source::None => {
                return None;
            }
        };
        let mut permissions = RuleSet::default();
        for (group, resource) in kinds {
            let everything = reads(group, resource);
            match namespaces {
                None => permissions.extend(everything),
                Some(names) => {
                    for one in everything {
                        let within = |name: &String| one.clone().within(name.as_str());
                        permissions.extend(names.iter().map(within));
                    }
                }
            }
        }
        Some(Self {
            from: from.as_ref(),
            permissions,
        })
    }

    /// The local cluster, for one Secret.
    fn of_secret(secret: &HubSecretSpec) -> Self {
        Self {
            from: None,
            permissions: reads_secret(&secret.namespace, &secret.name).collect(),
        }
    }

    /// The workspace that has the endpoints of a kcp. What the credentials may do behind these hangs on one object there.
    fn of_kcp(kcp: &'a KcpSpec) -> Self {
        let mut permissions = RuleSet::default();
        if let Some(export) = &kcp.api_export {
            permissions.extend(reads("apis.kcp.io", "apiexportendpointslices"));
            // kcp gives a slice of its own the name of its export.
            let name = export.name.as_ref().or(export.endpoint_slice.as_ref());
            let content = Right::new("apis.kcp.io", "apiexports/content", Verb::ANY);
            permissions.add(content.named(name.map_or("", String::as_str)));
        }
        let types = [
            (&kcp.initializing_workspaces, Verb::Other("initialize")),
            (&kcp.terminating_workspaces, Verb::Other("terminate")),
        ];
        for (spec, verb) in types {
            let Some(spec) = spec else { continue };
            let (group, resource) = ("tenancy.kcp.io", "workspacetypes");
            permissions.extend(reads(group, resource));
            permissions.add(Right::new(group, resource, verb).named(&spec.workspace_type));
        }
        Self {
            from: kcp.from.as_ref(),
            permissions,
        }
    }

    /// Whether it is another cluster than the local one.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.from.is_some()
    }

    /// What the Provider's credentials need in the hub.
    pub(crate) fn needed(self) -> RuleSet {
        let mut all = self.permissions;
        // Distinguishes a cluster from another one at the same address.
        all.add(Right::new("", "namespaces", Verb::Get).named("kube-system"));
        all.extend(definitions(&all));
        all
    }

    /// What the Provider reads in the local cluster.
    fn in_local(self) -> RuleSet {
        match self.from.map(|from| &from.kubeconfig_secret) {
            None => self.permissions,
            Some(None) => RuleSet::default(),
            Some(Some(secret)) => reads_secret(&secret.namespace, &secret.name).collect(),
        }
    }
}

/// What all Providers, and the guests with pull secrets, read in the local cluster.
pub(crate) fn in_local(configuration: &Configuration) -> RuleSet {
    let mut all = RuleSet::default();
    for hub in configuration
        .providers()
        .filter_map(|(_, spec)| Hub::of(spec))
    {
        all.extend(hub.in_local());
    }
    for (_, spec) in configuration.reconcilers() {
        if let Some(secret) = &spec.guest.pull_secret {
            let get = Right::new("", "secrets", Verb::Get);
            all.add(
                get.within(secret.namespace.as_deref().unwrap_or_default())
                    .named(&secret.name),
            );
        }
    }
    all
}

/// What the manager reads of definitions where it watches kinds that definitions bring, so that a kind that comes later is noticed at once.
pub(crate) fn definitions(all: &RuleSet) -> RuleSet {
    let watched = |one: &&Right| one.verb == Verb::Watch && is_of_definitions(&one.group);
    match all.iter().find(watched) {
        None => RuleSet::default(),
        Some(_) => [Verb::List, Verb::Watch]
            .map(|verb| Right::new("apiextensions.k8s.io", "customresourcedefinitions", verb))
            .into_iter()
            .collect(),
    }
}

/// Whether definitions may bring kinds of a group. `k8s.io` has some such groups beside those of servers themselves, kcp has none.
fn is_of_definitions(group: &str) -> bool {
    const OF_SERVERS: [&str; 14] = [
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "discovery",
        "events",
        "networking",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
    ];
    let is_of_server = group
        .strip_suffix(".k8s.io")
        .is_some_and(|name| OF_SERVERS.contains(&name));
    group.contains('.') && !is_of_server && !group.ends_with(".kcp.io")
}

fn reads_secret(namespace: &str, name: &str) -> impl Iterator<Item = Right> {
    let (group, resource) = SECRETS;
    reads(group, resource).map(move |one| one.within(namespace).named(name))
}

fn reads(group: &str, resource: &str) -> impl Iterator<Item = Right> {
    [Verb::Get, Verb::List, Verb::Watch]
        .map(|verb| Right::new(group, resource, verb))
        .into_iter()
}
