//! A simulated fleet with guests on it, whose outcomes are kept. Entry points: [`Stage::start`] and [`Stage::guest`].

use crate::logs;
use anyhow::{Context as _, Result, anyhow};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::Server;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{ManagerHandle, ManagerOptions};
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, Manager, ObjectKey,
    Reconciler, Request, Rule, TenantName,
};
use windlass_harness::eventually::Seen;
use windlass_harness::guests::guest;
use windlass_sandbox::{
    Guest, GuestOptions, GuestRuntime, Isolation, Limits, LoadError, Options, Revision, Sandbox,
    Tenant, TenantLimits,
};

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The engine and the guests' threads of all tests of this process.
pub(crate) fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| Sandbox::new(Options::default()).expect("an engine"))
}

fn threads() -> &'static GuestRuntime {
    static THREADS: OnceLock<GuestRuntime> = OnceLock::new();
    THREADS.get_or_init(|| GuestRuntime::new(Some(2)).expect("threads"))
}

/// Simulated clusters that are engaged, and a running manager. Ends with it.
pub(crate) struct Stage {
    server: Server,
    pub(crate) handle: ManagerHandle,
    stop: CancellationToken,
}

impl Stage {
    pub(crate) async fn start(clusters: &[&str]) -> Result<Self> {
        logs::init();
        let mut server = Server::builder();
        for cluster in clusters {
            server = server.cluster(*cluster);
        }
        let server = server.bind("127.0.0.1:0").await?;
        let provider = Arc::new(Clusters::new("test"));
        for cluster in clusters {
            let mut spec = ClusterSpec::new(
                ClusterName::new(cluster)?,
                ClusterConfig::from_url(&server.url(cluster))?,
            );
            spec.labels.insert("name".into(), (*cluster).into());
            provider.put(spec);
        }
        let options = ManagerOptions {
            reconcile_runtime: Some(threads().handle().clone()),
            ..ManagerOptions::default()
        };
        let bound = Manager::builder()
            .options(options)
            .provider(provider)
            .build()?
            .bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        let token = stop.clone();
        tokio::spawn(async move { bound.run(token).await.expect("the manager runs") });
        Ok(Self {
            server,
            handle,
            stop,
        })
    }

    /// Begins a guest from `guests/<of>`, with its own tenant and every call on ConfigMaps granted.
    pub(crate) fn guest(&self, of: &'static str) -> Cast<'_> {
        Cast {
            stage: self,
            of,
            name: of.to_owned(),
            config: json!({}),
            rules: vec![rule("", &["configmaps"], &["*"], "*")],
            limits: Limits {
                timeout: Duration::from_secs(5),
                ..Limits::default()
            },
            tenant: TenantLimits::default(),
            owner: None,
            isolation: Isolation::Fresh,
        }
    }

    /// What an administrator of a cluster does, past the engine.
    pub(crate) fn server(&self, cluster: &str) -> windlass_apiserver::Cluster {
        self.server
            .cluster(cluster)
            .expect("a simulated cluster of this name")
    }

    pub(crate) fn put(&self, cluster: &str, object: Value) -> Result<()> {
        self.server(cluster)
            .apply(object)
            .map(drop)
            .map_err(|error| anyhow!("{error:?}"))
            .context("seeding")
    }

    /// The ConfigMap's data, once there is such a ConfigMap for which `holds`.
    pub(crate) async fn data(
        &self,
        cluster: &str,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let server = self.server(cluster);
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

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A guest that is being set up.
pub(crate) struct Cast<'a> {
    stage: &'a Stage,
    of: &'static str,
    name: String,
    config: Value,
    rules: Vec<Rule>,
    limits: Limits,
    tenant: TenantLimits,
    /// None: a tenant of its own.
    owner: Option<Arc<Tenant>>,
    isolation: Isolation,
}

impl Cast<'_> {
    pub(crate) fn config(self, config: Value) -> Self {
        Self { config, ..self }
    }

    pub(crate) fn rules(self, rules: Vec<Rule>) -> Self {
        Self { rules, ..self }
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

    pub(crate) fn tenant(self, change: impl FnOnce(&mut TenantLimits)) -> Self {
        let mut tenant = self.tenant.clone();
        change(&mut tenant);
        Self { tenant, ..self }
    }

    pub(crate) fn tenant_memory(self, memory: usize) -> Self {
        self.tenant(|limits| limits.memory = memory)
    }

    /// In the tenant of another one.
    pub(crate) fn tenant_of(self, other: &Actor) -> Self {
        Self {
            owner: Some(other.options.tenant.clone()),
            ..self
        }
    }

    pub(crate) fn isolation(self, isolation: Isolation) -> Self {
        Self { isolation, ..self }
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
            config: self.config.to_string(),
            limits: self.limits.clone(),
            isolation: self.isolation,
        })
    }

    /// Loads it, and goes no further.
    pub(crate) async fn load(&self) -> Result<Result<Arc<Guest>, LoadError>> {
        Ok(Guest::new(sandbox(), self.options()?, revision(self.of).await?).await)
    }

    /// Loads it and has its requests run.
    pub(crate) async fn run(self) -> Result<Actor> {
        let options = self.options()?;
        let guest = Guest::new(sandbox(), options.clone(), revision(self.of).await?).await?;
        let outcomes = Arc::new(Outcomes {
            guest: guest.clone(),
            seen: Mutex::default(),
        });
        let actor = Actor {
            guest,
            outcomes,
            limits: self.limits.clone(),
            options,
        };
        actor.put(self.stage)?;
        Ok(actor)
    }
}

/// A guest that runs.
pub(crate) struct Actor {
    pub(crate) guest: Arc<Guest>,
    outcomes: Arc<Outcomes>,
    limits: Limits,
    options: GuestOptions,
}

impl Actor {
    /// Registers its controller, as its guest describes itself now.
    pub(crate) fn put(&self, stage: &Stage) -> Result<()> {
        let parts = self.guest.controller_parts();
        let options = ControllerOptions {
            timeout: self.limits.timeout,
            ..ControllerOptions::default()
        };
        let mut builder = Controller::builder(self.options.name.clone())
            .tenant(self.options.tenant.name().clone())
            .grant(self.options.grant.clone())
            .options(options);
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
        let request = request(cluster, name);
        let look = || {
            let seen = self.outcomes.seen.lock();
            match seen.iter().find(|(of, _)| *of == request) {
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

    /// The answer of a guest that answers in the message of a terminal failure.
    pub(crate) async fn answer(&self, cluster: &str, name: &str) -> Result<Value> {
        let failure = self.failure(cluster, name).await?;
        serde_json::from_str(&failure.message).with_context(|| failure.to_string())
    }

    pub(crate) fn runs(&self) -> usize {
        self.outcomes.seen.lock().len()
    }
}

/// The guest's reconciler, which keeps what comes of each run.
struct Outcomes {
    guest: Arc<Guest>,
    seen: Mutex<Vec<(Request, Result<Action, Failure>)>>,
}

impl Reconciler for Outcomes {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        Box::pin(async move {
            let request = context.request.clone();
            let outcome = self.guest.reconcile(context).await;
            self.seen.lock().push((request, outcome.clone()));
            outcome
        })
    }
}

/// A guest's component, loaded.
pub(crate) async fn revision(of: &str) -> Result<Revision> {
    Ok(sandbox().load(guest(of)).await?)
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

pub(crate) fn request(cluster: &str, name: &str) -> Request {
    Request::new(
        ClusterName::new(cluster).expect("a cluster's name"),
        ObjectKey::namespaced("default", name),
    )
}

/// A ConfigMap with a label that every guest of these tests takes for its own.
pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"test.windlass.dev/run": "yes", "hello.windlass.dev/greet": "world"}},
        "data": data,
    })
}

/// Waits for a condition that can be looked at without waiting.
pub(crate) async fn wait<T>(what: &str, mut look: impl FnMut() -> Seen<T>) -> Result<T> {
    windlass_harness::eventually(DEADLINE, what, || {
        let seen = look();
        async move { Ok(seen) }
    })
    .await
}
