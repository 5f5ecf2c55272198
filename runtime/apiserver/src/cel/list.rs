//! Functions of lists and sets.

use std::cmp::Ordering;

use super::Failure;
use super::call::shown;
use super::value::Val;

type Outcome<'a> = Result<Val<'a>, Failure>;

/// `None` where the function is none of lists.
pub(super) fn call<'a>(name: &str, all: &[Val<'a>]) -> Option<Outcome<'a>> {
    let items = all.first()?.items()?;
    if let Some(name) = name.strip_prefix("sets.") {
        let other = all.get(1)?.items()?;
        let within = |one: &[Val<'a>], other: &[Val<'a>]| one.iter().all(|item| has(other, item));
        return Some(Ok(Val::Bool(match name {
            "contains" => within(&other, &items),
            "equivalent" => within(&other, &items) && within(&items, &other),
            _ => items.iter().any(|item| has(&other, item)),
        })));
    }
    let position =
        |at: Option<usize>| Val::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1));
    Some(match (name, &all[1..]) {
        ("join", rest) => {
            let between = rest.first().and_then(Val::as_text).unwrap_or_default();
            let texts: Option<Vec<&str>> = items.iter().map(Val::as_text).collect();
            Ok(Val::text(texts?.join(between)))
        }
        ("isSorted", []) => {
            let pairs = items.windows(2);
            Ok(Val::Bool(pairs.into_iter().all(|pair| {
                pair[0].compare(&pair[1]) != Some(Ordering::Greater)
            })))
        }
        ("sum", []) => sum(&items),
        ("min" | "max", []) => extreme(&items, name == "max"),
        ("indexOf", [item]) => Ok(position(items.iter().position(|one| one.equals(item)))),
        ("lastIndexOf", [item]) => Ok(position(items.iter().rposition(|one| one.equals(item)))),
        _ => return None,
    })
}

fn has(items: &[Val<'_>], item: &Val<'_>) -> bool {
    items.iter().any(|one| one.equals(item))
}

fn sum<'a>(items: &[Val<'a>]) -> Outcome<'a> {
    let mut total = 0_i64;
    for item in items {
        match item {
            Val::Int(number) => {
                total = total
                    .checked_add(*number)
                    .ok_or_else(|| Failure::new("integer overflow"))?;
            }
            _ => {
                let numbers: Option<Vec<f64>> = items.iter().map(Val::double).collect();
                let numbers = numbers.ok_or_else(|| Failure::new("no such overload: sum"))?;
                return Ok(Val::Double(numbers.iter().sum()));
            }
        }
    }
    Ok(Val::Int(total))
}

fn extreme<'a>(items: &[Val<'a>], most: bool) -> Outcome<'a> {
    let mut found = items
        .first()
        .cloned()
        .ok_or_else(|| Failure::new("min or max of an empty list"))?;
    for item in items {
        let order = item.compare(&found).ok_or_else(|| {
            Failure::new(format!(
                "cannot compare {} and {}",
                shown(item),
                shown(&found)
            ))
        })?;
        if order
            == if most {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        {
            found = item.clone();
        }
    }
    Ok(found)
}
