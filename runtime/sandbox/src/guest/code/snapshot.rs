//! A component as a call leaves it. Entry point: [`Sandbox::snapshot`].
//!
//! A guest in a language with a large runtime is that runtime above all. A base is a guest that has the runtime and no program: its
//! `describe` takes the program as the config. With the memory that this call leaves, the base is the guest. So the runtime is compiled
//! once, and a changed program costs a call.

mod wrapped;

use super::Code;
use super::exports::Exports;
use crate::component::compiler::chain;
use crate::component::revision::LoadError;
use crate::engine::Sandbox;
use crate::instance::call::{Call, Purpose, Time};
use crate::instance::pooled::PooledInstance;
use crate::options::{Limits, TenantLimits};
use crate::tenant::Tenant;
use crate::tenant::context::{GuestContext, History};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Instance, Linker, Type, WasmList};
use wasmtime_wizer::{ComponentInstanceState, Wizer};
use windlass_fleet::{ControllerName, Grant, TenantName};
use wrapped::Wrapped;

/// The interface of an instrumented component that tells its memories and globals.
const ACCESS: &str = "wasmtime:wizer/access";

/// The packages of the host's interfaces.
const KNOWN: [&str; 2] = ["wasi:", "windlass:"];

/// Longest call, by the clock: it runs what the program does while it starts.
const TIME: Duration = Duration::from_secs(30);

/// Why a base does not become a guest.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It is no base.
    #[error("{base} cannot be a base: {problem}")]
    Base {
        /// The component.
        base: String,
        /// What is wrong.
        problem: String,
    },
    /// It cannot be read or compiled.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The call did not come back.
    #[error("the program does not start: {0}")]
    Call(String),
    /// It holds something of the host.
    #[error("the program keeps a stream or another handle of the host open")]
    Holds,
    /// The base does not take the program. In its own words.
    #[error("the base does not take the program: {0}")]
    Refused(String),
}

impl Sandbox {
    /// Calls `describe` of a base with the program as its config, and returns the component that the base then is. The machine code of
    /// its functions is that of the guest in the file `guest`, if that was made of the same base. Without a cache the base is compiled each time.
    ///
    /// # Errors
    /// [`SnapshotError`]. What the base says of the program is [`SnapshotError::Refused`].
    ///
    /// # Cancellation
    /// Dropping the future ends the call, and abandons the result.
    pub async fn snapshot(
        &self,
        base: &Path,
        guest: &Path,
        program: &str,
    ) -> Result<Vec<u8>, SnapshotError> {
        let name = base.display().to_string();
        let wrong = |error: wasmtime::Error| SnapshotError::Base {
            base: name.clone(),
            problem: chain(&error),
        };
        let bytes = self.read_component(base).await?;
        let wrapped = Wrapped::of(&bytes);
        let inner = wrapped.as_ref().map_or(&*bytes, Wrapped::inner);
        let wizer = Wizer::new();
        let (context, instrumented) = wizer.instrument_component(inner).map_err(wrong)?;
        let component = self.component(&name, instrumented.into(), guest).await?;
        let linker = match wrapped {
            Some(_) => with_stand_ins(self.linker(true), &component).map_err(wrong)?,
            None => self.linker(true).clone(),
        };
        let state = self
            .state_after(&component, &linker, program, wrong)
            .await?;
        let made = wizer.snapshot_component(&context, &mut { state }).await;
        let made = made.map_err(wrong)?;
        Ok(match wrapped {
            Some(wrapped) => wrapped.around(&made),
            None => made,
        })
    }

    /// The state of an instance after the call.
    async fn state_after(
        &self,
        component: &Component,
        linker: &Linker<Call>,
        program: &str,
        wrong: impl Fn(wasmtime::Error) -> SnapshotError,
    ) -> Result<State, SnapshotError> {
        let pre = linker.instantiate_pre(component).map_err(&wrong)?;
        let code = Arc::new(Code {
            sandbox: self.clone(),
            exports: Exports::of(&pre, false).map_err(&wrong)?,
            pre,
            taped: OnceLock::new(),
            least: 0,
            idle_pool: None,
        });
        let parts = parts_of(component);
        let failed = |error: &dyn std::fmt::Display| SnapshotError::Call(error.to_string());
        let name = ControllerName::new("snapshot").map_err(|error| failed(&error))?;
        // It hands over its whole memory.
        let most = self.options().max_memory;
        let limits = Limits {
            memory: most,
            host_call_bytes: most,
            ..Limits::default()
        };
        let guest = GuestContext::new(
            Tenant::new(TenantName::default(), &TenantLimits::default()),
            name,
            Arc::new(Grant::none()),
            program.into(),
            limits,
            History::default(),
        );
        let deadline = Instant::now() + TIME;
        let admitted = code.admit(&guest, true, deadline).await;
        let (reservation, slot) = admitted.map_err(|error| failed(&error))?;
        let call = Call::new(guest, reservation, Purpose::Describe, Time::until(deadline));
        let pooled = PooledInstance::new(code.store(call), slot, self.teardown());
        let on_worker = code.clone();
        let outcome = code.on_a_worker(pooled, |pooled| async move {
            let run = on_worker.run(pooled, async |store, instance| {
                match on_worker.exports.describe(store, instance).await? {
                    // Its memory has the number of a handle that no other instance has: of a stream that it wrote to, for instance.
                    Ok(_) if !store.data().table.is_empty() => Ok(Err(SnapshotError::Holds)),
                    Ok(_) => State::read(store, instance, parts).await.map(Ok),
                    Err(said) => Ok(Err(SnapshotError::Refused(said))),
                }
            });
            run.await.map(|(answer, _)| answer)
        });
        outcome.await.map_err(|error| failed(&error))?
    }
}

/// The linker with functions that fail, for imports that the host does not have: what wraps a component has stand-ins for them.
fn with_stand_ins(linker: &Linker<Call>, component: &Component) -> wasmtime::Result<Linker<Call>> {
    let (mut linker, engine) = (linker.clone(), component.engine());
    let ty = component.component_type();
    for (name, item) in ty.imports(engine) {
        let is_known = KNOWN.iter().any(|known| name.starts_with(known));
        let ComponentItem::ComponentInstance(instance) = item.ty else {
            continue;
        };
        if is_known {
            continue;
        }
        let mut stand_ins = linker.instance(name)?;
        for (function, item) in instance.exports(engine) {
            if matches!(item.ty, ComponentItem::ComponentFunc(_)) {
                stand_ins.func_new(function, |_, _, _, _| {
                    wasmtime::bail!("nothing is behind it")
                })?;
            }
        }
    }
    Ok(linker)
}

/// The functions of [`ACCESS`], with what they return.
fn parts_of(component: &Component) -> Vec<(String, Type)> {
    let engine = component.engine();
    let ty = component.component_type();
    let Some(ComponentItem::ComponentInstance(access)) =
        ty.get_export(engine, ACCESS).map(|of| of.ty)
    else {
        return Vec::new();
    };
    let functions = access
        .exports(engine)
        .filter_map(|(name, item)| match item.ty {
            ComponentItem::ComponentFunc(function) => {
                Some((name.to_owned(), function.results().next()?))
            }
            _ => None,
        });
    functions.collect()
}

/// Memories and globals of an instance, by the functions that tell them.
#[derive(Default)]
struct State {
    memories: BTreeMap<String, Vec<u8>>,
    /// The bits of each.
    globals: BTreeMap<String, u64>,
}

impl State {
    async fn read(
        store: &mut Store<Call>,
        instance: &Instance,
        parts: Vec<(String, Type)>,
    ) -> wasmtime::Result<Self> {
        let mut state = Self::default();
        let missing = || wasmtime::format_err!("an instrumented component tells its state");
        let (_, access) = instance
            .get_export(&mut *store, None, ACCESS)
            .ok_or_else(missing)?;
        for (name, ty) in parts {
            let (_, function) = instance
                .get_export(&mut *store, Some(&access), &name)
                .ok_or_else(missing)?;
            macro_rules! ask {
                ($of:ty) => {{
                    let function = instance.get_typed_func::<(), ($of,)>(&mut *store, function)?;
                    function.call_async(&mut *store, ()).await?.0
                }};
            }
            let bits = match ty {
                Type::S32 => u64::from(ask!(i32).cast_unsigned()),
                Type::S64 => ask!(i64).cast_unsigned(),
                Type::Float32 => u64::from(ask!(f32).to_bits()),
                Type::Float64 => ask!(f64).to_bits(),
                _ => {
                    let list = ask!(WasmList<u8>);
                    let memory = list.as_le_slice(&*store).to_vec();
                    state.memories.insert(name, memory);
                    continue;
                }
            };
            state.globals.insert(name, bits);
        }
        Ok(state)
    }

    /// The bits of a global. Each was asked for: the same component names them.
    fn global(&self, name: &str) -> u64 {
        self.globals.get(name).copied().unwrap_or_default()
    }
}

impl ComponentInstanceState for State {
    async fn call_func_ret_list_u8(
        &mut self,
        _: &str,
        name: &str,
        contents: impl FnOnce(&[u8]) + Send,
    ) {
        contents(self.memories.get(name).map_or(&[], Vec::as_slice));
    }

    async fn call_func_ret_s32(&mut self, _: &str, name: &str) -> i32 {
        (self.global(name) as u32).cast_signed()
    }

    async fn call_func_ret_s64(&mut self, _: &str, name: &str) -> i64 {
        self.global(name).cast_signed()
    }

    async fn call_func_ret_f32(&mut self, _: &str, name: &str) -> u32 {
        self.global(name) as u32
    }

    async fn call_func_ret_f64(&mut self, _: &str, name: &str) -> u64 {
        self.global(name)
    }
}
