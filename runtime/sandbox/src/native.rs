//! Guests whose code runs as a process of its own, outside of the sandbox: under a debugger, or in a unit test. Entry point:
//! [`NativeGuest`].
//!
//! The process has no rights of its own. It sends each call of a host function as a line of JSON, and [`Run::answer`] passes it to the
//! function that components call, with the same grant, handles and limits of calls. Time is not limited: somebody may be looking at a
//! breakpoint. Memory and processor time are the process's own.
//!
//! The lines are the contract's functions and types as serde writes them ([`message`]). This crate does not choose the transport.

mod message;

use crate::contract::exports::windlass::runtime::reconciler::Description as WitDescription;
use crate::contract::handle::{ClusterHandle, Reach};
use crate::contract::windlass::runtime::types;
use crate::instance::call::{Call, FleetView, Purpose, Time};
use crate::tenant::context::GuestContext;
use message::{Message, Task};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use windlass_fleet::api::Json;
use windlass_fleet::{Action, Client, Context, Digest, Failure, GroupVersionKind};

/// When a run is given up for good.
const PATIENCE: Duration = Duration::from_secs(86_400);

/// A guest whose code is a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NativeGuest {
    runs: mpsc::Sender<Run>,
}

/// The runs of a guest's process, one after the other.
#[derive(Debug)]
pub struct Runs(mpsc::Receiver<Run>);

/// One run: what the process shall do, and the calls that it makes meanwhile. Fails when it is dropped before the process has returned.
pub struct Run {
    call: Call,
    task: Task,
    /// Who waits for the result. `None`: the run has ended.
    waiting: Option<oneshot::Sender<Box<RawValue>>>,
}

/// The guests of processes that are connected, by the digest of what stands in the place of their component. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct NativeGuests(Arc<Mutex<HashMap<Digest, NativeGuest>>>);

impl NativeGuests {
    /// Lets the guest of a process serve where a file with these bytes is loaded.
    pub fn put(&self, in_place_of: &[u8], guest: NativeGuest) {
        self.0.lock().insert(Digest::of(in_place_of), guest);
    }

    /// Forgets the guest of a process that has gone.
    pub fn remove(&self, in_place_of: &[u8]) {
        self.0.lock().remove(&Digest::of(in_place_of));
    }

    pub(crate) fn get(&self, digest: Digest) -> Option<NativeGuest> {
        self.0.lock().get(&digest).cloned()
    }
}

/// What follows a line of the process.
#[derive(Debug)]
pub enum Next {
    /// This line is for the process, which goes on.
    Answer(Vec<u8>),
    /// The run has ended.
    Ended,
}

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// A line is no message.
    #[error("this is no message of a guest; use the SDK of this version of windlass")]
    Message(#[source] serde_json::Error),
    /// The guest has too many handles.
    #[error("no handle can be given: {0}")]
    Handle(String),
    /// Its process has gone, or did not answer.
    #[error("the process of the guest has gone: start it again")]
    Gone,
}

impl NativeGuest {
    /// A guest, and the runs that its process shall do. One run is asked for at a time.
    #[must_use]
    pub fn new() -> (Self, Runs) {
        let (runs, asked) = mpsc::channel(1);
        (Self { runs }, Runs(asked))
    }

    /// Asks for `describe`.
    pub(crate) async fn describe(
        &self,
        guest: Arc<GuestContext>,
    ) -> Result<Result<WitDescription, String>, NativeError> {
        let call = call(guest, Purpose::Describe).await;
        self.run(call, Task::Describe).await
    }

    /// Asks for `reconcile`.
    pub(crate) async fn reconcile(
        &self,
        guest: Arc<GuestContext>,
        context: Context,
    ) -> Result<Action, Failure> {
        let client = context.client(&guest.given).with_policy(guest.clone());
        let request = types::Request::from(&context.request);
        let run = async {
            let mut call = call(guest, Purpose::Reconcile(context)).await;
            let cluster = give(&mut call, client, Reach::Everything)?;
            self.run(call, Task::Reconcile { request, cluster }).await
        };
        let answer: Result<Result<types::Action, types::Failure>, NativeError> = run.await;
        let answer = answer.map_err(|error| Failure::retry(error.to_string()))?;
        answer.map(Action::from).map_err(types::Failure::cleaned)
    }

    /// Asks for `map-objects`.
    pub(crate) async fn map(
        &self,
        guest: Arc<GuestContext>,
        client: Client,
        view: FleetView,
        kind: &GroupVersionKind,
        objects: &[Json],
    ) -> Result<Result<Vec<types::Request>, String>, NativeError> {
        let client = client.with_policy(guest.clone());
        let mut call = call(guest, Purpose::Map(view)).await;
        let cluster = give(&mut call, client, Reach::CachedReads)?;
        let texts = objects.iter().map(|object| String::from_utf8_lossy(object));
        let task = Task::MapObjects {
            cluster,
            kind: kind.into(),
            objects: texts.map(|text| text.into_owned()).collect(),
        };
        self.run(call, task).await
    }

    /// Waits until the process has done a task, and returns its result.
    async fn run<T: DeserializeOwned>(&self, call: Call, task: Task) -> Result<T, NativeError> {
        let (waiting, ended) = oneshot::channel();
        let run = Run {
            call,
            task,
            waiting: Some(waiting),
        };
        self.runs.send(run).await.map_err(|_| NativeError::Gone)?;
        let result = ended.await.map_err(|_| NativeError::Gone)?;
        message::parse(result.get().as_bytes())
    }
}

/// The host's state of a call. It has no memory of its own: the process's is not the tenant's.
async fn call(guest: Arc<GuestContext>, purpose: Purpose) -> Call {
    let reservation = guest.tenant.reserve(0, false).await;
    Call::new(
        guest,
        reservation,
        purpose,
        Time::until(Instant::now() + PATIENCE),
    )
}

fn give(call: &mut Call, client: Client, reach: Reach) -> Result<u32, NativeError> {
    let given = call.give(ClusterHandle::new(client, reach));
    let given = given.map_err(|error| NativeError::Handle(error.to_string()))?;
    Ok(given.rep())
}

impl Runs {
    /// The next run. `None`: nobody asks any longer.
    ///
    /// # Cancellation
    /// Loses nothing.
    pub async fn next(&mut self) -> Option<Run> {
        self.0.recv().await
    }
}

impl Run {
    /// The line by which the process is asked.
    #[must_use]
    pub fn task(&self) -> Vec<u8> {
        message::line(&self.task)
    }

    /// The handle of the run's cluster, for a process that asked for this run itself. `None`: it reaches none.
    #[must_use]
    pub fn cluster(&self) -> Option<u32> {
        match self.task {
            Task::Describe => None,
            Task::Reconcile { cluster, .. } | Task::MapObjects { cluster, .. } => Some(cluster),
        }
    }

    /// Ends a run that the process has asked for itself: nobody waits for its result.
    pub fn done(mut self) {
        drop(self.call.end());
        let done = RawValue::from_string("{\"Ok\":\"Done\"}".to_owned());
        let waiting = self.waiting.take();
        drop(
            waiting
                .zip(done.ok())
                .map(|(waiting, done)| waiting.send(done)),
        );
    }

    /// Does what a line of the process says: answers a call, or ends the run. A run that has ended answers no further call.
    ///
    /// # Errors
    /// When the line is no message.
    pub async fn answer(&mut self, line: &[u8]) -> Result<Next, NativeError> {
        Ok(self.follow(message::parse(line)?).await)
    }

    /// As [`Run::answer`], for a test, which writes beside the guest: no read is older than the test's last write. All reads are live.
    ///
    /// # Errors
    /// When the line is no message.
    pub async fn answer_live(&mut self, line: &[u8]) -> Result<Next, NativeError> {
        let mut message = message::parse(line)?;
        if let Message::Call(function) = &mut message {
            function.read_live();
        }
        Ok(self.follow(message).await)
    }

    async fn follow(&mut self, message: Message) -> Next {
        match message {
            Message::Return(result) => {
                drop(self.call.end());
                // Nobody waits any longer where the run was cancelled.
                drop(self.waiting.take().map(|waiting| waiting.send(result)));
                Next::Ended
            }
            Message::Call(function) => Next::Answer(function.answer(&mut self.call).await),
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}
