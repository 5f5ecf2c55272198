//! The door that every call of a reconcile to a cluster passes. Entry point: [`Door`].
//!
//! A tool for authors stands at the door ([`Options::door`](crate::Options)): it sees each call before its effect, and decides how the
//! call ends. It needs no help of the guest, so it works for every language.
//!
//! Calls of a batch pass one by one. Calls of mappers, which read caches alone, and Events do not pass.
//! While nobody stands at the door, a call costs one comparison.

use crate::contract::handle::Refused;
use futures::{FutureExt as _, TryFutureExt as _};
use std::fmt;
use std::sync::Arc;
use windlass_fleet::api::{ApiError, Operation, Reply, Selection};
use windlass_fleet::controller::ReconcileId;
use windlass_fleet::outbound::{HttpRequest, HttpResponse};
use windlass_fleet::{Client, ClusterName, Context, ControllerName, GroupVersionKind, Request};

/// Decides how the calls of guests end.
pub trait Door: Send + Sync {
    /// How a call ends that is about to begin. Called on a worker of guests: it must not block for long.
    fn decide(&self, call: &HostCall<'_>) -> Fate;

    /// The end of a call to a server that is no API server, once a rule allows it. Default: it is sent.
    fn outside(&self, _: &HttpRequest) -> HttpFate {
        HttpFate::Sent
    }
}

/// The end of a call to a server that is no API server.
#[derive(Debug, Clone)]
pub enum HttpFate {
    /// It is sent.
    Sent,
    /// Nothing is sent, and the guest gets this.
    Ended(Result<HttpResponse, ApiError>),
}

/// A call that is about to begin.
#[derive(Debug, Clone, Copy)]
pub struct HostCall<'a> {
    /// The reconciler whose guest calls.
    pub reconciler: &'a ControllerName,
    /// The request that it reconciles.
    pub request: &'a Request,
    /// The run that the call belongs to.
    pub run: ReconcileId,
    /// The cluster that is called.
    pub cluster: &'a ClusterName,
    /// What is asked for.
    pub asked: Asked<'a>,
}

/// What a call asks for.
#[derive(Debug, Clone, Copy)]
pub enum Asked<'a> {
    /// A read, or a write of one object.
    Operation(&'a Operation),
    /// The deletion of a selection of objects.
    DeleteCollection(&'a GroupVersionKind, &'a Selection),
}

/// How a call ends.
#[derive(Debug, Clone)]
pub enum Fate {
    /// As it would without a door.
    Pass,
    /// Otherwise, before its effect or after it.
    End {
        /// Whether its effect happens first.
        done: bool,
        /// The guest's end of it.
        ending: Ending,
    },
}

/// The result of a call for its guest, if it ends otherwise.
#[derive(Debug, Clone)]
pub enum Ending {
    /// Its run ends here, as if the process had been killed. The key is tried again.
    Kill,
    /// It gets this error.
    Error(ApiError),
}

/// Who stands at the door of a sandbox: nobody, unless a tool puts itself there. Clones are the same door.
#[derive(Clone, Default)]
pub struct Doorkeeper(Option<Arc<dyn Door>>);

impl Doorkeeper {
    /// A door with somebody at it.
    #[must_use]
    pub fn new(door: Arc<dyn Door>) -> Self {
        Self(Some(door))
    }

    /// The passage of one reconcile. `None`: nobody stands at the door.
    pub(crate) fn passage(
        &self,
        reconciler: &ControllerName,
        context: &Context,
    ) -> Option<Passage> {
        self.0.as_ref().map(|door| Passage {
            door: door.clone(),
            reconciler: reconciler.clone(),
            request: context.request.clone(),
            run: context.id,
        })
    }
}

impl fmt::Debug for Doorkeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Doorkeeper")
            .field(&self.0.is_some())
            .finish()
    }
}

/// Who stands at the door is no part of options.
impl PartialEq for Doorkeeper {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Doorkeeper {}

/// The way of one reconcile through a door.
#[derive(Clone)]
pub(crate) struct Passage {
    door: Arc<dyn Door>,
    reconciler: ControllerName,
    request: Request,
    run: ReconcileId,
}

/// A door ended the run.
#[derive(Debug, thiserror::Error)]
#[error("the run was killed at a call of it, as a test asks")]
struct Killed;

/// Runs an operation that passes the door, if somebody stands there.
pub(crate) fn run(
    passage: Option<Passage>,
    client: Client,
    operation: Operation,
) -> impl Future<Output = Result<Reply, Refused>> + Send {
    match passage {
        None => client
            .into_run(operation)
            .map_err(Refused::from)
            .left_future(),
        // Boxed: every call is moved with the room for it, and hardly any needs that.
        Some(passage) => passage.run(client, operation).boxed().right_future(),
    }
}

impl Passage {
    async fn run(self, client: Client, operation: Operation) -> Result<Reply, Refused> {
        let fate = self.fate(&client, Asked::Operation(&operation));
        fate.of(client.into_run(operation)).await
    }

    /// The end of a call to a server that is no API server.
    pub(crate) fn outside(&self, request: &HttpRequest) -> HttpFate {
        self.door.outside(request)
    }

    /// How a call ends.
    pub(crate) fn fate(&self, client: &Client, asked: Asked<'_>) -> Fate {
        self.door.decide(&HostCall {
            reconciler: &self.reconciler,
            request: &self.request,
            run: self.run,
            cluster: client.cluster_name(),
            asked,
        })
    }
}

impl Fate {
    /// Ends a call like this. One that does not pass and is not done is never polled.
    pub(crate) async fn of<T>(
        self,
        call: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, Refused> {
        let (done, ending) = match self {
            Self::Pass => return Ok(call.await?),
            Self::End { done, ending } => (done, ending),
        };
        if done {
            // The guest never learns of the answer.
            drop(call.await);
        }
        Err(match ending {
            Ending::Kill => Refused::Trap(Killed.into()),
            Ending::Error(error) => Refused::Api(error),
        })
    }
}
