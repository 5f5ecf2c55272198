//! Reads metadata from JSON. Entry point: `Deserialize` of [`Metadata`].
//!
//! Every guest contains this code, so it is written by hand: one visitor for all fields has a fifth of the size of the derived code.

use super::{Metadata, OwnerReference};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::collections::BTreeMap;
use std::fmt;

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut metadata = Self::default();
        Place::Metadata(&mut metadata).deserialize(deserializer)?;
        Ok(metadata)
    }
}

impl<'de> Deserialize<'de> for OwnerReference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut owner = Self::default();
        Place::Owner(&mut owner).deserialize(deserializer)?;
        Ok(owner)
    }
}

/// The field that the next value is stored in. Null keeps the field as it is.
enum Place<'a> {
    /// An unknown field: the value is skipped.
    Nowhere,
    Text(&'a mut String),
    SomeText(&'a mut Option<String>),
    Number(&'a mut Option<i64>),
    Flag(&'a mut Option<bool>),
    Texts(&'a mut Vec<String>),
    Map(&'a mut BTreeMap<String, String>),
    Owners(&'a mut Vec<OwnerReference>),
    Owner(&'a mut OwnerReference),
    Metadata(&'a mut Metadata),
}

impl Place<'_> {
    /// The place of a field's value.
    fn of(&mut self, field: &str) -> Place<'_> {
        match self {
            Place::Metadata(metadata) => match field {
                "name" => Place::Text(&mut metadata.name),
                "namespace" => Place::SomeText(&mut metadata.namespace),
                "uid" => Place::SomeText(&mut metadata.uid),
                "resourceVersion" => Place::SomeText(&mut metadata.resource_version),
                "generation" => Place::Number(&mut metadata.generation),
                "creationTimestamp" => Place::SomeText(&mut metadata.creation_timestamp),
                "deletionTimestamp" => Place::SomeText(&mut metadata.deletion_timestamp),
                "labels" => Place::Map(&mut metadata.labels),
                "annotations" => Place::Map(&mut metadata.annotations),
                "finalizers" => Place::Texts(&mut metadata.finalizers),
                "ownerReferences" => Place::Owners(&mut metadata.owner_references),
                _ => Place::Nowhere,
            },
            Place::Owner(owner) => match field {
                "apiVersion" => Place::Text(&mut owner.api_version),
                "kind" => Place::Text(&mut owner.kind),
                "name" => Place::Text(&mut owner.name),
                "uid" => Place::Text(&mut owner.uid),
                "controller" => Place::Flag(&mut owner.controller),
                "blockOwnerDeletion" => Place::Flag(&mut owner.block_owner_deletion),
                _ => Place::Nowhere,
            },
            Place::Map(map) => Place::Text(map.entry(field.to_owned()).or_default()),
            _ => Place::Nowhere,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Place::Nowhere => IgnoredAny::deserialize(deserializer).map(drop),
            place => deserializer.deserialize_any(place),
        }
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Nowhere => "anything",
            Place::Text(_) | Place::SomeText(_) => "a string",
            Place::Number(_) => "an integer",
            Place::Flag(_) => "true or false",
            Place::Texts(_) => "a list of strings",
            Place::Map(_) => "a map of strings",
            Place::Owners(_) => "a list of owner references",
            Place::Owner(_) => "an owner reference",
            Place::Metadata(_) => "metadata",
        })
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self {
            Place::Flag(place) => *place = Some(value),
            other => return Err(misfit(&other)),
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self {
            Place::Number(place) => *place = Some(value),
            other => return Err(misfit(&other)),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(misfit(&self)),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        match self {
            Place::Text(place) => value.clone_into(place),
            Place::SomeText(place) => *place = Some(value.to_owned()),
            other => return Err(misfit(&other)),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        match self {
            Place::Texts(place) => {
                let mut text = String::new();
                while values.next_element_seed(Place::Text(&mut text))?.is_some() {
                    place.push(std::mem::take(&mut text));
                }
            }
            Place::Owners(place) => {
                let mut owner = OwnerReference::default();
                while values
                    .next_element_seed(Place::Owner(&mut owner))?
                    .is_some()
                {
                    place.push(std::mem::take(&mut owner));
                }
            }
            other => return Err(misfit(&other)),
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        if !matches!(self, Place::Metadata(_) | Place::Owner(_) | Place::Map(_)) {
            return Err(misfit(&self));
        }
        while let Some(place) = fields.next_key_seed(Field(&mut self))? {
            fields.next_value_seed(place)?;
        }
        Ok(())
    }
}

/// The place that a key names.
struct Field<'a, 'b>(&'a mut Place<'b>);

impl<'de, 'a> DeserializeSeed<'de> for Field<'a, '_> {
    type Value = Place<'a>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Place<'a>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Field<'a, '_> {
    type Value = Place<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, field: &str) -> Result<Place<'a>, E> {
        Ok(self.0.of(field))
    }
}

fn misfit<E: Error>(place: &Place<'_>) -> E {
    E::custom(format_args!("metadata: expected {}", Expected(place)))
}

/// A place as words.
struct Expected<'a, 'b>(&'a Place<'b>);

impl fmt::Display for Expected<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(metadata: &serde_json::Value) -> Result<Metadata, String> {
        crate::json::from_str(&metadata.to_string()).map_err(|fault| fault.to_string())
    }

    #[test]
    fn every_field_is_read_and_written_back() {
        let written = json!({
            "name": "a", "namespace": "b", "uid": "c", "resourceVersion": "4", "generation": 5, "creationTimestamp": "6", "deletionTimestamp": "7",
            "labels": {"l": "8"}, "annotations": {"n": "9"}, "finalizers": ["f", "g"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "controller": true, "blockOwnerDeletion": false},
                {"apiVersion": "v2", "kind": "L", "name": "p", "uid": "v"},
            ],
        });
        let metadata = read(&written).unwrap();
        assert_eq!(serde_json::to_value(&metadata).unwrap(), written);
        assert_eq!(
            serde_json::from_value::<Metadata>(written).unwrap(),
            metadata
        );
    }

    #[test]
    fn what_is_absent_null_or_unknown_does_not_matter() {
        let metadata = read(&json!({
            "name": "a", "creationTimestamp": null, "labels": null, "ownerReferences": null,
            "managedFields": [{"fieldsV1": {"f:data": {}}}], "selfLink": "x",
        }));
        let named = Metadata {
            name: "a".into(),
            ..Metadata::default()
        };
        assert_eq!(metadata.unwrap(), named);
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        for (wrong, what) in [
            (json!({"name": 1}), "a string"),
            (json!({"generation": "1"}), "an integer"),
            (json!({"generation": u64::MAX}), "an integer"),
            (json!({"labels": {"a": true}}), "a string"),
            (json!({"labels": ["a"]}), "a map of strings"),
            (json!({"finalizers": {"a": "b"}}), "a list of strings"),
            (json!({"ownerReferences": ["a"]}), "an owner reference"),
            (
                json!({"ownerReferences": [{"controller": "yes"}]}),
                "true or false",
            ),
            (json!([]), "metadata"),
        ] {
            let fault = read(&wrong).unwrap_err();
            assert!(
                fault.contains(&format!("expected {what}")),
                "{wrong}: {fault}"
            );
        }
    }
}
