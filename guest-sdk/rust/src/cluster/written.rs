//! The result of writes that may have nothing to do. Entry point: [`Written`].

use crate::error::ApiError;
use crate::resource::{Object, decode};
use crate::types::GroupVersionKind;
use serde::de::DeserializeOwned;

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

/// An object as it is stored, and what was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<T> {
    /// The object as it is stored.
    pub object: T,
    /// What was done.
    pub effect: Effect,
}

impl<T> Written<T> {
    pub(super) fn new(effect: Effect, object: T) -> Self {
        Self { object, effect }
    }

    /// Whether something was written that the server did not have.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.effect != Effect::Unchanged
    }
}

impl Written<Object> {
    pub(super) fn typed<T: DeserializeOwned>(
        self,
        kind: &GroupVersionKind,
    ) -> Result<Written<T>, ApiError> {
        let object = decode(kind, &self.object.0.to_string())?;
        Ok(Written::new(self.effect, object))
    }
}
