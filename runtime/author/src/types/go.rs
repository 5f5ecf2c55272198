//! Types in Go: structs of the package `main`. Entry point: [`text`].

use super::kind::Kind;
use super::schema::{Field, Struct, Type};
use super::{MARK, comment, pascal, unused};

pub(super) fn text(kind: &Kind) -> String {
    let mut text = format!("// {MARK}\n\npackage main\n\nimport \"windlass.dev/windlass\"\n");
    for (at, one) in kind.structs.iter().enumerate() {
        text += "\n";
        text += &comments("", &one.name, &one.description);
        text += &format!("type {} struct {{\n", one.name);
        if at == 0 {
            text += "\twindlass.ObjectMeta `json:\"metadata\"`\n";
        }
        text += &fields(one, at == 0);
        text += "}\n";
    }
    let (name, api_version, kind) = (&kind.name, &kind.api_version, &kind.kind);
    text += &format!(
        "\n// GVK is the kind.\nfunc ({name}) GVK() windlass.GroupVersionKind {{\n\treturn windlass.GVK(\"{api_version}\", \"{kind}\")\n}}\n"
    );
    text
}

fn fields(one: &Struct, is_object: bool) -> String {
    // Names that the embedded metadata and the method have.
    let mut taken: Vec<String> = if is_object {
        vec!["ObjectMeta".to_owned(), "GVK".to_owned()]
    } else {
        Vec::new()
    };
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
            shown(field),
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
fn shown(field: &Field) -> String {
    let of = of(&field.of);
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

fn of(of: &Type) -> String {
    match of {
        Type::Text | Type::Choice(_) => "string".to_owned(),
        Type::Integer => "int64".to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::IntOrString | Type::Any => "any".to_owned(),
        Type::List(items) => format!("[]{}", self::of(items)),
        Type::Map(values) => format!("map[string]{}", self::of(values)),
        Type::Struct(name) => name.clone(),
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
