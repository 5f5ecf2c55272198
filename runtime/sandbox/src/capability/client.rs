//! The interface `client`. Each function calls the fleet's client, which checks the grant and does the work.

use super::access::only_cached_reads;
use crate::contract::handle::{ClusterHandle, Reach, Refused};
use crate::contract::windlass::runtime::client::{self as wit, GroupVersionKind, ObjectKey};
use crate::contract::windlass::runtime::types::ApiError as WitApiError;
use crate::door::{self, Asked};
use crate::instance::answers::AnswerBudget;
use crate::instance::call::Call;
use crate::tenant::usage::Limit;
use std::sync::Arc;
use wasmtime::component::Resource;
use windlass_fleet::api::{ApiError, GetOptions, ListOptions, Operation, ReadMode, Reply};
use windlass_fleet::{ApiCode, Client};

/// Objects in a page, unless the guest asks for a number.
const DEFAULT_PAGE: u32 = 500;

type Handle = Resource<ClusterHandle>;

impl wit::Host for Call {}

impl wit::HostCluster for Call {
    fn name(&mut self, cluster: Handle) -> wasmtime::Result<String> {
        Ok(self.live(&cluster)?.0.cluster_name().to_string())
    }

    async fn get(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        key: ObjectKey,
        options: wit::GetOptions,
    ) -> Result<Option<String>, Refused> {
        let options = GetOptions::from(options);
        self.spend_on(&cluster)?;
        let budget = self.answer_budget();
        let (client, reach) = self.live(&cluster)?;
        if reach == Reach::CachedReads
            && (options.mode == ReadMode::Live || options.subresource.is_some())
        {
            return Err(only_cached_reads().into());
        }
        let client = client.clone().charged_to(budget.clone());
        let operation = Operation::Get(kind.into(), key.into(), options);
        let mask = self.guest.mask_of(&operation);
        match self.perform(client, operation).await? {
            Reply::Object(json) => Ok(Some(budget.object(&json, mask.as_ref())?)),
            _ => Ok(None),
        }
    }

    async fn list(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        options: wit::ListOptions,
    ) -> Result<wit::ListPage, Refused> {
        let options = self.bounded(options.into());
        self.spend_on(&cluster)?;
        let budget = self.answer_budget();
        let (client, reach) = self.live(&cluster)?;
        if reach == Reach::CachedReads && options.mode == ReadMode::Live {
            return Err(only_cached_reads().into());
        }
        let client = client.clone().charged_to(budget.clone());
        let operation = Operation::List(kind.into(), options);
        let mask = self.guest.mask_of(&operation);
        match self.perform(client, operation).await? {
            Reply::Page(page) => Ok(budget.page(page, mask.as_ref()).await?),
            _ => Err(other_reply().into()),
        }
    }

    async fn create(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        object: String,
        options: wit::WriteOptions,
    ) -> Result<String, Refused> {
        let operation = Operation::Create(kind.into(), object.into(), options.into());
        self.stored(&cluster, operation).await
    }

    async fn update(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        object: String,
        options: wit::WriteOptions,
    ) -> Result<String, Refused> {
        let operation = Operation::Update(kind.into(), object.into(), options.into());
        self.stored(&cluster, operation).await
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
        let operation = Operation::Patch(
            kind.into(),
            key.into(),
            patch_type.into(),
            patch.into(),
            options.into(),
        );
        self.stored(&cluster, operation).await
    }

    async fn apply(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        object: String,
        options: wit::ApplyOptions,
    ) -> Result<String, Refused> {
        let operation = Operation::Apply(kind.into(), object.into(), options.into());
        self.stored(&cluster, operation).await
    }

    async fn delete(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        key: ObjectKey,
        options: wit::DeleteOptions,
    ) -> Result<(), Refused> {
        let (client, _) = self.write(&cluster)?;
        let operation = Operation::Delete(kind.into(), key.into(), options.into());
        self.perform(client, operation).await.map(drop)
    }

    async fn delete_collection(
        &mut self,
        cluster: Handle,
        kind: GroupVersionKind,
        selection: wit::Selection,
        options: wit::DeleteOptions,
    ) -> Result<(), Refused> {
        let (client, _) = self.write(&cluster)?;
        let (kind, selection) = (kind.into(), selection.into());
        let options = options.into();
        let delete = client.delete_collection(&kind, &selection, &options);
        match self.passage() {
            None => Ok(delete.await?),
            Some(passage) => {
                let asked = Asked::DeleteCollection(&kind, &selection);
                passage.fate(&client, asked).of(delete).await
            }
        }
    }

    fn record_event(&mut self, cluster: Handle, event: wit::Event) -> wasmtime::Result<()> {
        if self
            .spend_on(&cluster)
            .is_err_and(|refused| matches!(refused, Refused::Api(_)))
        {
            tracing::debug!("an event recorded beyond limits.hostCalls is dropped");
            return Ok(());
        }
        let (client, reach) = self.live(&cluster)?;
        match reach {
            Reach::Everything => client.record_event(event.into()),
            Reach::CachedReads => tracing::debug!("an event recorded by a mapper is dropped"),
        }
        Ok(())
    }

    async fn batch(
        &mut self,
        cluster: Handle,
        operations: Vec<wit::Operation>,
    ) -> wasmtime::Result<Vec<Result<wit::Reply, WitApiError>>> {
        let (client, reach) = self.live(&cluster)?;
        let client = client.clone();
        let operations = operations
            .into_iter()
            .map(|operation| self.operation(operation));
        let operations: Vec<_> = operations.collect();
        if let Some(refusal) = self.refuse_batch(operations.len(), reach) {
            return Ok(operations
                .iter()
                .map(|_| Err(refusal.clone().into()))
                .collect());
        }
        let operations = operations.into_iter();
        let operations = operations.map(|operation| (Ok(client.clone()), operation));
        let operations = operations.collect();
        let passage = self.passage();
        self.answer_budget().batch(operations, passage).await
    }

    async fn drop(&mut self, cluster: Handle) -> wasmtime::Result<()> {
        self.forget(cluster.rep());
        self.table.delete(cluster)?;
        Ok(())
    }
}

impl Call {
    /// Takes one call of a function from the limit of this call. A bad handle traps first.
    fn spend_on(&mut self, cluster: &Handle) -> Result<(), Refused> {
        self.live(cluster)?;
        Ok(self.spend(1)?)
    }

    /// Takes a write from the limit of this call. Returns the client, and the budget to which the client charges its answers.
    fn write(&mut self, cluster: &Handle) -> Result<(Client, Arc<AnswerBudget>), Refused> {
        let client = self.unrestricted(cluster)?;
        self.spend(1)?;
        let budget = self.answer_budget();
        Ok((client.charged_to(budget.clone()), budget))
    }

    /// Runs an operation, through the door.
    fn perform(
        &self,
        client: Client,
        operation: Operation,
    ) -> impl Future<Output = Result<Reply, Refused>> + Send + use<> {
        door::run(self.passage(), client, operation)
    }

    /// Runs a write, which takes a call from the limit of this call, and returns the object as the server keeps it.
    async fn stored(&mut self, cluster: &Handle, operation: Operation) -> Result<String, Refused> {
        let (client, budget) = self.write(cluster)?;
        self.guest.check_replaces(&operation)?;
        match self.perform(client, operation).await? {
            Reply::Object(json) => Ok(budget.object(&json, None)?),
            _ => Err(other_reply().into()),
        }
    }

    /// An operation of a batch, with the bounds of the function with its name.
    pub(super) fn operation(&self, operation: wit::Operation) -> Operation {
        match Operation::from(operation) {
            Operation::List(kind, options) => Operation::List(kind, self.bounded(options)),
            other => other,
        }
    }

    /// Bounds a list to the objects that the guest may have at once.
    fn bounded(&self, options: ListOptions) -> ListOptions {
        let most = self.guest.limits.list_items;
        let limit = match options.limit {
            0 => DEFAULT_PAGE.min(most),
            asked => asked.min(most),
        };
        ListOptions { limit, ..options }
    }

    /// Why a batch of this many operations may not run. A batch that may run is taken from the limit of this call.
    pub(super) fn refuse_batch(&mut self, operations: usize, reach: Reach) -> Option<ApiError> {
        let most = self.guest.limits.batch_operations;
        if reach == Reach::CachedReads {
            return Some(only_cached_reads());
        }
        if operations > most {
            self.guest.hit(Limit::BatchOperations);
            let message = format!(
                "a batch of {operations} operations is too large: send at most {most} at once"
            );
            return Some(ApiError::host(ApiCode::LimitExceeded, message));
        }
        self.spend(operations).err()
    }
}

/// The fleet's client has an answer of its own sort for each operation.
fn other_reply() -> ApiError {
    ApiError::host(ApiCode::Other, "the answer is one to another call")
}
