//! Types in Python: `TypedDict`s, and the kind for calls. Entry point: [`text`].

use super::kind::Kind;
use super::schema::{Field, Struct, Type};
use super::{MARK, comment, snake};

/// Words of the language, which no class can have as a field.
const WORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

pub(super) fn text(kind: &Kind) -> String {
    let mut text = format!(
        "# {MARK}\n\nfrom __future__ import annotations\n\nfrom typing import TYPE_CHECKING, Any, Literal, TypedDict\n\n\
         if TYPE_CHECKING:\n    from typing_extensions import NotRequired\n\n{} = \"{}/{}\"\n",
        snake(&kind.name).to_uppercase(),
        kind.api_version,
        kind.kind
    );
    for (at, one) in kind.structs.iter().enumerate() {
        text += "\n\n";
        text += &class(one, at == 0);
    }
    text
}

/// A class; one of dictionaries with keys that no class can have is made by a call.
fn class(one: &Struct, is_object: bool) -> String {
    let of_objects = [
        ("apiVersion", "str"),
        ("kind", "str"),
        ("metadata", "dict[str, Any]"),
    ];
    let of_objects = of_objects.iter().filter(|_| is_object);
    if one.fields.iter().any(|field| !is_identifier(&field.name)) {
        let mut text = comments("", &one.description);
        text += &format!("{0} = TypedDict(\n    \"{0}\",\n    {{\n", one.name);
        for (name, of) in of_objects {
            text += &format!("        \"{name}\": \"{of}\",\n");
        }
        for field in &one.fields {
            let quoted = quoted(&field.name);
            text += &comments("        ", &field.description);
            text += &format!("        {quoted}: {},\n", self::quoted(&annotation(field)));
        }
        return text + "    },\n)\n";
    }
    let mut text = format!("class {}(TypedDict):\n", one.name);
    let description = comment(&one.description);
    if !description.is_empty() {
        text += &comments("    ", &one.description);
    }
    for (name, of) in of_objects {
        text += &format!("    {name}: {of}\n");
    }
    for field in &one.fields {
        text += &comments("    ", &field.description);
        text += &format!("    {}: {}\n", field.name, annotation(field));
    }
    if one.fields.is_empty() && !is_object {
        text += "    pass\n";
    }
    text
}

fn annotation(field: &Field) -> String {
    let mut of = shown(&field.of);
    if field.is_nullable {
        of = format!("{of} | None");
    }
    if field.is_always_there {
        of
    } else {
        format!("NotRequired[{of}]")
    }
}

fn shown(of: &Type) -> String {
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
        Type::List(items) => format!("list[{}]", shown(items)),
        Type::Map(values) => format!("dict[str, {}]", shown(values)),
        Type::Struct(name) => name.clone(),
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
