//! Writes that happen only if something differs. Entry points: [`TypedClient::ensure`], [`TypedClient::set_status`],
//! [`TypedClient::ensure_finalizer`] and [`Dependents`].
//!
//! They mean what the SDKs' helpers mean, by the same cases: `guest-sdk/spec`. The SDK in Rust is compiled to WebAssembly and calls its host
//! without `async`, so its code is not this code.

mod applied;
mod calls;
mod dependents;
mod fingerprint;
mod finalizers;
#[cfg(test)]
mod spec_tests;
mod status;

pub use dependents::Dependents;
pub(crate) use dependents::owner_index;

use crate::api::{ApiError, ApplyOptions, Operation};
use crate::cluster::TypedClient;
use crate::object::Object;
use crate::typed::{Typed, decode};
use applied::Desired;
use calls::{Calls, read, written};

/// What a write that may have nothing to do did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The object was absent.
    Created,
    /// The object was changed.
    Updated,
    /// There was nothing to do.
    Unchanged,
}

/// An object as the server keeps it, and what was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<T> {
    /// The object as the server keeps it.
    pub object: T,
    /// What was done.
    pub effect: Effect,
}

impl<T> Written<T> {
    fn new(effect: Effect, object: T) -> Self {
        Self { object, effect }
    }

    /// Whether something was written that the server did not have.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.effect != Effect::Unchanged
    }
}

impl Written<Object> {
    fn typed<T: Typed>(self) -> Result<Written<T>, ApiError> {
        let object = decode(&self.object.json())?;
        Ok(Written::new(self.effect, object))
    }
}

impl TypedClient {
    /// As [`TypedClient::force_apply`], only if something differs: a field that is not as desired, or one that `ensure` applied
    /// before and that is no longer desired. The annotation `windlass.dev/applied` has a fingerprint of what was applied.
    ///
    /// # Errors
    /// See [`TypedClient`].
    pub async fn ensure<T: Typed>(&self, object: &T) -> Result<Written<T>, ApiError> {
        ensure(self.raw(), Object::of(object)?).await?.typed()
    }
}

async fn ensure(calls: &impl Calls, object: Object) -> Result<Written<Object>, ApiError> {
    let desired = Desired::new(object);
    let (kind, key) = (desired.object.gvk(), desired.object.key());
    let mut present = read(calls, &kind, &key).await?;
    if let Some(present) = present.take_if(|present| desired.held_by(present)) {
        return Ok(Written::new(Effect::Unchanged, present));
    }
    let mut stored = written(calls, forced_apply(&desired.next(present.as_ref()))).await?;
    if !desired.held_by(&stored) {
        stored = written(calls, forced_apply(&desired.noted(&stored))).await?;
    }
    let effect = match present {
        None => Effect::Created,
        Some(_) => Effect::Updated,
    };
    Ok(Written::new(effect, stored))
}

fn forced_apply(object: &Object) -> Operation {
    let options = ApplyOptions {
        force: true,
        ..ApplyOptions::default()
    };
    Operation::Apply(object.gvk(), object.json(), options)
}
