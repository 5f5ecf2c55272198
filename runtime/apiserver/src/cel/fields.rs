//! Names that a rule uses and that are not there: [`check`]. A server finds them when it checks the types of a rule; here only what is
//! reached from a variable by fields, indexes and loops is looked at, which is where a misspelt name makes a rule pass in silence.

use super::syntax::{Expr, Loop};
use super::value::unescaped;
use crate::schema::{Kind, Schema};

/// Variables with the schemas of their values, where these are known.
pub(super) type Scope<'a> = Vec<(String, Option<Schema<'a>>)>;

/// The names of types are values too.
pub(super) const TYPES: [&str; 10] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
];

/// Returns the schema of the expression's value, if it is known.
///
/// # Errors
/// The first name that is not there.
pub(super) fn check<'a>(expr: &Expr, scope: &mut Scope<'a>) -> Result<Option<Schema<'a>>, String> {
    match expr {
        Expr::Literal(_) => Ok(None),
        Expr::Ident(name) => match scope.iter().rev().find(|(known, _)| known == name) {
            Some((_, schema)) => Ok(*schema),
            None if TYPES.contains(&name.as_str()) => Ok(None),
            None => Err(format!("undeclared reference to '{name}'")),
        },
        Expr::Select { of, field, .. } => match check(of, scope)? {
            Some(schema) => select(schema, field),
            None => Ok(None),
        },
        Expr::Index { of, index, .. } => {
            check(index, scope)?;
            Ok(check(of, scope)?.and_then(element))
        }
        Expr::Call { target, args, .. } => {
            let parts = target.iter().map(|target| &**target).chain(args);
            all(parts, scope)
        }
        Expr::List(items) => all(items.iter(), scope),
        Expr::Map(entries) => all(entries.iter().flat_map(|(key, value)| [key, value]), scope),
        Expr::Not(of) | Expr::Negate(of) => all([&**of].into_iter(), scope),
        Expr::Binary(_, left, right) => all([&**left, &**right].into_iter(), scope),
        Expr::Condition(condition, yes, no) => {
            all([&**condition, &**yes, &**no].into_iter(), scope)
        }
        Expr::Loop {
            kind,
            over,
            variables,
            when,
            body,
        } => {
            let over = check(over, scope)?;
            let list = over.filter(|schema| schema.kind() == Kind::Array);
            let before = scope.len();
            match variables.as_slice() {
                [one] => scope.push((one.clone(), list.and_then(element))),
                [one, other] => {
                    scope.push((one.clone(), None));
                    scope.push((other.clone(), over.and_then(element)));
                }
                _ => {}
            }
            let inside = when.iter().map(|when| &**when).chain([&**body]);
            let outcome = all(inside, scope);
            scope.truncate(before);
            outcome?;
            Ok(list.filter(|_| *kind == Loop::Filter))
        }
        Expr::OptionalMap { of, name, body, .. } => {
            let schema = check(of, scope)?;
            scope.push((name.clone(), schema));
            let outcome = check(body, scope);
            scope.pop();
            outcome.map(|_| None)
        }
    }
}

fn all<'a, 'e>(
    mut parts: impl Iterator<Item = &'e Expr>,
    scope: &mut Scope<'a>,
) -> Result<Option<Schema<'a>>, String> {
    parts.try_for_each(|part| check(part, scope).map(drop))?;
    Ok(None)
}

/// Items of a list, and values of a map.
fn element(schema: Schema<'_>) -> Option<Schema<'_>> {
    if schema.kind() == Kind::Array {
        Some(schema.items())
    } else {
        schema.values()
    }
}

fn select<'a>(schema: Schema<'a>, field: &str) -> Result<Option<Schema<'a>>, String> {
    let implied = schema.embedded() && ["apiVersion", "kind", "metadata"].contains(&field);
    if schema.kind() != Kind::Object || implied {
        return Ok(None);
    }
    let found = schema
        .field(field)
        .or_else(|| schema.field(&unescaped(field)));
    found
        .map(Some)
        .ok_or_else(|| format!("undefined field '{field}'"))
}
