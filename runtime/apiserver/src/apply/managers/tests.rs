//! Field managers.

use super::*;

fn writer<'a>(manager: &'a str, reset: &'a FieldSet) -> Writer<'a> {
    Writer {
        manager,
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        reset,
    }
}

#[test]
fn an_applier_that_stops_naming_a_field_removes_it_unless_another_owns_it() {
    let none = FieldSet::default();
    let mut managers = Managers::default();
    let config = json!({"data": {"mine": "1", "shared": "1"}});
    let live = managers
        .apply(
            &json!({}),
            &config,
            Schema::any(),
            &writer("a", &none),
            Force::Nothing,
        )
        .unwrap()
        .object
        .unwrap();
    let unchanged = managers
        .apply(
            &live,
            &json!({"data": {"shared": "1"}}),
            Schema::any(),
            &writer("b", &none),
            Force::Nothing,
        )
        .unwrap();
    assert!(unchanged.object.is_none());
    let left = managers
        .apply(
            &live,
            &json!({"data": {}}),
            Schema::any(),
            &writer("a", &none),
            Force::Nothing,
        )
        .unwrap()
        .object
        .unwrap();
    assert_eq!(left, json!({"data": {"shared": "1"}}));
}

#[test]
fn a_field_of_another_manager_is_a_conflict_until_forced() {
    let none = FieldSet::default();
    let mut managers = Managers::default();
    let live = managers
        .apply(
            &json!({}),
            &json!({"a": 1}),
            Schema::any(),
            &writer("one", &none),
            Force::Nothing,
        )
        .unwrap()
        .object
        .unwrap();
    let refused = managers
        .apply(
            &live,
            &json!({"a": 2}),
            Schema::any(),
            &writer("two", &none),
            Force::Nothing,
        )
        .unwrap_err();
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"one\": .a"
    );
    let forced = managers
        .apply(
            &live,
            &json!({"a": 2}),
            Schema::any(),
            &writer("two", &none),
            Force::Everything,
        )
        .unwrap();
    assert_eq!(forced.object.unwrap(), json!({"a": 2}));
    assert_eq!(managers.0.len(), 1);
}

#[test]
fn updaters_beyond_ten_become_one() {
    let none = FieldSet::default();
    let mut managers = Managers::default();
    for number in 0..15 {
        let new = json!({ format!("f{number}"): 1 });
        managers.update(
            &json!({}),
            &new,
            Schema::any(),
            &writer(&format!("m{number:02}"), &none),
        );
    }
    assert_eq!(managers.0.len(), MAX_UPDATERS);
}
