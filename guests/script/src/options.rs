//! A step's options as the contract's. Entry points: a function for each record.

use serde_json::Value;
use windlass_sdk::{
    ApplyOptions, DeleteOptions, Error, Event, EventType, GetOptions, GroupVersionKind,
    ListOptions, ObjectKey, PatchType, Projection, Propagation, ReadMode, Result, Selection,
    WriteOptions,
};

fn text(step: &Value, option: &str) -> Option<String> {
    step["options"][option].as_str().map(str::to_owned)
}

fn flag(step: &Value, option: &str) -> bool {
    step["options"][option] == true
}

fn number(step: &Value, option: &str) -> Option<u32> {
    u32::try_from(step["options"][option].as_u64()?).ok()
}

fn mode(step: &Value) -> ReadMode {
    if step["options"]["mode"] == "live" {
        ReadMode::Live
    } else {
        ReadMode::Cached
    }
}

fn projection(step: &Value) -> Projection {
    if step["options"]["projection"] == "metadata" {
        Projection::Metadata
    } else {
        Projection::Full
    }
}

pub(crate) fn get(step: &Value) -> GetOptions {
    GetOptions {
        mode: mode(step),
        projection: projection(step),
        subresource: text(step, "subresource"),
    }
}

pub(crate) fn list(step: &Value) -> ListOptions {
    ListOptions {
        namespace: text(step, "namespace"),
        label_selector: text(step, "labels"),
        field_selector: text(step, "fields"),
        index: text(step, "index").zip(text(step, "value")),
        limit: number(step, "limit").unwrap_or(0),
        continue_token: text(step, "continue"),
        mode: mode(step),
        projection: projection(step),
    }
}

pub(crate) fn write(step: &Value) -> WriteOptions {
    WriteOptions {
        subresource: text(step, "subresource"),
        dry_run: flag(step, "dryRun"),
    }
}

pub(crate) fn apply(step: &Value) -> ApplyOptions {
    ApplyOptions {
        subresource: text(step, "subresource"),
        force: flag(step, "force"),
        dry_run: flag(step, "dryRun"),
    }
}

pub(crate) fn delete(step: &Value) -> DeleteOptions {
    DeleteOptions {
        uid: text(step, "uid"),
        resource_version: text(step, "resourceVersion"),
        propagation: match step["options"]["propagation"].as_str() {
            Some("background") => Some(Propagation::Background),
            Some("foreground") => Some(Propagation::Foreground),
            Some("orphan") => Some(Propagation::Orphan),
            _ => None,
        },
        grace_period_seconds: number(step, "gracePeriodSeconds"),
        dry_run: flag(step, "dryRun"),
    }
}

pub(crate) fn selection(step: &Value) -> Selection {
    Selection {
        namespace: text(step, "namespace"),
        label_selector: text(step, "labels"),
        field_selector: text(step, "fields"),
    }
}

pub(crate) fn patch(step: &Value) -> Result<(PatchType, String)> {
    let patch_type = match step["patch"][0].as_str() {
        Some("json") => PatchType::JsonPatch,
        Some("merge") => PatchType::Merge,
        Some("strategic") => PatchType::StrategicMerge,
        _ => return Err(Error::terminal("a step without a patch")),
    };
    Ok((patch_type, crate::text(&step["patch"][1])))
}

pub(crate) fn event(step: &Value, kind: GroupVersionKind, key: ObjectKey) -> Event {
    let word = |option: &str| text(step, option).unwrap_or_else(|| "Tested".to_owned());
    Event {
        kind,
        key,
        event_type: if flag(step, "warning") {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: word("reason"),
        action: word("action"),
        note: word("note"),
    }
}
