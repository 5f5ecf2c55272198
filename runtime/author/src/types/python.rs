//! Types in Python: a module with the kind for calls, and its stub of `TypedDict`s. Entry point: [`files`].
//!
//! Only those that check types read the stub. In a component the types cost nothing: the module knows no more than their names' use as functions.

use super::kind::Kind;
use super::schema::{Field, Struct, Type};
use super::{Language, comment, header, reserved};

/// Words of the language, which no class can have as a field.
const WORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// What annotations are written with. In a class that has a field of such a name they would mean that field.
const ANNOTATIONS: [&str; 9] = [
    "Any",
    "Literal",
    "NotRequired",
    "bool",
    "dict",
    "float",
    "int",
    "list",
    "str",
];

/// The module, whose name is `file`, and its stub.
pub(super) fn files(kind: &Kind, file: String) -> Vec<(String, String)> {
    let names = kind.names(&kind.name(), |name| {
        reserved::is_type(name, Language::Python)
    });
    let constant = kind.constant(Language::Python);
    let [mark, of] = header::lines(kind);
    let top = format!("# {mark}\n# {of}\n\n");
    let module = format!(
        "{top}{constant} = \"{}/{}\"\n\n\n\
         def __getattr__(name: str) -> type:\n    \"\"\"Each type is a dict. What it has stands in the stub beside this module.\"\"\"\n    \
         if name.startswith(\"_\"):\n        raise AttributeError(name)\n    return dict\n",
        kind.gvk.api_version(),
        kind.gvk.kind
    );
    let mut stub = format!(
        "{top}from typing import Any, Literal, TypedDict\n\nfrom typing_extensions import NotRequired\n\n{constant}: str\n"
    );
    for (at, (one, name)) in kind.structs.iter().zip(&names).enumerate() {
        stub += &format!("\n{}", class(one, name, at == 0, &names));
    }
    let of_stub = format!("{file}i");
    vec![(file, module), (of_stub, stub)]
}

/// A class; one of dictionaries with keys that no class can have is made by a call.
fn class(one: &Struct, name: &str, is_object: bool, names: &[String]) -> String {
    let of_objects = [
        ("apiVersion", "str"),
        ("kind", "str"),
        ("metadata", "dict[str, Any]"),
    ];
    let of_objects = of_objects.iter().filter(|_| is_object);
    let fits = |field: &Field| {
        let name = &field.name;
        is_identifier(name) && !ANNOTATIONS.contains(&&**name) && !names.contains(name)
    };
    if !one.fields.iter().all(fits) {
        let mut text = comments("", &one.description);
        text += &format!("{name} = TypedDict(\n    \"{name}\",\n    {{\n");
        for (field, of) in of_objects {
            text += &format!("        \"{field}\": \"{of}\",\n");
        }
        for field in &one.fields {
            let quoted = quoted(&field.name);
            text += &comments("        ", &field.description);
            text += &format!(
                "        {quoted}: {},\n",
                self::quoted(&annotation(field, names))
            );
        }
        return text + "    },\n)\n";
    }
    let mut text = format!("class {name}(TypedDict):\n");
    let description = comment(&one.description);
    if !description.is_empty() {
        text += &comments("    ", &one.description);
    }
    for (field, of) in of_objects {
        text += &format!("    {field}: {of}\n");
    }
    for field in &one.fields {
        text += &comments("    ", &field.description);
        text += &format!("    {}: {}\n", field.name, annotation(field, names));
    }
    if one.fields.is_empty() && !is_object {
        text += "    pass\n";
    }
    text
}

fn annotation(field: &Field, names: &[String]) -> String {
    let mut of = shown(&field.of, names);
    if field.is_nullable {
        of = format!("{of} | None");
    }
    if field.is_always_there {
        of
    } else {
        format!("NotRequired[{of}]")
    }
}

fn shown(of: &Type, names: &[String]) -> String {
    match of {
        Type::Text => "str".to_owned(),
        Type::Choice(choices) => {
            let choices: Vec<String> = choices.iter().map(|one| quoted(one)).collect();
            format!("Literal[{}]", choices.join(", "))
        }
        Type::Integer => "int".to_owned(),
        Type::Number => "float".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::IntOrString => "int | str".to_owned(),
        Type::Any => "Any".to_owned(),
        Type::List(items) => format!("list[{}]", shown(items, names)),
        Type::Map(values) => format!("dict[str, {}]", shown(values, names)),
        Type::Struct(at) => names[*at].clone(),
    }
}

fn comments(indent: &str, description: &str) -> String {
    let lines = comment(description);
    let lines = lines.iter();
    lines
        .map(|line| format!("{indent}# {line}").trim_end().to_owned() + "\n")
        .collect()
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    let first = letters.next();
    first.is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
        && letters.all(|it| it.is_ascii_alphanumeric() || it == '_')
        // Two of them would be changed inside of a class.
        && !name.starts_with("__")
        && !WORDS.contains(&name)
}

fn quoted(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    )
}
