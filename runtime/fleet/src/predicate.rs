//! Which changes count. Entry point: [`Predicate::admits`].
use crate::json::Object;
/// Predicate.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate;
/// Change.
pub struct Change<'a> {
    /// Old.
    pub old: &'a Object,
    /// New.
    pub new: &'a Object,
}
impl<'a> Change<'a> {
    /// Update.
    pub fn update(old: &'a Object, new: &'a Object) -> Self {
        Self { old, new }
    }
}
impl Predicate {
    /// Always.
    pub fn always() -> Self {
        Self
    }
    /// Admits.
    pub fn admits(&self, _: &Change<'_>) -> bool {
        true
    }
}
