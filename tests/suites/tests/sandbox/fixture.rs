//! A simulated fleet with guests on it, whose outcomes are kept. Entry points: [`Stage::start`] and [`Stage::guest`].

use crate::logs;
use anyhow::{Context as _, Result};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{Hook, Server};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::manager::{Builder, ManagerOptions};
use windlass_fleet::outbound::HttpGrant;
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Failure, Grant, Reconciler, Request, Rule,
    TenantName,
};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};
use windlass_harness::guests::{self, guest};
use windlass_sandbox::{
    CacheOptions, Guest, GuestOptions, Isolation, Limits, LoadError, Options, RecordOptions,
    Revision, Sandbox, Source, Tenant, TenantLimits,
};

/// Guests that compute at once: the guests of all tests share them, and some of these do nothing but loop.
pub(crate) const PROCESSORS: usize = 2;

/// The engine of all tests of this process. What it compiles is kept for the next one.
pub(crate) fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let options = Options {
            processors: Some(PROCESSORS),
            cache: Some(CacheOptions::new(guests::compiled())),
            ..Options::default()
        };
        Sandbox::new(options).expect("an engine")
    })
}

/// An engine that keeps nothing, for tests of what is compiled, and for components of which no run has the same twice.
pub(crate) fn without_cache() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let options = Options {
            instances: 16,
            processors: Some(PROCESSORS),
            ..Options::default()
        };
        Sandbox::new(options).expect("an engine")
    })
}

/// What is not as usual on a [`Stage`].
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) server: windlass_apiserver::Builder,
    pub(crate) manager: ManagerOptions,
    /// None: that of all tests.
    pub(crate) sandbox: Option<Sandbox>,
}

/// A fleet whose clusters are engaged, and guests on it.
pub(crate) struct Stage {
    fleet: TestFleet,
    sandbox: Option<Sandbox>,
}

impl Deref for Stage {
    type Target = TestFleet;

    fn deref(&self) -> &TestFleet {
        &self.fleet
    }
}

impl Stage {
    pub(crate) async fn start(clusters: &[&str]) -> Result<Self> {
        Self::with(clusters, Setup::default()).await
    }

    /// As [`Self::start`], with servers that do as they are told.
    pub(crate) async fn hooked(clusters: &[&str], hook: Arc<dyn Hook>) -> Result<Self> {
        let setup = Setup {
            server: Server::builder().hook(hook),
            ..Setup::default()
        };
        Self::with(clusters, setup).await
    }

    pub(crate) async fn with(clusters: &[&str], setup: Setup) -> Result<Self> {
        logs::init();
        let build = |manager: Builder| manager.options(setup.manager);
        let stage = Self {
            fleet: TestFleet::start_on(setup.server, clusters, build).await?,
            sandbox: setup.sandbox,
        };
        for cluster in clusters {
            stage.join(cluster)?;
        }
        Ok(stage)
    }

    /// Puts a cluster into the fleet, with a label.
    pub(crate) fn join(&self, cluster: &str) -> Result<()> {
        self.provider
            .put(self.spec(cluster)?.label("name", cluster));
        Ok(())
    }

    /// Takes a cluster out of the fleet; its server goes on.
    pub(crate) fn leave(&self, cluster: &str) -> Result<()> {
        let was_there = self.provider.remove(&name(cluster));
        anyhow::ensure!(was_there, "{cluster} is in the fleet");
        Ok(())
    }

    fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().unwrap_or_else(|| sandbox())
    }

    async fn load(&self, source: Source) -> Result<Revision, LoadError> {
        match &self.sandbox {
            Some(sandbox) => sandbox.load(source).await,
            None => loaded(source).await,
        }
    }

    /// What the manager tells of a controller in the metric `name`: the sum over its series, if there are any.
    pub(crate) fn metric(&self, name: &str, reconciler: &str) -> Result<Option<f64>> {
        let text = self.metrics()?;
        let (start, label) = (format!("{name}{{"), format!("reconciler=\"{reconciler}\""));
        let of = |line: &&str| line.starts_with(&start) && line.contains(&label);
        let values = text.lines().filter(of).filter_map(|line| {
            let (_, value) = line.rsplit_once(' ')?;
            value.parse::<f64>().ok()
        });
        Ok(values.reduce(|sum, value| sum + value))
    }

    /// Begins a guest from `guests/<of>`, with its own tenant and every call on ConfigMaps granted.
    pub(crate) fn guest(&self, of: &str) -> GuestBuilder<'_> {
        self.component(of, guest(of).into())
    }

    /// Begins a guest as [`Self::guest`] does, from a file.
    pub(crate) fn file(&self, name: &str, path: PathBuf) -> GuestBuilder<'_> {
        self.component(name, path.into())
    }

    /// Begins a guest as [`Self::guest`] does, from a component that is nowhere built.
    pub(crate) fn mutated(&self, name: &str, bytes: Vec<u8>) -> GuestBuilder<'_> {
        let name = name.to_owned();
        self.component(&name.clone(), Source::Bytes { name, bytes })
    }

    fn component(&self, name: &str, source: Source) -> GuestBuilder<'_> {
        GuestBuilder {
            stage: self,
            source,
            name: name.replace('/', "-"),
            config: json!({}),
            rules: vec![rule("", &["configmaps"], &["*"], "*")],
            http: Arc::default(),
            limits: Limits {
                timeout: Duration::from_secs(5),
                ..Limits::default()
            },
            controller: ControllerOptions::default(),
            tenant: TenantLimits::default(),
            owner: None,
            isolation: Isolation::Fresh,
            record: None,
        }
    }

    /// The ConfigMap's data, once there is such a ConfigMap for which `holds`.
    pub(crate) async fn data(
        &self,
        cluster: &str,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let server = self.simulated(cluster);
        wait(&format!("ConfigMap {name} in {cluster}"), || {
            let found = server
                .get("v1", "ConfigMap", "default", name)
                .expect("ConfigMaps are served");
            Seen::of(found.unwrap_or_default()["data"].clone(), |data| {
                holds(data)
            })
        })
        .await
    }
}

/// A guest that is being set up.
pub(crate) struct GuestBuilder<'a> {
    stage: &'a Stage,
    source: Source,
    name: String,
    config: Value,
    rules: Vec<Rule>,
    http: Arc<HttpGrant>,
    limits: Limits,
    controller: ControllerOptions,
    tenant: TenantLimits,
    /// None: a tenant of its own.
    owner: Option<Arc<Tenant>>,
    isolation: Isolation,
    record: Option<RecordOptions>,
}

impl GuestBuilder<'_> {
    pub(crate) fn called(&self) -> &str {
        &self.name
    }

    pub(crate) fn config(self, config: Value) -> Self {
        Self { config, ..self }
    }

    pub(crate) fn rules(self, rules: Vec<Rule>) -> Self {
        Self { rules, ..self }
    }

    pub(crate) fn http(self, http: HttpGrant) -> Self {
        Self {
            http: Arc::new(http),
            ..self
        }
    }

    pub(crate) fn name(self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self
        }
    }

    pub(crate) fn limits(self, change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = self.limits.clone();
        change(&mut limits);
        Self { limits, ..self }
    }

    /// Its controller's, but for the timeout, which is the guest's.
    pub(crate) fn controller(self, change: impl FnOnce(&mut ControllerOptions)) -> Self {
        let mut controller = self.controller.clone();
        change(&mut controller);
        Self { controller, ..self }
    }

    pub(crate) fn tenant(self, change: impl FnOnce(&mut TenantLimits)) -> Self {
        let mut tenant = self.tenant.clone();
        change(&mut tenant);
        Self { tenant, ..self }
    }

    pub(crate) fn tenant_memory(self, memory: usize) -> Self {
        self.tenant(|limits| limits.memory = memory)
    }

    /// In the tenant of another one.
    pub(crate) fn tenant_of(self, other: &RunningGuest) -> Self {
        Self {
            owner: Some(other.options.tenant.clone()),
            ..self
        }
    }

    pub(crate) fn isolation(self, isolation: Isolation) -> Self {
        Self { isolation, ..self }
    }

    /// Its runs are recorded.
    pub(crate) fn record(self, record: RecordOptions) -> Self {
        Self {
            record: Some(record),
            ..self
        }
    }

    pub(crate) fn options(&self) -> Result<GuestOptions> {
        let own = TenantName::new(format!("tenant-of-{}", self.name))?;
        let tenant = match &self.owner {
            Some(owner) => owner.clone(),
            None => Tenant::new(own, &self.tenant),
        };
        Ok(GuestOptions {
            tenant,
            name: ControllerName::new(&self.name)?,
            grant: Arc::new(Grant::new(self.rules.clone())),
            http: self.http.clone(),
            config: self.config.to_string(),
            limits: self.limits.clone(),
            isolation: self.isolation,
            record: self.record.clone(),
            secrets: Vec::new(),
        })
    }

    /// Loads it, and goes no further.
    pub(crate) async fn load(&self) -> Result<Result<Arc<Guest>, LoadError>> {
        match self.stage.load(self.source.clone()).await {
            Ok(revision) => self.load_as(revision).await,
            Err(error) => Ok(Err(error)),
        }
    }

    /// As [`Self::load`], from a component that was loaded before.
    pub(crate) async fn load_as(
        &self,
        revision: Revision,
    ) -> Result<Result<Arc<Guest>, LoadError>> {
        Ok(Guest::new(self.stage.sandbox(), self.options()?, revision).await)
    }

    /// Loads it and has its requests run.
    pub(crate) async fn run(self) -> Result<RunningGuest> {
        let options = self.options()?;
        let revision = self.stage.load(self.source.clone()).await?;
        let guest = Guest::new(self.stage.sandbox(), options.clone(), revision).await?;
        let running = self.running(guest, options);
        running.put(self.stage)?;
        Ok(running)
    }

    /// Keeps the results of a guest's runs, once its controller is registered.
    pub(crate) fn running(&self, guest: Arc<Guest>, options: GuestOptions) -> RunningGuest {
        let outcomes = Arc::new(Outcomes {
            guest: guest.clone(),
            seen: Mutex::default(),
            running: Mutex::default(),
        });
        RunningGuest {
            guest,
            outcomes,
            controller: ControllerOptions {
                timeout: self.limits.timeout,
                ..self.controller.clone()
            },
            options,
        }
    }
}

/// A guest that runs.
pub(crate) struct RunningGuest {
    pub(crate) guest: Arc<Guest>,
    outcomes: Arc<Outcomes>,
    controller: ControllerOptions,
    pub(crate) options: GuestOptions,
}

impl RunningGuest {
    /// Registers its controller, as its guest describes itself now.
    pub(crate) fn put(&self, stage: &Stage) -> Result<()> {
        let parts = self.guest.controller_parts();
        let mut builder = Controller::builder(self.options.name.clone())
            .tenant(self.options.tenant.name().clone())
            .grant(self.options.grant.clone())
            .options(self.controller.clone());
        if let Some(primary) = parts.primary {
            builder = builder.primary(primary);
        }
        builder = parts
            .watches
            .into_iter()
            .fold(builder, |builder, watch| builder.watch(watch));
        builder = parts
            .indexes
            .into_iter()
            .fold(builder, |builder, index| builder.index(index));
        let reconciler: Arc<dyn Reconciler> = self.outcomes.clone();
        Ok(stage.handle.put_controller(builder.build(reconciler)?)?)
    }

    /// How the first run of a request ended, once it has.
    pub(crate) async fn outcome(
        &self,
        cluster: &str,
        name: &str,
    ) -> Result<Result<Action, Failure>> {
        self.outcome_of(&request(cluster, name)).await
    }

    async fn outcome_of(&self, request: &Request) -> Result<Result<Action, Failure>> {
        let look = || {
            let seen = self.outcomes.seen.lock();
            match seen.iter().find(|(of, _)| of == request) {
                Some((_, outcome)) => Seen::Yes(outcome.clone()),
                None => Seen::NotYet(format!("{} other outcomes", seen.len())),
            }
        };
        wait(&format!("a run of {request}"), look).await
    }

    /// The failure that the first run of a request ended with.
    pub(crate) async fn failure(&self, cluster: &str, name: &str) -> Result<Failure> {
        self.outcome(cluster, name)
            .await?
            .err()
            .context("the run succeeded")
    }

    /// As [`Self::failure`], of any request.
    pub(crate) async fn failure_of(&self, request: &Request) -> Result<Failure> {
        let outcome = self.outcome_of(request).await?;
        outcome.err().context("the run succeeded")
    }

    /// Names of the objects that it ran for.
    pub(crate) fn names(&self) -> Vec<String> {
        let seen = self.outcomes.seen.lock();
        seen.iter()
            .map(|(request, _)| request.key.name.to_string())
            .collect()
    }

    /// The answer of a guest that answers in the message of a terminal failure.
    pub(crate) async fn answer(&self, cluster: &str, name: &str) -> Result<Value> {
        let failure = self.failure(cluster, name).await?;
        serde_json::from_str(&failure.message).with_context(|| failure.to_string())
    }

    pub(crate) fn runs(&self) -> usize {
        self.outcomes.seen.lock().len()
    }

    /// Whether some run of the request ended so.
    pub(crate) fn ended(
        &self,
        request: &Request,
        so: impl Fn(&Result<Action, Failure>) -> bool,
    ) -> bool {
        let seen = self.outcomes.seen.lock();
        seen.iter()
            .any(|(of, outcome)| of == request && so(outcome))
    }

    /// Runs every object again, as after a change.
    pub(crate) fn resync(&self, stage: &Stage) {
        let known = stage
            .handle
            .resync(self.options.tenant.name(), &self.options.name);
        assert!(known, "the controller is registered");
    }

    /// All failures so far.
    pub(crate) fn failures(&self) -> Vec<String> {
        let seen = self.outcomes.seen.lock();
        let failed = seen.iter().filter_map(|(request, outcome)| {
            Some(format!("{request}: {}", outcome.as_ref().err()?))
        });
        failed.collect()
    }

    /// Gives it the same revision with other options.
    pub(crate) async fn reconfigure(&self, change: impl FnOnce(&mut GuestOptions)) -> Result<()> {
        let mut options = self.options.clone();
        change(&mut options);
        Ok(self
            .guest
            .reconfigure(options, self.guest.revision())
            .await?)
    }

    /// The run of a request that is under way: cancelled when it should end.
    pub(crate) fn run_of(&self, request: &Request) -> Option<CancellationToken> {
        self.outcomes.running.lock().get(request).cloned()
    }

    /// API calls of its tenant that are under way.
    pub(crate) fn requests_in_flight(&self) -> usize {
        self.options.tenant.requests_in_flight()
    }

    /// How many runs are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.outcomes.running.lock().len()
    }

    /// Takes its controller out, once what runs has ended.
    pub(crate) async fn leave(&self, stage: &Stage) {
        let tenant = self.options.tenant.name();
        stage
            .handle
            .remove_controller(tenant, &self.options.name)
            .await;
    }
}

/// The guest's reconciler, which keeps the result of each run.
struct Outcomes {
    guest: Arc<Guest>,
    seen: Mutex<Vec<(Request, Result<Action, Failure>)>>,
    /// What runs now. A request is in it once at most, whatever is swapped for what.
    running: Mutex<HashMap<Request, CancellationToken>>,
}

impl Reconciler for Outcomes {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        Box::pin(async move {
            let request = context.request.clone();
            let running = Running::begin(self, &context);
            let outcome = self.guest.reconcile(context).await;
            drop(running);
            self.seen.lock().push((request, outcome.clone()));
            outcome
        })
    }
}

/// A run, which may be cut off.
struct Running<'a>(&'a Outcomes, Request);

impl<'a> Running<'a> {
    fn begin(outcomes: &'a Outcomes, context: &Context) -> Self {
        let (request, token) = (context.request.clone(), context.cancelled().clone());
        let other = outcomes.running.lock().insert(request.clone(), token);
        if other.is_some() {
            // Not a panic, which the controller would take for the guest's and nobody would see here.
            let twice = Failure::terminal("it runs twice at once");
            outcomes.seen.lock().push((request.clone(), Err(twice)));
        }
        Self(outcomes, request)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.lock().remove(&self.1);
    }
}

/// A guest's component, loaded.
pub(crate) async fn revision(of: &str) -> Result<Revision> {
    Ok(loaded(guest(of).into()).await?)
}

/// Loads a component; a file once for all tests of this process.
async fn loaded(source: Source) -> Result<Revision, LoadError> {
    static LOADED: Mutex<BTreeMap<PathBuf, Revision>> = Mutex::new(BTreeMap::new());
    let Source::File(path) = &source else {
        return sandbox().load(source).await;
    };
    let path = path.clone();
    if let Some(revision) = LOADED.lock().get(&path) {
        return Ok(revision.clone());
    }
    let revision = sandbox().load(source).await?;
    LOADED.lock().insert(path, revision.clone());
    Ok(revision)
}

pub(crate) fn rule(group: &str, resources: &[&str], verbs: &[&str], namespace: &str) -> Rule {
    Rule {
        api_groups: vec![group.into()],
        resources: resources
            .iter()
            .map(|resource| (*resource).into())
            .collect(),
        verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
        namespaces: vec![namespace.into()],
        ..Rule::default()
    }
}

/// A ConfigMap with a label that every guest of these tests takes for its own.
pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"test.windlass.dev/run": "yes", "hello.windlass.dev/greet": "world"}},
        "data": data,
    })
}
