//! A guest: a revision with a tenant, a grant, a config and limits. It can be replaced while it serves. Entry point: [`Guest`].
//!
//! * A replacement is linked, described and checked before it serves. If that fails, the last good one goes on.
//! * A call ends on the revision with which it began.
//! * A restricted grant takes effect at once, for calls under way too. Other restricted rights take effect at the next call.

mod body;
pub(crate) mod code;
mod rights;
mod status;

pub use body::native_reconciler;
pub use rights::Rights;
pub use status::GuestStatus;

use crate::clean::clean;
use crate::component::revision::{LoadError, Revision};
use crate::description::Description;
use crate::engine::Sandbox;
use crate::instance::call::FleetView;
use crate::options::{Isolation, Limits};
use crate::tenant::Tenant;
use crate::tenant::context::{GuestContext, History, Said};
use crate::tenant::recordings::{KeptRecording, RecordOptions};
use arc_swap::ArcSwap;
use body::Body;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use status::{Counters, Dropped, Now};
use std::sync::Arc;
use windlass_fleet::api::Json;
use windlass_fleet::cluster::Fleet;
use windlass_fleet::grant::ClusterFacts;
use windlass_fleet::outbound::HttpGrant;
use windlass_fleet::source::{Index, MapContext, MapError, Mapper, Watch};
use windlass_fleet::{
    Action, Cluster, Context, ControllerName, Failure, Grant, GroupVersionKind, Reconciler,
    Request, TenantName,
};

/// The configuration of a guest.
#[derive(Debug, Clone)]
pub struct GuestOptions {
    /// Its owner.
    pub tenant: Arc<Tenant>,
    /// The reconciler's name.
    pub name: ControllerName,
    /// Its rights in clusters.
    pub grant: Arc<Grant>,
    /// What it may call besides API servers.
    pub http: Arc<HttpGrant>,
    /// Its `config`, as JSON text. `{}` if there is none.
    pub config: String,
    /// Bounds of its calls.
    pub limits: Limits,
    /// How instances are kept apart.
    pub isolation: Isolation,
    /// Which of its runs are recorded. `None`: those that somebody [asks for](Guest::record).
    pub record: Option<RecordOptions>,
    /// Texts in its `config` that no recording may show.
    pub secrets: Vec<String>,
}

/// The parts of a guest's controller, besides the reconciler.
pub struct ControllerParts {
    /// The kind that requests name.
    pub primary: Option<GroupVersionKind>,
    /// Its watches. The guest is the mapper of those that it maps.
    pub watches: Vec<Watch>,
    /// Its indexes.
    pub indexes: Vec<Index>,
}

/// A guest that serves: the [`Reconciler`] of its controller, and the [`Mapper`] of its watches.
///
/// Every call ends on the revision that was current when it began.
pub struct Guest {
    sandbox: Sandbox,
    current: ArcSwap<Current>,
    /// Held while a revision is described and swapped in, so that two swaps do not cross.
    swapping: tokio::sync::Mutex<()>,
    /// Held while `current` is replaced.
    restriction: Mutex<Restriction>,
    counters: Counters,
}

/// The last restriction of a guest's rights.
#[derive(Default)]
struct Restriction {
    /// Restrictions so far.
    count: u64,
    rights: Option<Rights>,
}

/// A revision, or another configuration, that a guest is ready to [serve](Guest::serve).
pub struct Prepared {
    current: Current,
    /// Restrictions of the guest before the preparation began.
    restrictions: u64,
}

/// A revision with the configuration under which it was described. Replaced as a whole.
struct Current {
    revision: Revision,
    code: Body,
    guest: Arc<GuestContext>,
    isolation: Isolation,
    description: Description,
    /// Its rights when it was loaded. They may have been restricted since.
    loaded: Rights,
    /// Which of its runs are recorded.
    record: Option<RecordOptions>,
    /// What recordings may not show.
    secrets: Arc<[String]>,
}

impl Guest {
    /// Links a revision, asks it to describe itself, and checks the description against the grant.
    ///
    /// # Errors
    /// [`LoadError`]: nothing serves then.
    pub async fn new(
        sandbox: &Sandbox,
        options: GuestOptions,
        revision: Revision,
    ) -> Result<Arc<Self>, LoadError> {
        let history = History {
            clock: sandbox.options().clock.clone(),
            door: sandbox.options().door.clone(),
            ..History::default()
        };
        let current = Current::prepare(sandbox, options, revision, history).await?;
        current.take_effect();
        Ok(Arc::new(Self {
            sandbox: sandbox.clone(),
            current: ArcSwap::from_pointee(current),
            swapping: tokio::sync::Mutex::new(()),
            restriction: Mutex::default(),
            counters: Counters::new(),
        }))
    }

    /// Replaces the revision: the new one is linked, described and checked, and serves from then on. Calls in flight end on the old
    /// one. Its watches may differ: build the controller anew from [`Self::controller_parts`].
    ///
    /// # Errors
    /// [`LoadError`]: the last good revision keeps serving.
    pub async fn swap(&self, revision: Revision) -> Result<(), LoadError> {
        let options = self.current.load().options();
        self.reconfigure(options, revision).await
    }

    /// As [`Self::swap`], with a change of grant, config or limits. Tenant and name must stay the same.
    ///
    /// # Errors
    /// [`LoadError`]: everything stays as it was.
    pub async fn reconfigure(
        &self,
        options: GuestOptions,
        revision: Revision,
    ) -> Result<(), LoadError> {
        let _alone = self.swapping.lock().await;
        let prepared = self.prepare(options, revision).await?;
        self.serve(prepared);
        Ok(())
    }

    /// The first half of [`Self::reconfigure`]: links, describes and checks, and leaves everything as it is.
    ///
    /// # Errors
    /// As [`Self::reconfigure`].
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn prepare(
        &self,
        options: GuestOptions,
        revision: Revision,
    ) -> Result<Prepared, LoadError> {
        let history = self.current.load().guest.history.clone();
        let restrictions = self.restriction.lock().count;
        let current = Current::prepare(&self.sandbox, options, revision, history).await?;
        Ok(Prepared {
            current,
            restrictions,
        })
    }

    /// The second half: what this guest has [prepared](Self::prepare) serves from the next call on.
    pub fn serve(&self, prepared: Prepared) {
        let Prepared {
            current,
            restrictions,
        } = prepared;
        let restriction = self.restriction.lock();
        let is_new = restriction.count != restrictions; // restricted since the preparation began
        let rights = restriction.rights.as_ref().filter(|_| is_new);
        let less = rights.and_then(|rights| current.within(rights));
        self.put(less.unwrap_or(current));
        drop(restriction);
        self.counters.loaded();
    }

    /// Restricts the revision in use to the rights that both these and those of its configuration allow, until something else is loaded
    /// or this is called again. The grant takes effect at once, for calls under way too; the rest with the next call. Returns whether
    /// anything has changed: then build the controller anew, from [`Self::rights`] and [`Self::controller_parts`].
    pub fn keep_within(&self, rights: &Rights) -> bool {
        let mut restriction = self.restriction.lock();
        restriction.count += 1;
        restriction.rights = Some(rights.clone());
        let next = self.current.load().within(rights);
        let changes = next.is_some();
        if let Some(next) = next {
            self.put(next);
        }
        changes
    }

    fn put(&self, current: Current) {
        current.take_effect();
        self.current.store(Arc::new(current));
    }

    /// Whether its code runs as a process of its own.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.current.load().revision.is_native()
    }

    /// Its rights now.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.current.load().rights()
    }

    /// Whether it has fewer rights than its configuration gives.
    #[must_use]
    pub fn is_kept_within_less(&self) -> bool {
        let current = self.current.load();
        current.rights() != current.loaded
    }

    /// Its owner.
    #[must_use]
    pub fn tenant(&self) -> TenantName {
        self.current.load().guest.tenant.name().clone()
    }

    /// The watches, indexes and primary kind of the current revision.
    #[must_use]
    pub fn controller_parts(self: &Arc<Self>) -> ControllerParts {
        self.parts(&self.current.load().description)
    }

    /// The same of what is prepared.
    #[must_use]
    pub fn parts_of(self: &Arc<Self>, prepared: &Prepared) -> ControllerParts {
        self.parts(&prepared.current.description)
    }

    fn parts(self: &Arc<Self>, description: &Description) -> ControllerParts {
        let mapper: Arc<dyn Mapper> = self.clone();
        let watches = description.watches.iter();
        ControllerParts {
            primary: description.primary.clone(),
            watches: watches.map(|watch| watch.watch(&mapper)).collect(),
            indexes: description.indexes.clone(),
        }
    }

    /// The revision in use.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.current.load().revision.clone()
    }

    /// No longer waits for a run of a request to record.
    pub fn forget(&self, request: &Request) {
        let recordings = &self.current.load().guest.history.recordings;
        recordings.forget(request);
    }

    /// Has the next run of a request recorded. An instance that serves several calls is not used for it. Runs of a process are not recorded.
    /// `false`: too many requests wait for that.
    pub fn record(&self, request: Request) -> bool {
        let recordings = &self.current.load().guest.history.recordings;
        recordings.want(request)
    }

    /// The recordings of its runs that are kept, the newest last.
    #[must_use]
    pub fn recordings(&self) -> Vec<KeptRecording> {
        self.current.load().guest.history.recordings.list()
    }

    /// Its state and its counts.
    #[must_use]
    pub fn status(&self) -> GuestStatus {
        let current = self.current.load();
        self.counters.status(&Now {
            revision: &current.revision,
            description: &current.description,
            guest: &current.guest,
            idle: current.code.idle(),
        })
    }
}

/// Whether the grant opens the cluster of a request that a mapper made. The cluster need not be engaged yet. A grant that notes notes it.
fn may_ask_for(
    guest: &GuestContext,
    grant: &Grant,
    from: &Cluster,
    fleet: &Fleet,
    request: &Request,
) -> bool {
    if request.cluster == *from.name() {
        return true;
    }
    let cluster = fleet.cluster(&request.cluster);
    let labels = cluster.as_ref().map(|cluster| cluster.labels());
    let facts = ClusterFacts {
        name: &request.cluster,
        labels: &labels.unwrap_or_default(),
        provider: cluster.as_ref().and_then(|cluster| cluster.provider()),
        own: false,
    };
    let opened = match &cluster {
        Some(_) => grant.reaches(&facts),
        None => grant.reaches_by_name(&request.cluster),
    };
    if opened {
        grant.note_cluster(&facts, || guest.least_right(cluster.as_deref()));
    }
    opened
}

impl Current {
    async fn prepare(
        sandbox: &Sandbox,
        options: GuestOptions,
        revision: Revision,
        history: History,
    ) -> Result<Self, LoadError> {
        serde_json::from_str::<serde::de::IgnoredAny>(&options.config).map_err(|error| {
            LoadError::Config {
                problem: error.to_string(),
            }
        })?;
        let GuestOptions {
            tenant,
            name,
            grant,
            http,
            config,
            limits,
            isolation,
            record,
            secrets,
        } = options;
        let loaded = Rights {
            grant: grant.clone(),
            http: http.clone(),
            limits: limits.clone(),
            isolation,
        };
        let fleet = grant.reaches_other_clusters();
        let code = Body::bind(sandbox, &revision, fleet, isolation, &tenant)?;
        let guest = GuestContext::with(tenant, name, grant, config.into(), limits, history);
        let guest = Arc::new(guest.calling(http));
        // At `error`, as the span of a run is.
        let span = tracing::error_span!("describe", tenant = %guest.tenant.name(), reconciler = %guest.name);
        let described = tracing::Instrument::instrument(code.describe(guest.clone()), span);
        let description = described.await?;
        description.check_granted(&guest.given)?;
        guest.said.get_or_init(|| Said {
            primary: description.primary.clone(),
            masks: description.masks(),
        });
        Ok(Self {
            revision,
            code,
            guest,
            isolation,
            description,
            loaded,
            record,
            secrets: secrets.into(),
        })
    }

    fn rights(&self) -> Rights {
        Rights {
            grant: self.guest.given.clone(),
            http: self.guest.given_http.clone(),
            limits: self.guest.limits.clone(),
            isolation: self.isolation,
        }
    }

    /// The same, restricted to these rights. `None`: they restrict nothing further.
    fn within(&self, rights: &Rights) -> Option<Self> {
        let less = self.loaded.and(rights);
        if less == self.rights() {
            return None;
        }
        let Rights {
            grant,
            http,
            limits,
            isolation,
        } = less;
        let GuestContext {
            tenant,
            name,
            config,
            history,
            ..
        } = &*self.guest;
        // Idle instances may hold data that the guest may no longer read.
        let code = self.code.without_idle(isolation, tenant);
        let guest = GuestContext::with(
            tenant.clone(),
            name.clone(),
            grant,
            config.clone(),
            limits,
            history.clone(),
        );
        let guest = guest.calling(http).saying(self.guest.said.clone());
        Some(Self {
            revision: self.revision.clone(),
            code,
            guest: Arc::new(guest),
            isolation,
            description: self.description.clone(),
            loaded: self.loaded.clone(),
            record: self.record.clone(),
            secrets: self.secrets.clone(),
        })
    }

    /// Makes its grant bound the calls of earlier configurations, and has its runs recorded as it says.
    fn take_effect(&self) {
        let history = &self.guest.history;
        history.latest.store(Some(self.guest.given.clone()));
        let http = self.guest.given_http.clone();
        history.latest_http.store(Some(http));
        history.recordings.follow(self.record.clone());
    }

    fn options(&self) -> GuestOptions {
        let guest = &self.guest;
        GuestOptions {
            tenant: guest.tenant.clone(),
            name: guest.name.clone(),
            grant: guest.given.clone(),
            http: guest.given_http.clone(),
            config: guest.config.to_string(),
            limits: guest.limits.clone(),
            isolation: self.isolation,
            record: self.record.clone(),
            secrets: self.secrets.to_vec(),
        }
    }

    /// Runs a request, and records the run if it shall.
    async fn reconcile(&self, context: Context) -> Result<Action, Failure> {
        let guest = &self.guest;
        let recordings = &guest.history.recordings;
        let begun = || recordings.begin(guest, &context);
        let run = self.code.is_recordable().then(begun).flatten();
        let tape = run.as_ref().map(|run| run.tape.clone());
        let outcome = self.code.reconcile(guest.clone(), context, tape).await;
        if let Some(run) = run {
            let (revision, secrets) = (self.revision.digest(), self.secrets.clone());
            recordings.end(run, guest, revision, secrets, &outcome);
        }
        outcome
    }
}

impl Reconciler for Guest {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        async move {
            let current = self.current.load_full();
            let outcome = current.reconcile(context).await;
            self.counters.called(&outcome);
            outcome
        }
        .boxed()
    }
}

impl Mapper for Guest {
    fn map(
        &self,
        context: MapContext,
        kind: GroupVersionKind,
        objects: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        async move {
            let current = self.current.load_full();
            let client = context.client(&current.guest.given);
            let MapContext { cluster, fleet, .. } = context;
            let view = FleetView {
                cluster: cluster.clone(),
                fleet: fleet.clone(),
            };
            let guest = current.guest.clone();
            let objects = match guest.mask(&kind) {
                Some(mask) => objects.iter().map(|object| mask.of(object)).collect(),
                None => objects,
            };
            let own = guest.clone();
            let answer = current.code.map(own, client, view, &kind, &objects);
            let answer = answer.await;
            let Some(outcome) = answer else {
                return Ok(Vec::new()); // a later revision without a mapper: its controller drops this watch
            };
            let mut requests = outcome.map_err(|error| {
                MapError::Failed(clean(&error.to_string(), Failure::MAX_MESSAGE))
            })?;
            let grant = guest.grant();
            let mut dropped = Dropped::default();
            requests.retain(|request| {
                let may = may_ask_for(&guest, &grant, &cluster, &fleet, request);
                if !may {
                    dropped.add(&request.cluster, || guest.least_right(None));
                }
                may
            });
            self.counters
                .requests_dropped(dropped, &guest.history.denials);
            Ok(requests)
        }
        .boxed()
    }
}
