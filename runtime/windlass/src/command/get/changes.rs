//! The changes between two answers of a manager. Entry point: [`Changes::between`].

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Fields that name an item, in the order in which they are printed.
const NAMES: [&str; 4] = ["key", "tenant", "reconciler", "name"];
/// Fields with durations change all the time, and do not count as changes.
const TIMES: &str = "Seconds";

/// A change of an item.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// An item that is new or has changed.
    Now(Json),
    /// An item that is gone, in its last state.
    Gone(Json),
}

impl Change {
    /// One line for programs.
    pub(super) fn to_json(&self) -> Json {
        let (what, item) = match self {
            Self::Now(item) => ("now", item),
            Self::Gone(item) => ("gone", item),
        };
        json!({"change": what, "item": item})
    }
}

/// The last answer.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// By name.
    last: BTreeMap<String, Json>,
}

impl Changes {
    /// The changes since the last answer.
    pub(super) fn between(&mut self, items: Vec<Json>) -> Vec<Change> {
        let mut before = std::mem::take(&mut self.last);
        let mut news = Vec::new();
        for item in items {
            let name = name(&item);
            let same = before
                .remove(&name)
                .is_some_and(|before| lasting(&before) == lasting(&item));
            if !same {
                news.push(Change::Now(item.clone()));
            }
            self.last.insert(name, item);
        }
        news.extend(before.into_values().map(Change::Gone));
        news
    }
}

/// The name of an item.
pub(super) fn name(item: &Json) -> String {
    let parts = NAMES.iter().filter_map(|field| item[*field].as_str());
    parts.collect::<Vec<_>>().join(" ")
}

/// An item without the fields that change by themselves.
fn lasting(item: &Json) -> Json {
    let Json::Object(fields) = item else {
        return item.clone();
    };
    let lasting = fields.iter().filter(|(field, _)| !field.ends_with(TIMES));
    lasting
        .map(|(field, value)| (field.clone(), self::lasting(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_changes_and_leaves_is_news_and_the_passing_of_time_is_none() {
        let item = |name: &str, state: &str, seconds: u64| json!({"name": name, "state": state, "sinceSeconds": seconds, "usage": {"cpuSeconds": seconds}});
        let mut changes = Changes::default();
        let (a, b) = (item("a", "Ready", 1), item("b", "Syncing", 1));
        let first = changes.between(vec![a.clone(), b.clone()]);
        assert_eq!(first, [Change::Now(a), Change::Now(b)]);
        let later = vec![item("a", "Ready", 2), item("b", "Syncing", 2)];
        assert_eq!(changes.between(later), []);
        let ready = item("b", "Ready", 0);
        let news = changes.between(vec![ready.clone()]);
        let gone = Change::Gone(item("a", "Ready", 2));
        assert_eq!(news, [Change::Now(ready), gone.clone()]);
        assert_eq!(gone.to_json()["change"], "gone");
    }

    #[test]
    fn equal_keys_of_two_reconcilers_are_two_items() {
        let key = |reconciler: &str| json!({"key": "cluster://a/b/c", "tenant": "t", "reconciler": reconciler});
        let mut changes = Changes::default();
        assert_eq!(changes.between(vec![key("x"), key("y")]).len(), 2);
        assert_eq!(name(&key("x")), "cluster://a/b/c t x");
    }
}
