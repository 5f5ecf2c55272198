//! A short name for a value. Entry point: [`fingerprint`].

use serde_json::Value;

/// FNV-1a over a value, with sorted names: the same for equal values, in every language's SDK.
pub(crate) fn fingerprint(value: &Value) -> String {
    let mut hash = 0x811c_9dc5;
    walk(&mut hash, value);
    format!("{hash:08x}")
}

fn walk(hash: &mut u32, value: &Value) {
    match value {
        Value::Null => feed(hash, "n"),
        Value::Bool(true) => feed(hash, "t"),
        Value::Bool(false) => feed(hash, "f"),
        Value::Number(number) => feed(hash, &format!("#{number};")),
        Value::String(text) => feed_text(hash, text),
        Value::Array(items) => {
            feed(hash, "[");
            items.iter().for_each(|item| walk(hash, item));
            feed(hash, "]");
        }
        Value::Object(fields) => {
            // Sorted even if a crate of the guest makes maps keep their order.
            let mut names: Vec<_> = fields.iter().collect();
            names.sort_by_key(|(name, _)| *name);
            feed(hash, "{");
            for (name, each) in names {
                feed_text(hash, name);
                walk(hash, each);
            }
            feed(hash, "}");
        }
    }
}

fn feed_text(hash: &mut u32, text: &str) {
    feed(hash, "\"");
    feed(hash, text);
    feed(hash, "\0");
}

fn feed(hash: &mut u32, text: &str) {
    for byte in text.bytes() {
        *hash = (*hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
}
