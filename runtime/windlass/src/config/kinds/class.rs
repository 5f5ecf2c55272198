//! The class of objects: which of several processes handles them. Entry point: [`Class`].

use crate::config::kinds::{Origin, Refusal, is_label};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A class, as an Ingress has one. Objects without one, and a process without one, are of one class too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Class(String);

impl Class {
    /// What is in a document's field, as an object of a cluster has it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses what is no name.
    pub(super) fn check(this: Option<&Self>) -> Result<(), Refusal> {
        match this {
            Some(Self(text)) if !is_label(text) => {
                let message = format!(
                    "expected up to 63 lower-case letters, digits and inner hyphens, found {text:?}: leave it out for objects without a class"
                );
                Err(Refusal::new("spec.class", message))
            }
            _ => Ok(()),
        }
    }

    /// The same for a document that may be an object.
    pub(super) fn check_in(this: Option<&Self>, origin: Origin) -> Result<(), Refusal> {
        if origin == Origin::File && this.is_some() {
            let message = "a document in a file is of the process that reads it: leave it out, or write it into the Manager";
            return Err(Refusal::new("spec.class", message));
        }
        Self::check(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_a_name_and_stands_on_objects_and_the_manager() {
        let class = |text: &str| Some(Class(text.to_owned()));
        for (text, is_good) in [
            ("blue", true),
            ("team-1", true),
            ("", false),
            ("Blue", false),
            ("-a", false),
            ("a-", false),
            (&"a".repeat(64), false),
        ] {
            let checked = Class::check(class(text).as_ref());
            assert_eq!(checked.is_ok(), is_good, "{text:?}");
        }
        let check = |origin| Class::check_in(class("blue").as_ref(), origin).is_ok();
        assert!(check(Origin::Cluster) && !check(Origin::File));
        assert!(Class::check_in(None, Origin::File).is_ok());
    }
}
