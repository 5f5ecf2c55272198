//! Texts with `{name}`, `{hash}`, `{.spec.region}` and the like in them. Entry point: [`Template`].

use crate::digest::digest;
use crate::path::Path;
use serde::Deserialize;
use serde_json::Value;

/// Letters of `{hash}`: fifty bits.
pub(crate) const HASH: usize = 10;

/// What a template can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    /// The name of the cluster, as the program has it.
    Cluster,
    /// The workspace's logical cluster.
    LogicalCluster,
    /// The workspace's path.
    Path,
    /// The namespace of the consumer's object; empty if it has none.
    Namespace,
    /// The name of the consumer's object.
    Name,
    /// The value that is changed.
    Value,
}

const VARIABLES: [(&str, Variable); 6] = [
    ("cluster", Variable::Cluster),
    ("logicalCluster", Variable::LogicalCluster),
    ("path", Variable::Path),
    ("namespace", Variable::Namespace),
    ("name", Variable::Name),
    ("value", Variable::Value),
];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(Variable),
    /// `{hash}`.
    Hash,
    /// `{hash(name)}`.
    HashOf(Variable),
    /// `{.spec.region}`: a field of the object.
    Field(Path),
}

/// A text with parts that are filled in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Template(Vec<Part>);

/// What is known where a template is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) cluster: String,
    pub(crate) logical_cluster: String,
    pub(crate) path: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The values of one use of a template.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) facts: &'a Facts,
    /// For `{.field}`.
    pub(crate) object: &'a Value,
    /// For `{value}`.
    pub(crate) value: &'a str,
    /// For `{hash}`.
    pub(crate) hash: &'a str,
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut parts = Vec::new();
        let (mut plain, mut rest) = (String::new(), text.as_str());
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let from = &rest[at..];
            if from.starts_with("{{") || from.starts_with("}}") {
                plain.push_str(&from[..1]);
                rest = &from[2..];
                continue;
            }
            let inner = from
                .strip_prefix('{')
                .and_then(|from| from.split_once('}'))
                .ok_or_else(|| format!("{text:?}: a brace is alone: write {{{{ or }}}} for one"))?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(part(inner.0).map_err(|why| format!("{text:?}: {why}"))?);
            rest = inner.1;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }
}

fn part(text: &str) -> Result<Part, String> {
    if let Some(field) = text.strip_prefix('.') {
        return Path::try_from(field.to_owned()).map(Part::Field);
    }
    if text == "hash" {
        return Ok(Part::Hash);
    }
    let of = text
        .strip_prefix("hash(")
        .and_then(|rest| rest.strip_suffix(')'));
    let known = |name: &str| VARIABLES.iter().find(|known| known.0 == name);
    match (of, known(of.unwrap_or(text))) {
        (None, Some((_, variable))) => Ok(Part::Variable(*variable)),
        (Some(_), Some((_, variable))) => Ok(Part::HashOf(*variable)),
        (_, None) => Err(format!(
            "{{{text}}} is not known: use {{cluster}}, {{logicalCluster}}, {{path}}, {{namespace}}, {{name}}, {{hash}}, {{hash(name)}} or a field, {{.spec.x}}"
        )),
    }
}

impl Template {
    /// Whether it names a variable.
    pub(crate) fn uses(&self, variable: Variable) -> bool {
        let uses =
            |part: &Part| matches!(part, Part::Variable(of) | Part::HashOf(of) if *of == variable);
        self.0.iter().any(uses)
    }

    /// Whether it names a field of the object.
    pub(crate) fn has_fields(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Field(_)))
    }

    /// Whether it has `{hash}`.
    pub(crate) fn has_hash(&self) -> bool {
        self.0.contains(&Part::Hash)
    }

    /// Fills it in. `each` changes every value that is filled in.
    ///
    /// # Errors
    /// The path of a field that is not there, or is no text, number or truth value.
    pub(crate) fn fill(
        &self,
        values: &Values<'_>,
        each: &mut dyn FnMut(&str) -> String,
    ) -> Result<String, String> {
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Variable(variable) => filled.push_str(&each(values.of(*variable))),
                Part::Hash => filled.push_str(values.hash),
                Part::HashOf(variable) => {
                    filled.push_str(&digest([values.of(*variable)], HASH));
                }
                Part::Field(path) => {
                    let found = path.find(values.object);
                    let text = found.first().and_then(|value| text_of(value));
                    filled.push_str(&each(&text.ok_or_else(|| path.to_string())?));
                }
            }
        }
        Ok(filled)
    }
}

/// A text, a number or a truth value as text.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

impl Values<'_> {
    fn of(&self, variable: Variable) -> &str {
        match variable {
            Variable::Cluster => &self.facts.cluster,
            Variable::LogicalCluster => &self.facts.logical_cluster,
            Variable::Path => &self.facts.path,
            Variable::Namespace => &self.facts.namespace,
            Variable::Name => &self.facts.name,
            Variable::Value => self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(text: &str) -> Template {
        Template::try_from(text.to_owned()).unwrap()
    }

    fn filled(text: &str) -> Result<String, String> {
        let facts = Facts {
            cluster: "c".into(),
            logical_cluster: "l".into(),
            path: "root:p".into(),
            namespace: "ns".into(),
            name: "n".into(),
        };
        let values = Values {
            facts: &facts,
            object: &json!({"spec": {"region": "eu", "port": 80, "list": []}}),
            value: "v",
            hash: "h",
        };
        template(text).fill(&values, &mut str::to_owned)
    }

    #[test]
    fn a_template_is_filled_in() {
        let all = "{cluster}.{logicalCluster}.{path}.{namespace}.{name}.{value}.{hash}";
        assert_eq!(filled(all).unwrap(), "c.l.root:p.ns.n.v.h");
        assert_eq!(filled("{.spec.region}-{.spec.port}").unwrap(), "eu-80");
        assert_eq!(filled("{{name}}").unwrap(), "{name}");
        assert_eq!(filled("{hash(name)}").unwrap(), digest(["n"], HASH));
        assert_eq!(filled("{.spec.absent}").unwrap_err(), "spec.absent");
        assert_eq!(filled("{.spec.list}").unwrap_err(), "spec.list");
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for text in ["{nam}", "{name", "name}", "{hash(x)}", "{.}", "{}"] {
            assert!(Template::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert!(template("{hash(path)}").uses(Variable::Path));
        assert!(template("{.a}-{hash}").has_fields() && template("{.a}-{hash}").has_hash());
    }
}
