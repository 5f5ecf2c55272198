//! How the items of a list differ: [`ItemKey`], found by [`Schema::item_key`].

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ListType, Schema};

/// Two items of one list with the same key are one item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ItemKey {
    /// The key fields of an item of a map, as canonical JSON.
    Fields(Box<str>),
    /// The value of an item of a set, as canonical JSON.
    Value(Box<str>),
    Index(u32),
}

impl Schema<'_> {
    /// The key of an item of this list; the index where the item lacks every key field.
    pub(crate) fn item_key(self, index: usize, item: &Value) -> ItemKey {
        let by_index = || ItemKey::Index(u32::try_from(index).unwrap_or(u32::MAX));
        if self.list_type() == ListType::Set {
            return ItemKey::Value(item.to_string().into());
        }
        let fields: BTreeMap<String, Value> = self
            .keys()
            .iter()
            .filter_map(|key| {
                let default = || self.items().property(key).and_then(Schema::default);
                item.get(&**key)
                    .or_else(default)
                    .map(|value| (key.to_string(), value.clone()))
            })
            .collect();
        if fields.is_empty() {
            return by_index();
        }
        sorted(&fields).map_or_else(by_index, ItemKey::Fields)
    }
}

/// JSON text of an object with its keys in order, whatever the map type of the parser.
pub(crate) fn sorted(fields: &BTreeMap<String, Value>) -> Option<Box<str>> {
    serde_json::to_string(fields).ok().map(Box::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schemas;
    use serde_json::json;

    #[test]
    fn a_default_stands_for_an_absent_key_field() {
        let mut all = Schemas::default();
        let list = all.add(&json!({"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "properties": {"port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"}}}}));
        let key = |item: Value| all.at(list).item_key(7, &item);
        assert_eq!(
            key(json!({"port": 80})),
            key(json!({"protocol": "TCP", "port": 80, "name": "a"}))
        );
        assert_ne!(
            key(json!({"port": 80})),
            key(json!({"port": 80, "protocol": "UDP"}))
        );
    }

    #[test]
    fn an_item_without_key_fields_is_told_by_its_index() {
        let mut all = Schemas::default();
        let list = all.add(&json!({"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object"}}));
        assert_eq!(all.at(list).item_key(7, &json!({})), ItemKey::Index(7));
    }
}
