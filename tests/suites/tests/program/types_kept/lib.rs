//! Objects survive their types: each is read, changed and written, and no other field differs.
#![deny(warnings)]

#[cfg(test)]
mod tests {
    use types::odd::Odd;
    use serde_json::Value;
    use windlass_sdk::{Object, Resource, Typed};

    /// Changes the object of a file as a guest does, and compares it with what is expected.
    pub(crate) fn survives<T: Typed + Resource>(file: &str, change: impl FnOnce(&mut T)) {
        let read = |suffix: &str| -> Value {
            let text = std::fs::read_to_string(format!("{file}{suffix}.json")).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        // Not by way of a cluster: a server drops the fields that no schema has.
        let mut object: T = serde_json::from_value(read("")).unwrap();
        change(&mut object);
        let mut after = Object::of(&object).unwrap().0;
        let mut expected = read(".changed");
        // A field that the type knows is absent where it was null.
        if let Some(spec) = expected.pointer_mut("/spec").and_then(Value::as_object_mut) {
            spec.retain(|name, value| name != "none" || !value.is_null());
        }
        // The metadata of a guest has not every field that servers set, and ignore.
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
