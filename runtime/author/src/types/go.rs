//! Types in Go: structs of the package `main`. Entry point: [`text`].

use super::kind::Kind;
use super::naming::{pascal, unused};
use super::schema::{Field, Struct, Type};
use super::{Language, comment, header, reserved};

/// What an object has of the embedded metadata, and by its own method: a field of the same name would hide it.
const OF_OBJECTS: [&str; 7] = [
    "ObjectMeta",
    "GVK",
    "Key",
    "Deleting",
    "Controller",
    "SetController",
    "ControllerReference",
];

pub(super) fn text(kind: &Kind, shared: &str) -> String {
    let names = kind.names(shared, |name| reserved::is_type(name, Language::Go));
    let [mark, of] = header::lines(kind);
    let mut text =
        format!("// {mark}\n// {of}\n\npackage main\n\nimport \"windlass.dev/windlass\"\n");
    for (at, (one, name)) in kind.structs.iter().zip(&names).enumerate() {
        text += "\n";
        text += &comments("", name, &one.description);
        text += &format!("type {name} struct {{\n");
        if at == 0 {
            text += "\twindlass.ObjectMeta `json:\"metadata\"`\n";
        }
        text += &fields(one, at == 0, &names);
        text += "}\n";
    }
    let name = names.first().map_or("", String::as_str);
    let (api_version, kind) = (kind.gvk.api_version(), &kind.gvk.kind);
    text += &format!(
        "\n// GVK is the kind.\nfunc ({name}) GVK() windlass.GroupVersionKind {{\n\treturn windlass.GVK(\"{api_version}\", \"{kind}\")\n}}\n"
    );
    text
}

fn fields(one: &Struct, is_object: bool, names: &[String]) -> String {
    let of_objects = OF_OBJECTS.iter().filter(|_| is_object);
    let mut taken: Vec<String> = of_objects.map(|name| (*name).to_owned()).collect();
    let mut text = String::new();
    for field in &one.fields {
        // A tag cannot have these characters, and no such field can be read: it stays as it was read.
        if field.name.contains(['"', '`', ',', '\\']) || field.name == "-" {
            continue;
        }
        let name = unused(pascal(&field.name), |name| {
            taken.iter().any(|one| one == name)
        });
        let (of, omitted) = (
            shown(field, names),
            if field.is_always_there {
                ""
            } else {
                ",omitempty"
            },
        );
        text += &comments("\t", &name, &field.description);
        text += &format!("\t{name} {of} `json:\"{}{omitted}\"`\n", field.name);
        taken.push(name);
    }
    text
}

/// A field that may be absent is a pointer, unless its type has a value for that.
fn shown(field: &Field, names: &[String]) -> String {
    let of = of(&field.of, names);
    let has_none = matches!(
        field.of,
        Type::Any | Type::IntOrString | Type::List(_) | Type::Map(_)
    );
    if (field.is_always_there && !field.is_nullable) || has_none {
        of
    } else {
        format!("*{of}")
    }
}

fn of(of: &Type, names: &[String]) -> String {
    match of {
        Type::Text | Type::Choice(_) => "string".to_owned(),
        Type::Integer => "int64".to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::IntOrString | Type::Any => "any".to_owned(),
        Type::List(items) => format!("[]{}", self::of(items, names)),
        Type::Map(values) => format!("map[string]{}", self::of(values, names)),
        Type::Struct(at) => names[*at].clone(),
    }
}

/// A comment, which begins with the name. Each field has one: gofmt wants fields without comments in columns.
fn comments(indent: &str, name: &str, description: &str) -> String {
    let mut lines = comment(description);
    match lines.first_mut() {
        Some(first) => *first = format!("{name}: {first}"),
        None => lines.push(format!("{name} has no description.")),
    }
    // gofmt makes typographic quotes of these.
    let lines = lines
        .iter()
        .map(|line| line.replace("``", "`").replace("''", "\"\""));
    lines
        .map(|line| format!("{indent}// {line}").trim_end().to_owned() + "\n")
        .collect()
}
