//! Types in Rust: a module of structs. Entry point: [`text`].

use super::kind::Kind;
use super::naming::{snake, unused};
use super::schema::{Struct, Type};
use super::{Language, comment, header, reserved};

/// Words of the language that a field can have as `r#word`, and those that it cannot.
const RAW: [&str; 45] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "where",
];
const NEVER: [&str; 6] = ["crate", "self", "super", "virtual", "while", "yield"];

pub(super) fn text(kind: &Kind) -> String {
    let names = kind.names(&kind.name(), |name| reserved::is_type(name, Language::Rust));
    let [mark, of] = header::lines(kind);
    let mut text = format!(
        "//! {mark}\n//! {of}\n\nuse serde::{{Deserialize, Serialize}};\nuse serde_json::Value;\nuse std::collections::BTreeMap;\nuse windlass_sdk::Metadata;\n"
    );
    for (at, (one, name)) in kind.structs.iter().zip(&names).enumerate() {
        text += "\n";
        text += &doc("", &one.description, name);
        text += "#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]\n";
        text += &format!("pub struct {name} {{\n");
        let mut taken: Vec<String> = Vec::new();
        if at == 0 {
            // Read, so that they are not among the rest: the SDK writes them.
            for (field, json) in [("api_version", "apiVersion"), ("kind", "kind")] {
                text += &format!(
                    "    /// As it was read. It is not written: the SDK knows it.\n    #[serde(rename = \"{json}\", default, skip_serializing)]\n    pub {field}: String,\n"
                );
                taken.push(field.to_owned());
            }
            text += "    /// What every object has.\n    pub metadata: Metadata,\n";
            taken.push("metadata".to_owned());
        }
        text += &fields(one, &mut taken, &names);
        let rest = unused("rest".to_owned(), |name| {
            taken.iter().any(|one| one == name)
        });
        text += "    /// Fields that are not listed here. They are written as they were read.\n";
        text += &format!("    #[serde(flatten)]\n    pub {rest}: BTreeMap<String, Value>,\n}}\n");
        if at == 0 {
            let (api_version, kind) = (kind.gvk.api_version(), &kind.gvk.kind);
            text += &format!("windlass_sdk::kind!({name}, \"{api_version}\", \"{kind}\");\n");
        }
    }
    text
}

fn fields(one: &Struct, taken: &mut Vec<String>, names: &[String]) -> String {
    let mut text = String::new();
    for field in &one.fields {
        let name = unused(snake(&field.name), |name| {
            taken.iter().any(|one| one == name)
        });
        let shown = match &*name {
            name if RAW.contains(&name) => format!("r#{name}"),
            name if NEVER.contains(&name) => format!("{name}_"),
            name => name.to_owned(),
        };
        text += &doc("    ", &field.description, &field.name);
        let mut options = Vec::new();
        if name != field.name || shown.ends_with('_') {
            options.push(format!("rename = {:?}", field.name));
        }
        let is_plain = field.is_always_there && !field.is_nullable;
        let of = if is_plain {
            of(&field.of, names)
        } else {
            format!("Option<{}>", of(&field.of, names))
        };
        if !is_plain && !field.is_always_there {
            options.push("default, skip_serializing_if = \"Option::is_none\"".to_owned());
        }
        if !options.is_empty() {
            text += &format!("    #[serde({})]\n", options.join(", "));
        }
        text += &format!("    pub {shown}: {of},\n");
        taken.push(name);
    }
    text
}

fn of(of: &Type, names: &[String]) -> String {
    match of {
        Type::Text | Type::Choice(_) => "String".to_owned(),
        Type::Integer => "i64".to_owned(),
        Type::Number => "f64".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::IntOrString | Type::Any => "Value".to_owned(),
        Type::List(items) => format!("Vec<{}>", self::of(items, names)),
        Type::Map(values) => format!("BTreeMap<String, {}>", self::of(values, names)),
        Type::Struct(at) => names[*at].clone(),
    }
}

/// A comment; without a description the name, because public items have one.
fn doc(indent: &str, description: &str, name: &str) -> String {
    let mut lines = comment(description);
    if lines.is_empty() {
        lines.push(format!("`{name}`"));
    }
    let lines = lines.iter();
    lines
        .map(|line| format!("{indent}/// {line}").trim_end().to_owned() + "\n")
        .collect()
}
