//! The functions that a component exports, found once and called in each instance. Entry point: [`Exports::of`].

use crate::contract::exports::windlass::runtime::{mapper, reconciler};
use crate::contract::handle::ClusterHandle;
use crate::contract::windlass::runtime::types::{Action, Failure, GroupVersionKind, Request};
use crate::instance::call::Call;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, Instance, InstancePre, Resource};

/// The interface that every guest exports, as the generated code calls it.
const RECONCILER: &str = "windlass:runtime/reconciler@0.1.0";

/// What `reconcile` is given, and what it answers.
type Given<'a> = (&'a Request, Resource<ClusterHandle>);
type Answered = (Result<Action, Failure>,);

/// Where the functions are among a component's exports.
#[derive(Clone)]
pub(super) struct Exports {
    reconciler: reconciler::GuestIndices,
    /// By itself. The generated code compares the types of all functions of an interface in each instance, and those of `describe`
    /// are many. Every load describes, which compares them.
    reconcile: ComponentExportIndex,
    mapper: Option<mapper::GuestIndices>,
}

impl Exports {
    /// # Errors
    /// When one is missing.
    pub(super) fn of(pre: &InstancePre<Call>, has_mapper: bool) -> wasmtime::Result<Self> {
        let component = pre.component();
        let interface = component.get_export_index(None, RECONCILER);
        let reconcile = component.get_export_index(interface.as_ref(), "reconcile");
        let mapper = has_mapper.then(|| mapper::GuestIndices::new(pre));
        Ok(Self {
            reconciler: reconciler::GuestIndices::new(pre)?,
            reconcile: reconcile
                .ok_or_else(|| wasmtime::format_err!("no function `reconcile` in {RECONCILER}"))?,
            mapper: mapper.transpose()?,
        })
    }

    pub(super) fn has_mapper(&self) -> bool {
        self.mapper.is_some()
    }

    pub(super) async fn describe(
        &self,
        store: &mut Store<Call>,
        instance: &Instance,
    ) -> wasmtime::Result<Result<reconciler::Description, String>> {
        let guest = self.reconciler.load(&mut *store, instance)?;
        guest.call_describe(store).await
    }

    pub(super) async fn reconcile(
        &self,
        store: &mut Store<Call>,
        instance: &Instance,
        given: Given<'_>,
    ) -> wasmtime::Result<Result<Action, Failure>> {
        let reconcile =
            instance.get_typed_func::<Given<'_>, Answered>(&mut *store, &self.reconcile)?;
        let (answer,) = reconcile.call_async(store, given).await?;
        Ok(answer)
    }

    /// # Errors
    /// Also when there is no mapper.
    pub(super) async fn map_objects(
        &self,
        store: &mut Store<Call>,
        instance: &Instance,
        cluster: Resource<ClusterHandle>,
        (kind, objects): (&GroupVersionKind, &[String]),
    ) -> wasmtime::Result<Result<Vec<Request>, String>> {
        let mapper = self.mapper.as_ref();
        let mapper = mapper.ok_or_else(|| wasmtime::format_err!("the guest has no mapper"))?;
        let guest = mapper.load(&mut *store, instance)?;
        guest.call_map_objects(store, cluster, kind, objects).await
    }
}
