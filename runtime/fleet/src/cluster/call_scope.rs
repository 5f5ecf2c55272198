//! The caller of a call, and the run that the call belongs to. Entry point: [`CallScope`].

use crate::api::{ApiCode, ApiError};
use crate::cache::store::IndexPath;
use crate::http::fence::{Fence, Pass};
use crate::kind::GroupVersionKind;
use crate::name::{ControllerName, TenantName};
use crate::outcome::Blame;
use crate::trace;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

/// How long before the deadline a run's calls begin to fail, at most. Never more than a tenth of the timeout.
pub(crate) const NOTICE: Duration = Duration::from_secs(1);

/// The reason of a `cancelled` call that has waited for its cluster until the run's time was over.
pub(crate) const OVERDUE: &str = "timeout";

/// The controller, or other code, that calls are made for. Reaches every log line, metric and API call of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The tenant.
    pub tenant: TenantName,
    /// The controller; `None` for code outside controllers.
    pub controller: Option<ControllerName>,
    /// The field manager of applied fields: `windlass:<tenant>/<reconciler>`, or `windlass:<namespace>/<name>` of an object's reconciler.
    pub(crate) field_manager: Arc<str>,
    /// The indexes that the caller declared.
    pub(crate) indexes: Arc<DeclaredIndexes>,
}

/// Indexes by kind and declared name. Two callers may use one name for different paths.
pub(crate) type DeclaredIndexes = HashMap<(GroupVersionKind, String), Arc<DeclaredIndex>>;

/// A declared index. Its id is the name that stores know it by, which consists of its paths.
#[derive(Debug)]
pub(crate) struct DeclaredIndex {
    pub(crate) id: Arc<str>,
    pub(crate) path: IndexPath,
}

impl DeclaredIndex {
    pub(crate) fn new(path: IndexPath) -> Self {
        let id = match &path.namespace_path {
            Some(namespace) => format!("{}\n{namespace}", path.path),
            None => path.path.to_string(),
        };
        Self {
            id: id.into(),
            path,
        }
    }
}

impl Caller {
    /// A caller of a tenant's controller.
    #[must_use]
    pub fn new(tenant: TenantName, controller: ControllerName) -> Self {
        let field_manager = field_manager(&tenant, &controller).into();
        Self {
            tenant,
            controller: Some(controller),
            field_manager,
            indexes: Arc::default(),
        }
    }

    /// The field managers of what it writes: the second one is of applies behind an export of kcp.
    #[must_use]
    pub fn field_managers(&self) -> [String; 2] {
        let applies = format!("{}{APPLIES}", self.field_manager);
        [self.field_manager.to_string(), applies]
    }

    /// Code outside controllers, such as tests and commands.
    #[must_use]
    pub fn program() -> Self {
        Self {
            tenant: TenantName::default(),
            controller: None,
            field_manager: "windlass".into(),
            indexes: Arc::default(),
        }
    }

    /// The same caller, under another field manager.
    pub(crate) fn managing(self, field_manager: &str) -> Self {
        Self {
            field_manager: field_manager.into(),
            ..self
        }
    }

    pub(crate) fn with_indexes(mut self, indexes: Arc<DeclaredIndexes>) -> Self {
        self.indexes = indexes;
        self
    }

    pub(crate) fn index(&self, kind: &GroupVersionKind, name: &str) -> Option<&Arc<DeclaredIndex>> {
        self.indexes.get(&(kind.clone(), name.to_owned()))
    }
}

/// The end of the name of the field manager of applies behind an export of kcp.
pub(crate) const APPLIES: &str = ":apply";

/// Longest name of a field manager that API servers allow, in bytes.
const LONGEST_MANAGER: usize = 128;

/// The field manager of a controller. A longer one than API servers allow ends with a digest of the whole in place of what is cut off.
fn field_manager(tenant: &TenantName, controller: &ControllerName) -> String {
    let mut name = if controller.is_namespaced() {
        format!("windlass:{controller}")
    } else {
        format!("windlass:{tenant}/{controller}")
    };
    if name.len() > LONGEST_MANAGER {
        let digest = Sha256::digest(&name);
        let digest: String = digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        // Names are ASCII.
        name.truncate(LONGEST_MANAGER - 1 - digest.len());
        name.extend(["-", &digest]);
    }
    name
}

/// The calls of one run: their deadline, their cancellation, and the writes that the run must wait for.
pub(crate) struct CallScope {
    pub(crate) caller: Caller,
    /// Cancelled when the run should end; from then on calls answer `cancelled`.
    pub(crate) token: CancellationToken,
    pub(crate) deadline: Option<Instant>,
    /// Writes in flight. They are never abandoned: the run ends after the last one, and each has a deadline of its own.
    pub(crate) writes: TaskTracker,
    /// Admits writes only while this process leads. `None`: there is no election.
    pub(crate) fence: Option<Arc<Fence>>,
    /// Largest Retry-After that an API server gave in this run, in milliseconds.
    retry_after: AtomicU64,
    /// Whether the last call of this run failed because of the API server.
    api_failed: AtomicBool,
}

impl CallScope {
    pub(crate) fn new(
        caller: Caller,
        token: CancellationToken,
        deadline: Option<Instant>,
    ) -> Arc<Self> {
        Self::of_run(caller, token, deadline, None)
    }

    /// As [`CallScope::new`], with a fence for writes.
    pub(crate) fn of_run(
        caller: Caller,
        token: CancellationToken,
        deadline: Option<Instant>,
        fence: Option<Arc<Fence>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            caller,
            token,
            deadline,
            writes: TaskTracker::new(),
            fence,
            retry_after: AtomicU64::new(0),
            api_failed: AtomicBool::new(false),
        })
    }

    /// Checks that the run goes on.
    ///
    /// # Errors
    /// `cancelled` when it should end.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.token.is_cancelled() {
            Err(cancelled())
        } else {
            Ok(())
        }
    }

    /// Whether its time is over, as opposed to a run that somebody ends.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| deadline <= Instant::now() + NOTICE)
    }

    /// A pass for one write, if there is a fence.
    ///
    /// # Errors
    /// `cancelled` when this process may no longer be the leader.
    pub(crate) fn enter(&self) -> Result<Option<Pass>, ApiError> {
        Ok(self.fence.as_ref().map(Fence::enter).transpose()?)
    }

    /// The time that a call has left, at most `limit`.
    pub(crate) fn time_left(&self, limit: Duration) -> Duration {
        self.deadline.map_or(limit, |deadline| {
            deadline
                .saturating_duration_since(Instant::now())
                .min(limit)
        })
    }

    /// Makes a call in its span, and records how it failed.
    pub(crate) fn call<T>(
        &self,
        span: Span,
        work: impl Future<Output = Result<T, ApiError>> + Send,
    ) -> impl Future<Output = Result<T, ApiError>> + Send {
        // Boxed before the future below exists: callers move that future.
        let work = Box::pin(work);
        async move {
            let result = work.instrument(span.clone()).await;
            self.ended(&span, result)
        }
    }

    /// Records how a call ended, which was made in this span.
    pub(crate) fn ended<T>(&self, span: &Span, result: Result<T, ApiError>) -> Result<T, ApiError> {
        trace::answered(span, &result);
        self.record(result)
    }

    fn record<T>(&self, result: Result<T, ApiError>) -> Result<T, ApiError> {
        let failed = result.as_ref().err();
        // A call that ends with its run says nothing about the server, unless it has waited for the server until then.
        let api_failed = failed.is_some_and(|error| {
            let is_ended = error.code == ApiCode::Cancelled && error.reason != OVERDUE;
            error.blame() == Blame::Api && !is_ended
        });
        self.api_failed.store(api_failed, Ordering::Relaxed);
        if let Some(ApiError {
            retry_after: Some(after),
            ..
        }) = failed
        {
            self.retry_after.fetch_max(
                u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                Ordering::Relaxed,
            );
        }
        result
    }

    pub(crate) fn api_failed(&self) -> bool {
        self.api_failed.load(Ordering::Relaxed)
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self.retry_after.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        }
    }
}

pub(crate) fn cancelled() -> ApiError {
    ApiError::host(ApiCode::Cancelled, "this call is ending: return now")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tenant: &str, controller: &str) -> String {
        let (tenant, controller) = (TenantName::new(tenant), ControllerName::new(controller));
        field_manager(&tenant.unwrap(), &controller.unwrap())
    }

    #[test]
    fn a_field_manager_is_no_longer_than_servers_allow_and_tells_reconcilers_apart() {
        assert_eq!(of("team-a", "hello"), "windlass:team-a/hello");
        assert_eq!(of("team-a", "apps/hello"), "windlass:apps/hello");
        let longest = of(&"t".repeat(50), &"r".repeat(63));
        assert_eq!(
            longest,
            format!("windlass:{}/{}", "t".repeat(50), "r".repeat(63))
        );
        let long = |end: &str| of("a", &format!("apps/{}{end}", "n".repeat(200)));
        assert_eq!(long("").len(), LONGEST_MANAGER);
        assert!(long("").starts_with("windlass:apps/nnn"), "{}", long(""));
        assert_ne!(long("1"), long("2"));
    }
}
