//! Types in TypeScript: interfaces, and the kind for calls. Entry point: [`text`].

use super::kind::Kind;
use super::schema::{Field, Type};
use super::{Language, comment, header, reserved};

pub(super) fn text(kind: &Kind) -> String {
    let names = kind.names(&kind.name(), |name| {
        reserved::is_type(name, Language::Typescript)
    });
    let [mark, of] = header::lines(kind);
    let mut text = format!(
        "// {mark}\n// {of}\n\nimport {{ type KubernetesObject, kind }} from 'windlass-sdk';\n"
    );
    for (at, (one, name)) in kind.structs.iter().zip(&names).enumerate() {
        text += "\n";
        text += &doc("", &one.description);
        let extends = if at == 0 {
            " extends KubernetesObject"
        } else {
            ""
        };
        text += &format!("export interface {name}{extends} {{\n");
        let fields = one.fields.iter();
        fields.for_each(|field| text += &line(field, &names));
        if one.is_open && at > 0 {
            text += "  [field: string]: unknown;\n";
        }
        text += "}\n";
    }
    let name = names.first().map_or("", String::as_str);
    let [api_version, kind] = [&kind.gvk.api_version(), &*kind.gvk.kind].map(quoted);
    text += &format!("\nexport const {name} = kind<{name}>({api_version}, {kind});\n");
    text
}

fn line(field: &Field, names: &[String]) -> String {
    let name = if is_identifier(&field.name) {
        field.name.clone()
    } else {
        quoted(&field.name)
    };
    let optional = if field.is_always_there { "" } else { "?" };
    let null = if field.is_nullable { " | null" } else { "" };
    let doc = doc("  ", &field.description);
    format!(
        "{doc}  {name}{optional}: {}{null};\n",
        shown(&field.of, names)
    )
}

fn shown(of: &Type, names: &[String]) -> String {
    match of {
        Type::Text => "string".to_owned(),
        Type::Choice(choices) => {
            let choices: Vec<String> = choices.iter().map(|one| quoted(one)).collect();
            choices.join(" | ")
        }
        Type::Integer | Type::Number => "number".to_owned(),
        Type::Boolean => "boolean".to_owned(),
        Type::IntOrString => "number | string".to_owned(),
        Type::Any => "unknown".to_owned(),
        Type::List(items) => match **items {
            Type::Choice(_) | Type::IntOrString => format!("({})[]", shown(items, names)),
            _ => format!("{}[]", shown(items, names)),
        },
        Type::Map(values) => format!("Record<string, {}>", shown(values, names)),
        Type::Struct(at) => names[*at].clone(),
    }
}

fn doc(indent: &str, description: &str) -> String {
    match &*comment(description) {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let lines: Vec<String> = lines
                .iter()
                .map(|line| format!("{indent} * {line}").trim_end().to_owned() + "\n")
                .collect();
            format!("{indent}/**\n{}{indent} */\n", lines.concat())
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    let first = letters.next();
    first.is_some_and(|it| it.is_ascii_alphabetic() || it == '_' || it == '$')
        && letters.all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '$')
}

fn quoted(text: &str) -> String {
    format!(
        "'{}'",
        text.replace('\\', "\\\\")
            .replace('\'', "\\'")
            .replace('\n', "\\n")
    )
}
