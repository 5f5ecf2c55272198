//! The host's side of one guest: its tenant, grant and limits, and the policy for its API calls. Entry point: [`GuestContext`].
//!
//! * An API call takes a token of the guest's rate and of its tenant's, then a permit of its tenant. The tokens of a call that does not
//!   begin are given back.
//! * A restricted grant bounds the calls of earlier configurations too.

use crate::description::kinds::plural_of;
use crate::door::Doorkeeper;
use crate::guest_clock::GuestClock;
use crate::journal::LogRate;
use crate::options::Limits;
use crate::tenant::denials::Denials;
use crate::tenant::outside::Outside;
use crate::tenant::recordings::Recordings;
use crate::tenant::usage::{Limit, Usage};
use crate::tenant::{Tenant, bucket};
use arc_swap::ArcSwapOption;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use windlass_fleet::api::{ApiError, Operation, Projection, ReadMode};
use windlass_fleet::cluster::{Bucket, CallPolicy, MemoryCharge, Permit};
use windlass_fleet::grant::{Denied, Right, Verb};
use windlass_fleet::outbound::HttpGrant;
use windlass_fleet::path::FieldMask;
use windlass_fleet::{ApiCode, Cluster, ControllerName, Grant, GroupVersionKind};

/// The host's side of one guest. The same for all calls until the configuration changes.
#[derive(Debug)]
pub(crate) struct GuestContext {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) name: ControllerName,
    /// The grant of its configuration. It may have been restricted since: [`GuestContext::grant`].
    pub(crate) given: Arc<Grant>,
    /// The same for servers that are no API servers: [`GuestContext::http`].
    pub(crate) given_http: Arc<HttpGrant>,
    /// JSON.
    pub(crate) config: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) history: History,
    /// The rate of API calls.
    requests: Mutex<Option<Bucket>>,
    /// The rate of log lines of all of its calls. `None`: unlimited.
    pub(crate) log: Option<Arc<LogRate>>,
    /// What it has said of itself, once it has described itself.
    pub(crate) said: OnceLock<Said>,
}

/// What of a guest's description its calls need.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// The kind that its requests name.
    pub(crate) primary: Option<GroupVersionKind>,
    /// The kinds of which it reads some fields alone.
    pub(crate) masks: Vec<(GroupVersionKind, FieldMask)>,
}

/// State that survives a change of a guest's configuration. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) usage: Arc<Usage>,
    pub(crate) denials: Arc<Denials>,
    /// The clock that it reads.
    pub(crate) clock: GuestClock,
    /// The door that its calls pass.
    pub(crate) door: Doorkeeper,
    /// The grant in effect, which also bounds calls of earlier configurations. `None`: the guest does not serve yet.
    pub(crate) latest: Arc<ArcSwapOption<Grant>>,
    /// The same for servers that are no API servers.
    pub(crate) latest_http: Arc<ArcSwapOption<HttpGrant>>,
    /// Calls to such servers.
    pub(crate) outside: Arc<Outside>,
    /// Recordings of its runs.
    pub(crate) recordings: Arc<Recordings>,
}

impl GuestContext {
    /// A guest that calls no server but API servers.
    pub(crate) fn new(
        tenant: Arc<Tenant>,
        name: ControllerName,
        grant: Arc<Grant>,
        config: Arc<str>,
        limits: Limits,
        history: History,
    ) -> Arc<Self> {
        Arc::new(Self::with(tenant, name, grant, config, limits, history))
    }

    pub(crate) fn with(
        tenant: Arc<Tenant>,
        name: ControllerName,
        grant: Arc<Grant>,
        config: Arc<str>,
        limits: Limits,
        history: History,
    ) -> Self {
        let requests = Mutex::new(bucket(limits.requests_per_second));
        let log = limits.log_rate();
        let log = log.map(|rate| Arc::new(LogRate::new(rate, Instant::now())));
        Self {
            tenant,
            name,
            given: grant,
            given_http: Arc::default(),
            config,
            limits,
            history,
            requests,
            log,
            said: OnceLock::new(),
        }
    }

    /// The same guest, which may call other servers too.
    pub(crate) fn calling(self, http: Arc<HttpGrant>) -> Self {
        Self {
            given_http: http,
            ..self
        }
    }

    /// The same guest, which has said this of itself.
    pub(crate) fn saying(self, said: OnceLock<Said>) -> Self {
        Self { said, ..self }
    }

    /// What it may call besides API servers: the grant of its configuration, restricted to the latest one.
    pub(crate) fn http(&self) -> Arc<HttpGrant> {
        match &*self.history.latest_http.load() {
            Some(latest) if !Arc::ptr_eq(latest, &self.given_http) => {
                Arc::new(self.given_http.and(latest))
            }
            _ => self.given_http.clone(),
        }
    }

    /// Notes, for a grant that does, that the guest asks in one cluster for another one. A rule that opens that one may grant the least of what
    /// a request there is about: reading its object.
    pub(crate) fn note_cluster(&self, from: &Cluster, cluster: &Cluster) {
        let grant = self.grant();
        if !grant.is_noting() {
            return;
        }
        let labels = cluster.labels();
        let facts = cluster.facts(&labels, from.name() == cluster.name());
        grant.note_cluster(&facts, || self.least_right(Some(cluster)));
    }

    /// The fields that it reads of a kind, if it has said so.
    pub(crate) fn mask(&self, kind: &GroupVersionKind) -> Option<&FieldMask> {
        let masks = self.said.get()?.masks.iter();
        let mut masks = masks.filter(|(of, _)| of == kind);
        masks.next().map(|(_, mask)| mask)
    }

    /// What it is given of the objects that it reads so. `None`: all that it asks for, as by a read that is live, of a subresource or of the metadata.
    pub(crate) fn mask_of(&self, operation: &Operation) -> Option<FieldMask> {
        let (kind, mode, projection) = match operation {
            Operation::Get(kind, _, options) if options.subresource.is_none() => {
                (kind, options.mode, options.projection)
            }
            Operation::List(kind, options) => (kind, options.mode, options.projection),
            _ => return None,
        };
        let is_partial = mode == ReadMode::Cached && projection == Projection::Full;
        self.mask(kind).filter(|_| is_partial).cloned()
    }

    /// Refuses to replace an object of a kind of which it reads some fields alone: it would remove the others.
    pub(crate) fn check_replaces(&self, operation: &Operation) -> Result<(), ApiError> {
        match operation {
            Operation::Update(kind, ..) if self.mask(kind).is_some() => {
                let message = format!(
                    "an update of a {kind} would remove the fields that a watch of this guest leaves out: patch or apply it, or watch it without the option \"fields\""
                );
                Err(ApiError::host(ApiCode::Invalid, message))
            }
            _ => Ok(()),
        }
    }

    /// The right to read an object of the primary kind.
    pub(crate) fn least_right(&self, cluster: Option<&Cluster>) -> Right {
        let said = self.said.get();
        let Some(kind) = said.and_then(|said| said.primary.as_ref()) else {
            return Right::new("", "namespaces", Verb::Get);
        };
        let served = cluster.and_then(|cluster| cluster.plural(kind));
        let plural = served.unwrap_or_else(|| plural_of(&kind.group, &kind.kind).name.into());
        Right::new(&kind.group, &plural, Verb::Get)
    }

    /// The grant in effect: the grant of its configuration, restricted to the latest one.
    pub(crate) fn grant(&self) -> Arc<Grant> {
        self.current_grant(&self.given)
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.history.usage
    }

    /// Counts that a call hit a limit.
    pub(crate) fn hit(&self, limit: Limit) {
        self.history.usage.hit(limit);
    }

    fn take_token(&self, patience: Duration) -> Option<Duration> {
        let rate = self.limits.requests_per_second;
        self.tenant.take_from(&self.requests, rate, patience)
    }

    /// Takes the tokens of an API call, the guest's and its tenant's. Returns them, and how long the call has to wait.
    fn take_tokens(&self, patience: Duration) -> Result<(Tokens<'_>, Duration), ApiError> {
        let own = self.take_token(patience).ok_or_else(|| {
            self.hit(Limit::RequestRate);
            too_many("limits.requestsPerSecond", patience)
        })?;
        let mut tokens = Tokens {
            guest: self,
            own: true,
            shared: false,
        };
        let shared = self.tenant.take_token(patience).ok_or_else(|| {
            self.hit(Limit::TenantRequestRate);
            too_many("the tenant's limits.requestsPerSecond", patience)
        })?;
        tokens.shared = true;
        for (wait, limit) in [
            (own, Limit::RequestRate),
            (shared, Limit::TenantRequestRate),
        ] {
            if !wait.is_zero() {
                self.hit(limit);
            }
        }
        Ok((tokens, own.max(shared)))
    }

    async fn wait_to_begin(&self, patience: Duration) -> Result<Permit, ApiError> {
        let began = tokio::time::Instant::now();
        let (tokens, delay) = self.take_tokens(patience)?;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let semaphore = match self.tenant.request() {
            Ok(permit) => {
                tokens.use_up();
                return Ok(Box::new(permit));
            }
            Err(semaphore) => semaphore,
        };
        self.hit(Limit::TenantRequests);
        let waited = tokio::time::timeout_at(began + patience, semaphore.acquire_owned()).await;
        match waited {
            Ok(Ok(permit)) => {
                tokens.use_up();
                Ok(Box::new(permit))
            }
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => {
                let most = self.tenant.most_requests();
                let message = format!(
                    "{most} API calls of the tenant's reconcilers are under way, and none ended within {patience:?}: the tenant's limits.requestsInFlight allows no more"
                );
                Err(ApiError::host(ApiCode::LimitExceeded, message))
            }
        }
    }
}

/// The rate tokens of an API call that has not begun. Given back when this is dropped: the call was refused or cancelled.
struct Tokens<'a> {
    guest: &'a GuestContext,
    own: bool,
    shared: bool,
}

impl Tokens<'_> {
    /// Keeps the tokens: the call begins.
    fn use_up(mut self) {
        (self.own, self.shared) = (false, false);
    }
}

impl Drop for Tokens<'_> {
    fn drop(&mut self) {
        if self.own
            && let Some(bucket) = &mut *self.guest.requests.lock()
        {
            bucket.give_back();
        }
        if self.shared {
            self.guest.tenant.give_back_token();
        }
    }
}

fn too_many(field: &str, patience: Duration) -> ApiError {
    let message =
        format!("more API calls than {field} allows: this one could not begin within {patience:?}");
    ApiError::host(ApiCode::LimitExceeded, message)
}

impl CallPolicy for GuestContext {
    fn acquire(&self, patience: Duration) -> BoxFuture<'_, Result<Permit, ApiError>> {
        self.wait_to_begin(patience).boxed()
    }

    fn current_grant(&self, grant: &Arc<Grant>) -> Arc<Grant> {
        match &*self.history.latest.load() {
            Some(latest) if !Arc::ptr_eq(latest, &self.given) => Arc::new(grant.and(latest)),
            _ => grant.clone(),
        }
    }

    fn denied(&self, missing: &Denied) {
        let denials = &self.history.denials;
        match (missing.misspelt(), missing.tenant_lacks()) {
            (Some(hint), _) => denials.add(hint),
            (None, None) => denials.add_missing(missing.missing_rule()),
            (None, Some(lacks)) => denials.add(&format!("the tenant does not allow it: {lacks}")),
        }
    }

    fn charge(&self, bytes: usize) -> Result<MemoryCharge, ApiError> {
        if !self.tenant.charge(bytes) {
            self.hit(Limit::TenantMemory);
            let message =
                "the tenant's limits.memory leaves no room for memory that the host uses for it";
            return Err(ApiError::host(ApiCode::LimitExceeded, message));
        }
        let tenant = self.tenant.clone();
        Ok(Box::new(Charged { tenant, bytes }))
    }

    fn event_refused(&self) {
        self.hit(Limit::Events);
    }
}

/// A charge for memory that the host uses for a tenant, until it is dropped.
struct Charged {
    tenant: Arc<Tenant>,
    bytes: usize,
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.tenant.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Rate, TenantLimits};
    use windlass_fleet::TenantName;

    fn guest(limits: Limits, tenant: &TenantLimits) -> Arc<GuestContext> {
        GuestContext::new(
            Tenant::new(TenantName::default(), tenant),
            ControllerName::new("calls").unwrap(),
            Arc::new(Grant::none()),
            "{}".into(),
            limits,
            History::default(),
        )
    }

    #[tokio::test]
    async fn api_calls_of_a_tenant_wait_for_each_other_and_not_for_ever() {
        let tenant = TenantLimits {
            requests_in_flight: 1,
            ..TenantLimits::default()
        };
        let guest = guest(Limits::default(), &tenant);
        let held = guest.acquire(Duration::from_secs(30)).await.ok().unwrap();
        let refused = guest
            .acquire(Duration::from_millis(20))
            .await
            .err()
            .unwrap();
        assert_eq!(refused.code, ApiCode::LimitExceeded);
        assert!(
            refused.message.contains("limits.requestsInFlight"),
            "{refused}"
        );
        let waiting = guest.acquire(Duration::from_secs(30));
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(held);
        assert!(waiting.await.is_ok());
        assert_eq!(guest.usage().hits()["tenant.requestsInFlight"], 2);
    }

    #[tokio::test]
    async fn a_call_over_the_rate_is_refused_when_it_cannot_wait_so_long() {
        let limits = Limits {
            requests_per_second: Some(Rate { per_second: 1 }),
            ..Limits::default()
        };
        let guest = guest(limits, &TenantLimits::default());
        assert!(guest.acquire(Duration::from_millis(1)).await.is_ok());
        let refused = guest.acquire(Duration::from_millis(1)).await.err().unwrap();
        assert_eq!(refused.code, ApiCode::LimitExceeded);
        assert!(
            refused.message.contains("limits.requestsPerSecond"),
            "{refused}"
        );
        assert_eq!(guest.usage().hits()["requestsPerSecond"], 1);
    }

    #[tokio::test]
    async fn a_call_that_its_tenant_refuses_costs_the_guest_no_token() {
        let rate = |per_second| Some(Rate { per_second });
        let limits = Limits {
            requests_per_second: rate(3),
            ..Limits::default()
        };
        let tenant = TenantLimits {
            requests_per_second: rate(1),
            requests_in_flight: 1,
            ..TenantLimits::default()
        };
        let guest = guest(limits, &tenant);
        let held = guest.acquire(Duration::ZERO).await.ok().unwrap();
        for _ in 0..10 {
            let refused = guest.acquire(Duration::ZERO).await.err().unwrap();
            assert!(refused.message.contains("the tenant's"), "{refused}");
        }
        // Nor does one that is refused for those under way, or given up while it waits.
        guest.tenant.set_limits(&TenantLimits {
            requests_per_second: rate(1000),
            ..tenant
        });
        for _ in 0..10 {
            assert!(guest.acquire(Duration::ZERO).await.is_err());
            let mut waits = guest.acquire(Duration::from_secs(30));
            assert!(futures::poll!(&mut waits).is_pending());
        }
        drop(held);
        for _ in 0..2 {
            assert!(guest.acquire(Duration::ZERO).await.is_ok());
        }
        assert_eq!(guest.usage().hits().get("requestsPerSecond"), None);
    }
}
