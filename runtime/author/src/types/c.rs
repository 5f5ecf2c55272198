//! Types in C: a header with the kind, and the path of each field for the SDK's readers. Entry point: [`text`].
//!
//! C has no types of objects: a guest reads `json_text_at(site, WEBSITE_SPEC_HOST)`. A misspelt field is an unknown name, which fails the build; a
//! misspelt path would read nothing. Paths of what is in a list or a map begin at the item, and their names have `ITEM`.

use super::kind::Kind;
use super::naming::{snake, unused, words};
use super::schema::{Field, Struct, Type};
use super::{Language, comment, header, reserved};
use std::collections::HashSet;

pub(super) fn text(kind: &Kind, shared: &str) -> String {
    let mut header = Header::of(kind, shared);
    if let Some(object) = kind.structs.first() {
        header.fields(object, &capitals(shared), "");
    }
    header.items();
    format!("{}\n#endif\n", header.text)
}

/// A header that is being written.
struct Header<'a> {
    structs: &'a [Struct],
    /// The names of the structs.
    names: Vec<String>,
    text: String,
    /// Its names: two fields can have the same words.
    taken: HashSet<String>,
    /// Structs in lists and maps, in the order in which they were met. Their fields follow those of the object.
    /// The reader of schemas leaves no struct that is a part of itself.
    items: Vec<usize>,
}

impl<'a> Header<'a> {
    /// With the kind.
    fn of(kind: &'a Kind, shared: &str) -> Self {
        let name = capitals(shared);
        let guard = format!("{name}_TYPES_H");
        let gvk = &kind.gvk;
        let [group, version, kind_name] =
            [&gvk.group, &gvk.version, &gvk.kind].map(|it| quoted(it));
        let [mark, of] = header::lines(kind);
        let object = kind.structs.first();
        let description = object.map(|object| &*object.description);
        let mut text = format!(
            "/* {mark} */\n/* {of} */\n#ifndef {guard}\n#define {guard}\n\n#include <windlass.h>\n\n"
        );
        text += &comments(description.unwrap_or_default(), None);
        text += &format!(
            "static const windlass_kind {name}_KIND = {{{group}, {version}, {kind_name}}};\n"
        );
        Self {
            structs: &kind.structs,
            names: kind.names(shared, |_| false),
            text,
            taken: HashSet::from([guard, format!("{name}_KIND")]),
            items: Vec::new(),
        }
    }

    /// The fields of a struct that is at a path, and those of the structs in it.
    fn fields(&mut self, one: &'a Struct, name: &str, path: &str) {
        for field in &one.fields {
            let name = self.unused(format!("{name}_{}", capitals(&field.name)));
            let path = format!("{path}/{}", escaped(&field.name));
            self.text += &format!(
                "\n{}",
                comments(&field.description, Some(&summary(field, &self.names)))
            );
            self.define(&name, &path);
            self.inside(&field.of, &name, &path);
        }
    }

    fn inside(&mut self, of: &'a Type, name: &str, path: &str) {
        match of {
            Type::Struct(at) => self.fields(&self.structs[*at], name, path),
            Type::Choice(choices) => self.choices(choices, name),
            Type::List(item) | Type::Map(item) => self.item(item, name),
            _ => {}
        }
    }

    fn item(&mut self, of: &'a Type, name: &str) {
        match of {
            Type::Struct(at) if !self.items.contains(at) => self.items.push(*at),
            Type::Choice(choices) => self.choices(choices, name),
            Type::List(item) | Type::Map(item) => self.item(item, name),
            _ => {}
        }
    }

    /// The fields of items, of which some have items themselves.
    fn items(&mut self) {
        let mut at = 0;
        while let Some(&one) = self.items.get(at) {
            let one = &self.structs[one];
            let name = of_item(&self.names[self.items[at]]);
            let begin = format!("{name}: paths that begin at the item.");
            self.text += &format!("\n{}", comments(&one.description, Some(&begin)));
            self.fields(one, &name, "");
            at += 1;
        }
    }

    fn choices(&mut self, choices: &[String], name: &str) {
        for choice in choices {
            let words = words(choice).join("_").to_ascii_uppercase();
            let word = match &*words {
                "" if choice.is_empty() => "EMPTY",
                "" => "VALUE",
                words => words,
            };
            let name = self.unused(format!("{name}_{word}"));
            self.define(&name, choice);
        }
    }

    fn define(&mut self, name: &str, value: &str) {
        self.text += &format!("#define {name} {}\n", quoted(value));
    }

    fn unused(&mut self, name: String) -> String {
        let name = unused(name, |name| {
            self.taken.contains(name) || reserved::is_type(name, Language::C)
        });
        self.taken.insert(name.clone());
        name
    }
}

/// `fieldName` as `FIELD_NAME`.
fn capitals(name: &str) -> String {
    snake(name).to_ascii_uppercase()
}

/// The first words of the names of an item's fields.
fn of_item(name: &str) -> String {
    capitals(name) + "_ITEM"
}

/// A name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// What a field can be: its type, whether it may be absent or null, and its bounds.
fn summary(field: &Field, names: &[String]) -> String {
    let mut all = vec![shown(&field.of, names)];
    if field.is_always_there {
        all.push("always there".to_owned());
    }
    if field.is_nullable {
        all.push("may be null".to_owned());
    }
    all.extend(field.bounds.iter().cloned());
    all.join(", ")
}

fn shown(of: &Type, names: &[String]) -> String {
    match of {
        Type::Text => "string".to_owned(),
        Type::Choice(choices) => {
            let choices: Vec<String> = choices.iter().map(|one| format!("{one:?}")).collect();
            format!("one of {}", choices.join(" "))
        }
        Type::Integer => "integer".to_owned(),
        Type::Number => "number".to_owned(),
        Type::Boolean => "boolean".to_owned(),
        Type::IntOrString => "integer or string".to_owned(),
        Type::Any => "any value".to_owned(),
        Type::List(items) => format!("array, each {}", shown_item(items, names)),
        Type::Map(values) => format!("object, each value {}", shown_item(values, names)),
        Type::Struct(_) => "object".to_owned(),
    }
}

fn shown_item(of: &Type, names: &[String]) -> String {
    match of {
        Type::Struct(at) => of_item(&names[*at]),
        of => shown(of, names),
    }
}

/// A comment of a description and a last line.
fn comments(description: &str, last: Option<&str>) -> String {
    let lines = [description, last.unwrap_or_default()]
        .map(comment)
        .concat();
    // Compilers warn of what looks like another comment, or like the end of a line.
    let lines = lines
        .iter()
        .map(|line| line.replace("/*", "/ *").replace("??/", "?? /"));
    match &*lines.collect::<Vec<_>>() {
        [] => String::new(),
        [line] => format!("/* {line} */\n"),
        lines => {
            let lines = lines.iter();
            let lines = lines.map(|line| format!(" * {line}").trim_end().to_owned() + "\n");
            format!("/*\n{} */\n", lines.collect::<String>())
        }
    }
}

/// A string of the language: plain letters, and the bytes of all others. `?` could begin a trigraph.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted += &format!("\\{byte:03o}"),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::super::write;
    use super::*;
    use serde_json::{Value as Json, json};
    use windlass_files::Node;
    use windlass_fleet::GroupVersionKind;

    fn written(kind: &Kind) -> String {
        let mut types = write(kind, Language::C, false);
        let (file, text) = types.files.remove(0);
        assert_eq!(file, "odd_types.h");
        text
    }

    fn of_spec(properties: &Json) -> String {
        let spec = json!({"type": "object", "required": ["host"], "properties": properties});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let version = json!({"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"group": "example.com", "names": {"kind": "Odd"}, "versions": [version]},
        });
        written(&Kind::of_definition(&Node::of(&definition), None).unwrap())
    }

    /// The names and the values, in their order.
    fn defined(text: &str) -> Vec<(&str, &str)> {
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("#define "));
        lines.filter_map(|line| line.split_once(' ')).collect()
    }

    #[test]
    fn a_header_has_the_kind_and_the_path_of_each_field_with_what_the_schema_says() {
        let host = json!({"type": "string", "minLength": 1, "pattern": "^/*", "description": "Where.\nIt is."});
        let text = of_spec(&json!({"host": host}));
        let expected = "\
/* Code generated by windlass types. DO NOT EDIT. */
/* The kind example.com/v1/Odd. */
#ifndef ODD_TYPES_H
#define ODD_TYPES_H

#include <windlass.h>

static const windlass_kind ODD_KIND = {\"example.com\", \"v1\", \"Odd\"};

/* object */
#define ODD_SPEC \"/spec\"

/*
 * Where.
 * It is.
 * string, always there, minLength: 1, pattern: ^/ *
 */
#define ODD_SPEC_HOST \"/spec/host\"

#endif
";
        assert_eq!(text, expected);
    }

    #[test]
    fn names_are_unique_and_values_are_strings_of_c() {
        let text = json!({"type": "string"});
        let class = json!({"type": "string", "enum": ["a'b", "", "??/\"é", "A-B"]});
        let all = of_spec(&json!({
            "class": class, "fooBar": text, "foo_bar": text, "x-kubernetes/a~b": text, "$ref": text, "2nd": text, "-": text,
        }));
        let expected = [
            ("ODD_SPEC", "\"/spec\""),
            ("ODD_SPEC_N2ND", "\"/spec/2nd\""),
            ("ODD_SPEC_CLASS", "\"/spec/class\""),
            ("ODD_SPEC_CLASS_A_B", "\"a'b\""),
            ("ODD_SPEC_CLASS_EMPTY", "\"\""),
            ("ODD_SPEC_FOO_BAR", "\"/spec/fooBar\""),
            ("ODD_SPEC_FOO_BAR2", "\"/spec/foo_bar\""),
        ];
        let defined = defined(&all);
        for one in expected {
            assert!(defined.contains(&one), "{one:?} in {all}");
        }
        assert!(defined.contains(&("ODD_SPEC_REF", "\"/spec/$ref\"")));
        assert!(defined.contains(&("ODD_SPEC_N", "\"/spec/-\"")));
        let slash = "\"/spec/x-kubernetes~1a~0b\"";
        assert!(defined.contains(&("ODD_SPEC_X_KUBERNETES_A_B", slash)));
        let value = r#""\?\?/\"\303\251""#;
        assert!(defined.contains(&("ODD_SPEC_CLASS_VALUE", value)), "{all}");
        let names: HashSet<&str> = defined.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), defined.len());
    }

    #[test]
    fn paths_in_lists_and_maps_begin_at_the_item_and_equal_items_share_them() {
        let port = json!({"type": "object", "properties": {
            "port": {"type": "integer"}, "tls": {"type": "object", "properties": {"secret": {"type": "string"}}}}});
        let ports = json!({"type": "array", "items": port});
        let by_name =
            json!({"type": "object", "additionalProperties": {"type": "array", "items": port}});
        let classes = json!({"type": "array", "items": {"type": "string", "enum": ["plain"]}});
        let all = of_spec(&json!({"ports": ports, "byName": by_name, "classes": classes}));
        assert!(all.contains("/* array, each ODD_SPEC_BY_NAME_ITEM */\n#define ODD_SPEC_PORTS "));
        assert!(all.contains("/* object, each value array, each ODD_SPEC_BY_NAME_ITEM */"));
        let defined = defined(&all);
        for one in [
            ("ODD_SPEC_CLASSES_PLAIN", "\"plain\""),
            ("ODD_SPEC_PORTS", "\"/spec/ports\""),
            ("ODD_SPEC_BY_NAME_ITEM_PORT", "\"/port\""),
            ("ODD_SPEC_BY_NAME_ITEM_TLS_SECRET", "\"/tls/secret\""),
        ] {
            assert!(defined.contains(&one), "{one:?} in {all}");
        }
    }

    #[test]
    fn a_schema_that_is_a_part_of_itself_ends() {
        let refer = |name: &str| json!({"$ref": format!("#/components/schemas/io.{name}")});
        let gvk = json!([{"group": "example.com", "version": "v1", "kind": "Odd"}]);
        let props = json!({"type": "object", "properties": {
            "not": refer("Props"), "all": {"type": "array", "items": refer("Props")}}});
        let root = json!({"type": "object", "x-kubernetes-group-version-kind": gvk, "properties": {
            "one": refer("Props"), "more": {"type": "array", "items": refer("Props")}}});
        let document = json!({"components": {"schemas": {"io.Props": props, "io.Odd": root}}});
        let kind = GroupVersionKind::new("example.com", "v1", "Odd");
        let all = written(&Kind::published(&Node::of(&document), &kind).unwrap());
        let defined = defined(&all);
        let named = |name| defined.iter().any(|one| one.0 == name);
        assert!(named("ODD_ONE_NOT") && named("ODD_PROPS_ITEM_ALL"), "{all}");
        assert_eq!(defined.len(), 6, "{all}");
    }
}
