//! The part of an object that a store keeps, where nobody reads the rest. Entry point: [`Excerpt`].

use crate::json::Object;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Makes the part of an object that a store keeps. Two of the same name are the same.
#[derive(Clone, Copy)]
pub(crate) struct Excerpt {
    name: &'static str,
    /// Makes an object's text shorter, with all of its metadata. `None`: it keeps the whole text.
    shorten: fn(&[u8]) -> Option<Vec<u8>>,
}

impl Excerpt {
    pub(crate) const fn new(name: &'static str, shorten: fn(&[u8]) -> Option<Vec<u8>>) -> Self {
        Self { name, shorten }
    }

    /// The excerpt of an object.
    pub(super) fn of(self, object: Object) -> Object {
        let shorter = (self.shorten)(object.json()).and_then(|mut text| {
            text.shrink_to_fit();
            object.with_text(text)
        });
        shorter.unwrap_or(object)
    }
}

impl PartialEq for Excerpt {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Excerpt {}

impl Hash for Excerpt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Excerpt").field(&self.name).finish()
    }
}
