//! Objects survive their types: each is read, changed and written, and no other field differs.
#![deny(warnings, missing_docs)]

pub mod odd;

#[cfg(test)]
mod tests {
    use crate::odd::Odd;
    use serde_json::Value;
    use windlass_sdk::testing::TestFleet;
    use windlass_sdk::{ObjectKey, Resource, Typed};

    /// Changes the object of a file as a guest does, and compares it with what is expected.
    pub(crate) fn survives<T: Typed + Resource>(file: &str, change: impl FnOnce(&mut T)) {
        let read = |suffix: &str| -> Value {
            let text = std::fs::read_to_string(format!("{file}{suffix}.json")).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let before = read("");
        let metadata = &before["metadata"];
        let name = metadata["name"].as_str().unwrap();
        let key = match metadata["namespace"].as_str() {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster_scoped(name),
        };
        let alpha = TestFleet::new().cluster("alpha");
        alpha.put(before);
        let mut object: T = alpha.client().get(&key).unwrap().unwrap();
        change(&mut object);
        alpha.client().update(&object).unwrap();
        let mut after = alpha.objects().remove(0).0;
        let mut expected = read(".changed");
        // A field that the type knows is absent where it was null.
        if let Some(spec) = expected.pointer_mut("/spec").and_then(Value::as_object_mut) {
            spec.retain(|name, value| name != "none" || !value.is_null());
        }
        for object in [&mut after, &mut expected] {
            for of_servers in ["resourceVersion", "generation", "creationTimestamp", "managedFields"] {
                object["metadata"].as_object_mut().unwrap().remove(of_servers);
            }
        }
        assert_eq!(after, expected);
    }

    #[test]
    fn an_odd_one_survives() {
        survives("odd", change_odd);
    }

    pub(crate) fn change_odd(odd: &mut Odd) {
        odd.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        odd.spec.ports.as_mut().unwrap()[1].port = 8443;
    }
}
