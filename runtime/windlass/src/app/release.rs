//! Looks over the fleet for objects that finalizers of a reconciler hold, and lets them go. Entry points: [`Search::asked`] and
//! [`Search::run`].
//!
//! The finalizers are those that the reconciler's field manager owns, by the objects' own `managedFields`, which are read live. One kind of a
//! cluster is read at a time, a page at a time, and a few clusters at once. A search has a budget of time: where it ends, a [`Cursor`] says, from
//! which the next one goes on. So no call lasts long, and nothing is kept between calls.

mod found;
mod reach;
mod serving;
mod walk;

pub(crate) use found::{Found, LISTED};
pub(crate) use reach::Reach;
pub(crate) use serving::exists;
pub(crate) use walk::Cursor;

use super::App;
use crate::config::kinds::{Identity, Impersonate, Kind, Origin, ReconcilerSpec};
use crate::config::load::{Configuration, Document, Spec};
use crate::guests::TenantPolicy;
use crate::status::view::ReleaseRequest;
use windlass_fleet::cluster::Caller;
use windlass_fleet::{ClusterName, ControllerName, Grant, GroupKind, TenantName};

/// What is looked for, and where.
pub(crate) struct Search {
    /// The reconciler, which may be gone.
    tenant: TenantName,
    name: ControllerName,
    /// It with its field managers.
    owner: Caller,
    /// Where it may write; none: everywhere.
    reach: Option<Reach>,
    /// Only these kinds, wherever they are; empty: those of the reach.
    kinds: Vec<GroupKind>,
    /// Only this cluster.
    cluster: Option<ClusterName>,
    /// Only this namespace.
    namespace: Option<String>,
    /// Only objects that are being deleted.
    only_deleting: bool,
    /// Only clusters that this process works on.
    only_own: bool,
    /// The rights with which objects are let go; none: they are only looked for.
    release: Option<Grant>,
}

/// Why nothing is looked for. The messages are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request is wrong.
    Wrong(String),
    /// The reconciler would put its finalizers back, or another process leads.
    Impossible(String),
}

impl Search {
    /// What a caller asks for.
    ///
    /// # Errors
    /// [`Refusal`]
    pub(crate) async fn asked(app: &App, asked: &ReleaseRequest) -> Result<Self, Refusal> {
        let configuration = app.configuration.load_full();
        let identity = Identity {
            kind: Kind::Reconciler,
            name: asked.reconciler.clone(),
        };
        let mut search = match reconciler(&configuration, &identity) {
            Some((document, spec)) => {
                if asked
                    .tenant
                    .as_deref()
                    .is_some_and(|name| name != spec.tenant())
                {
                    let message = format!("{identity} is one of the tenant {}", spec.tenant());
                    return Err(Refusal::Wrong(message));
                }
                Self::of(app, &configuration, document, spec).map_err(Refusal::Wrong)?
            }
            // Nothing is known of it any more.
            None => {
                let tenant = asked.tenant.as_deref().unwrap_or("default");
                Self::named(tenant, &asked.reconciler).map_err(Refusal::Wrong)?
            }
        };
        search.narrow(asked).map_err(Refusal::Wrong)?;
        // The other members are asked about theirs.
        search.only_own = app.manager.shards().is_some();
        if asked.release {
            search.check_release(app, &configuration).await?;
            let grant = search.writer(&configuration).map_err(Refusal::Wrong)?;
            search.release = Some(grant);
        }
        Ok(search)
    }

    /// All that a Reconciler of a configuration may have written.
    ///
    /// # Errors
    /// Why the document cannot be read, which a checked one excludes.
    pub(crate) fn of(
        app: &App,
        configuration: &Configuration,
        document: &Document,
        spec: &ReconcilerSpec,
    ) -> Result<Self, String> {
        let mut search = Self::named(spec.tenant(), &document.identity.name)?;
        let (tenant, name) = (&search.tenant, &search.name);
        let reach = Reach::of(app, configuration, (tenant, name), document, spec)?;
        search.reach = Some(reach);
        Ok(search)
    }

    fn named(tenant: &str, name: &str) -> Result<Self, String> {
        let tenant = TenantName::new(tenant).map_err(|error| error.to_string())?;
        let name = ControllerName::new(name).map_err(|error| error.to_string())?;
        Ok(Self {
            owner: Caller::new(tenant.clone(), name.clone()),
            tenant,
            name,
            reach: None,
            kinds: Vec::new(),
            cluster: None,
            namespace: None,
            only_deleting: false,
            only_own: false,
            release: None,
        })
    }

    fn narrow(&mut self, asked: &ReleaseRequest) -> Result<(), String> {
        let kinds = asked.kinds.iter().map(|kind| kind.parse::<GroupKind>());
        self.kinds = kinds
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let cluster = asked.cluster.as_ref().map(ClusterName::new);
        self.cluster = cluster.transpose().map_err(|error| error.to_string())?;
        self.namespace.clone_from(&asked.namespace);
        self.only_deleting = asked.deleting;
        Ok(())
    }

    /// The field manager whose finalizers are meant.
    pub(crate) fn manager(&self) -> String {
        let [manager, _] = self.owner.field_managers();
        manager
    }

    /// The rights of writes: the reconciler's were checked by the servers under the user that its tenant impersonates, and so are these.
    fn writer(&self, configuration: &Configuration) -> Result<Grant, String> {
        let origin = if self.name.is_namespaced() {
            Origin::Cluster
        } else {
            Origin::File
        };
        let policy = TenantPolicy::in_effect(configuration, self.tenant.as_str(), origin);
        let user = policy.impersonate.as_ref().map(Impersonate::identity);
        let user = user.transpose().map_err(|error| error.to_string())?;
        Ok(Grant::all().impersonate(user))
    }
}

fn reconciler<'a>(
    configuration: &'a Configuration,
    identity: &Identity,
) -> Option<(&'a Document, &'a ReconcilerSpec)> {
    let document = configuration.get(identity)?;
    match &document.spec {
        Spec::Reconciler(spec) => Some((document, spec)),
        _ => None,
    }
}
