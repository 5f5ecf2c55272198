//! The host functions of a call that has a tape: each is recorded, or answered from a recording. Entry point: [`Taped`].
//!
//! Calls without a tape are linked to the functions themselves, so that they pay nothing.

use crate::contract::handle::{ClusterHandle, Refused};
use crate::contract::windlass::runtime::client::{
    self as wit, GroupVersionKind, HostCluster, ObjectKey,
};
use crate::contract::windlass::runtime::types::{self, ApiError, Host as _};
use crate::contract::windlass::runtime::{clock, fleet, http};
use crate::instance::call::Call;
use crate::recording::contract::Answered;
use crate::recording::{Asked, Operation};
use crate::tape::Tape;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use wasmtime::component::{HasData, Resource};
use windlass_fleet::ClusterName;

type Handle = Resource<ClusterHandle>;

/// A call that has a tape.
pub(crate) struct Taped<'a>(pub(crate) &'a mut Call);

/// Links functions to [`Taped`].
pub(crate) struct HasTape;

impl HasData for HasTape {
    type Data<'a> = Taped<'a>;
}

impl Taped<'_> {
    /// The tape. A call without one is not linked to these functions.
    fn tape(&self) -> wasmtime::Result<Arc<Tape>> {
        let tape = self.0.tape().cloned();
        tape.ok_or_else(|| wasmtime::Error::msg("the call has no tape"))
    }

    /// The name of a handle's cluster.
    fn cluster(&self, handle: &Handle) -> wasmtime::Result<String> {
        Ok(self.0.table.get(handle)?.name()?.to_string())
    }

    /// Plays a call, or has the host answer it and records it.
    async fn through<T: Answered>(
        &mut self,
        asked: Asked,
        call: impl for<'a> FnOnce(&'a mut Call) -> BoxFuture<'a, wasmtime::Result<T>> + Send,
    ) -> wasmtime::Result<T> {
        let tape = self.tape()?;
        if let Some(played) = tape.play(&asked) {
            return Ok(played?);
        }
        let step = tape.ask(asked);
        let answer = call(self.0).await?;
        tape.note(step, &answer);
        Ok(answer)
    }

    /// As [`Self::through`], for a function that may fail. A trap of the host is not recorded: the run's outcome tells it.
    async fn result<T>(
        &mut self,
        asked: Asked,
        call: impl for<'a> FnOnce(&'a mut Call) -> BoxFuture<'a, Result<T, Refused>> + Send,
    ) -> Result<T, Refused>
    where
        T: Send,
        Result<T, ApiError>: Answered,
    {
        let tape = self.tape()?;
        if let Some(played) = tape.play::<Result<T, ApiError>>(&asked) {
            return played
                .map_err(wasmtime::Error::from)?
                .map_err(Refused::Told);
        }
        let step = tape.ask(asked);
        let answer = match call(self.0).await {
            Ok(value) => Ok(value),
            Err(refused) => Err(self.0.convert_api_error(refused)?),
        };
        tape.note(step, &answer);
        answer.map_err(Refused::Told)
    }

    /// As [`Self::result`], for what is asked of a cluster.
    async fn operation<T>(
        &mut self,
        handle: Handle,
        operation: Operation,
        call: impl for<'a> FnOnce(&'a mut Call, Handle) -> BoxFuture<'a, Result<T, Refused>> + Send,
    ) -> Result<T, Refused>
    where
        T: Send,
        Result<T, ApiError>: Answered,
    {
        let cluster = self.cluster(&handle)?;
        let asked = Asked::Do { cluster, operation };
        self.result(asked, |own| call(own, handle)).await
    }
}

impl wit::Host for Taped<'_> {}

impl types::Host for Taped<'_> {
    fn convert_api_error(&mut self, refused: Refused) -> wasmtime::Result<ApiError> {
        self.0.convert_api_error(refused)
    }
}

impl HostCluster for Taped<'_> {
    fn name(&mut self, cluster: Handle) -> wasmtime::Result<String> {
        self.cluster(&cluster)
    }

    async fn get(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        key: ObjectKey,
        options: wit::GetOptions,
    ) -> Result<Option<String>, Refused> {
        let asked = Operation::Get {
            kind: kind.clone().into(),
            key: key.clone().into(),
            options: options.clone().into(),
        };
        self.operation(cluster, asked, |call, cluster| {
            call.get(cluster, kind, key, options).boxed()
        })
        .await
    }

    async fn list(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        options: wit::ListOptions,
    ) -> Result<wit::ListPage, Refused> {
        let asked = Operation::List {
            kind: kind.clone().into(),
            options: options.clone().into(),
        };
        self.operation(cluster, asked, |call, cluster| {
            call.list(cluster, kind, options).boxed()
        })
        .await
    }

    async fn create(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        object: String,
        options: wit::WriteOptions,
    ) -> Result<String, Refused> {
        let asked = Operation::Create {
            kind: kind.clone().into(),
            object: object.clone().into(),
            options: options.clone().into(),
        };
        self.operation(cluster, asked, |call, cluster| {
            call.create(cluster, kind, object, options).boxed()
        })
        .await
    }

    async fn update(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        object: String,
        options: wit::WriteOptions,
    ) -> Result<String, Refused> {
        let asked = Operation::Update {
            kind: kind.clone().into(),
            object: object.clone().into(),
            options: options.clone().into(),
        };
        self.operation(cluster, asked, |call, cluster| {
            call.update(cluster, kind, object, options).boxed()
        })
        .await
    }

    async fn patch(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        key: ObjectKey,
        patch_type: wit::PatchType,
        patch: String,
        options: wit::WriteOptions,
    ) -> Result<String, Refused> {
        let asked = Operation::Patch {
            kind: kind.clone().into(),
            key: key.clone().into(),
            patch_type: patch_type.into(),
            patch: patch.clone().into(),
            options: options.clone().into(),
        };
        self.operation(cluster, asked, |call, cluster| {
            call.patch(cluster, kind, key, patch_type, patch, options)
                .boxed()
        })
        .await
    }

    async fn apply(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        object: String,
        options: wit::ApplyOptions,
    ) -> Result<String, Refused> {
        let asked = Operation::Apply {
            kind: kind.clone().into(),
            object: object.clone().into(),
            options: options.clone().into(),
        };
        self.operation(cluster, asked, |call, cluster| {
            call.apply(cluster, kind, object, options).boxed()
        })
        .await
    }

    async fn delete(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        key: ObjectKey,
        options: wit::DeleteOptions,
    ) -> Result<(), Refused> {
        let asked = Operation::Delete {
            kind: kind.clone().into(),
            key: key.clone().into(),
            options: options.clone().into(),
        };
        self.operation(cluster, asked, |call, cluster| {
            call.delete(cluster, kind, key, options).boxed()
        })
        .await
    }

    async fn delete_collection(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        selection: wit::Selection,
        options: wit::DeleteOptions,
    ) -> Result<(), Refused> {
        let asked = Asked::DeleteCollection {
            cluster: self.cluster(&cluster)?,
            kind: kind.clone().into(),
            selection: selection.clone().into(),
            options: options.clone().into(),
        };
        self.result(asked, |call| {
            call.delete_collection(cluster, kind, selection, options)
                .boxed()
        })
        .await
    }

    fn record_event(&mut self, cluster: Handle, event: wit::Event) -> wasmtime::Result<()> {
        let asked = Asked::RecordEvent {
            cluster: self.cluster(&cluster)?,
            event: event.clone().into(),
        };
        let tape = self.tape()?;
        if let Some(played) = tape.play(&asked) {
            return Ok(played?);
        }
        let step = tape.ask(asked);
        self.0.record_event(cluster, event)?;
        tape.note(step, &());
        Ok(())
    }

    async fn batch(
        &mut self,
        cluster: Handle,
        operations: Vec<wit::Operation>,
    ) -> wasmtime::Result<Vec<Result<wit::Reply, ApiError>>> {
        let asked = Asked::Batch {
            cluster: self.cluster(&cluster)?,
            operations: operations.iter().cloned().map(Into::into).collect(),
        };
        self.through(asked, |call| {
            HostCluster::batch(call, cluster, operations).boxed()
        })
        .await
    }

    async fn drop(&mut self, cluster: Handle) -> wasmtime::Result<()> {
        HostCluster::drop(self.0, cluster).await
    }
}

impl fleet::Host for Taped<'_> {
    async fn clusters(
        &mut self,
        label_selector: Option<String>,
    ) -> Result<Vec<fleet::ClusterInfo>, Refused> {
        let asked = Asked::Clusters {
            label_selector: label_selector.clone(),
        };
        self.result(asked, |call| call.clusters(label_selector).boxed())
            .await
    }

    fn open(&mut self, name: String) -> Result<Handle, Refused> {
        let asked = Asked::Open {
            cluster: name.clone(),
        };
        let tape = self.tape()?;
        if let Some(played) = tape.play::<Result<(), ApiError>>(&asked) {
            played
                .map_err(wasmtime::Error::from)?
                .map_err(Refused::Told)?;
            let name = ClusterName::new(&name).map_err(wasmtime::Error::from)?;
            return Ok(self.0.give(ClusterHandle::played(name))?);
        }
        let step = tape.ask(asked);
        let opened = match self.0.open(name) {
            Ok(handle) => Ok(handle),
            Err(refused) => Err(self.0.convert_api_error(refused)?),
        };
        let answer: Result<(), ApiError> = opened.as_ref().map(|_| ()).map_err(Clone::clone);
        tape.note(step, &answer);
        opened.map_err(Refused::Told)
    }

    async fn batch(
        &mut self,
        operations: Vec<(String, wit::Operation)>,
    ) -> wasmtime::Result<Vec<Result<wit::Reply, ApiError>>> {
        let named = operations.iter().cloned();
        let named = named.map(|(cluster, operation)| (cluster, operation.into()));
        let asked = Asked::FleetBatch {
            operations: named.collect(),
        };
        self.through(asked, |call| fleet::Host::batch(call, operations).boxed())
            .await
    }
}

impl http::Host for Taped<'_> {
    async fn send(&mut self, request: http::Request) -> Result<http::Response, Refused> {
        let asked = Asked::Http(request.clone().into());
        self.result(asked, |call| http::Host::send(call, request).boxed())
            .await
    }
}

impl clock::Host for Taped<'_> {
    fn now(&mut self) -> wasmtime::Result<String> {
        let tape = self.tape()?;
        let mut trap = Ok(());
        let now = tape.now(|| {
            let now = clock::Host::now(self.0);
            now.unwrap_or_else(|error| {
                trap = Err(error);
                String::new()
            })
        });
        trap.map(|()| now)
    }
}
