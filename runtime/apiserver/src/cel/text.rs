//! Functions of texts, and the named formats.

use regex::Regex;

use super::Failure;
use super::call::shown;
use super::value::Val;

type Outcome<'a> = Result<Val<'a>, Failure>;

/// Named formats: what is measured, the longest allowed, the form, and what a server says of others.
const FORMATS: [(&str, usize, &str); 11] = [
    ("dns1123Label", 63, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
    (
        "dns1123Subdomain",
        253,
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    ),
    ("dns1035Label", 63, "^[a-z]([-a-z0-9]*[a-z0-9])?$"),
    (
        "qualifiedName",
        317,
        r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    ),
    ("dns1123LabelPrefix", 63, "^[a-z0-9]([-a-z0-9]*)$"),
    ("dns1123SubdomainPrefix", 253, r"^[a-z0-9]([-a-z0-9.]*)$"),
    ("dns1035LabelPrefix", 63, "^[a-z]([-a-z0-9]*)$"),
    (
        "labelValue",
        63,
        "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    ),
    ("uri", 2048, "^[a-zA-Z][a-zA-Z0-9+.-]*:.+$"),
    (
        "uuid",
        36,
        "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
    ),
    (
        "datetime",
        64,
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
    ),
];

/// `None` where the function is none of texts.
pub(super) fn call<'a>(name: &str, all: &[Val<'a>]) -> Option<Outcome<'a>> {
    if let Some(format) = name.strip_prefix("format.") {
        let name = match all {
            [] => format,
            [Val::Text(name)] => name,
            _ => return None,
        };
        let found = FORMATS.iter().find(|(known, ..)| *known == name);
        return found.map(|(name, ..)| Ok(Val::Format(name)));
    }
    if let ("validate", [Val::Format(format), Val::Text(text)]) = (name, all) {
        return Some(validate(format, text));
    }
    let texts: Option<Vec<&str>> = all.iter().map(Val::as_text).collect();
    if let Some(outcome) = texts.and_then(|texts| of_texts(name, &texts)) {
        return Some(outcome);
    }
    Some(match (name, all) {
        ("charAt", [Val::Text(text), Val::Int(at)]) => {
            let letters: Vec<char> = text.chars().collect();
            position(*at, letters.len())
                .map(|at| Val::text(letters.get(at).map(char::to_string).unwrap_or_default()))
        }
        ("indexOf" | "lastIndexOf", [Val::Text(text), Val::Text(part), Val::Int(from)]) => {
            let size = text.chars().count();
            position(*from, size)
                .map(|from| Val::Int(index(text, part, name == "lastIndexOf", Some(from))))
        }
        ("substring", [Val::Text(text), Val::Int(from)]) => part(text, *from, None),
        ("substring", [Val::Text(text), Val::Int(from), Val::Int(to)]) => {
            part(text, *from, Some(*to))
        }
        (
            "replace",
            [
                Val::Text(text),
                Val::Text(from),
                Val::Text(to),
                Val::Int(limit),
            ],
        ) => {
            let replaced = match usize::try_from(*limit) {
                Ok(limit) => text.replacen(&**from, to, limit),
                Err(_) => text.replace(&**from, to),
            };
            Ok(Val::text(replaced))
        }
        ("split", [Val::Text(text), Val::Text(by), Val::Int(limit)]) => {
            Ok(match usize::try_from(*limit) {
                Ok(limit) => texts_of(text.splitn(limit, &**by)),
                Err(_) => split(text, by),
            })
        }
        ("findAll", [Val::Text(text), Val::Text(pattern), Val::Int(limit)]) => {
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            regex(pattern).map(|regex| {
                texts_of(
                    regex
                        .find_iter(text)
                        .take(limit)
                        .map(|found| found.as_str()),
                )
            })
        }
        ("format", [Val::Text(text), values]) => match values.items() {
            Some(values) => format(text, &values),
            None => return None,
        },
        _ => return None,
    })
}

fn of_texts<'a>(name: &str, texts: &[&str]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, texts) {
        ("contains", [text, part]) => Val::Bool(text.contains(part)),
        ("startsWith", [text, part]) => Val::Bool(text.starts_with(part)),
        ("endsWith", [text, part]) => Val::Bool(text.ends_with(part)),
        ("matches", [text, pattern]) => {
            return Some(regex(pattern).map(|regex| Val::Bool(regex.is_match(text))));
        }
        ("find", [text, pattern]) => {
            let found = |regex: Regex| regex.find(text).map(|found| found.as_str().to_owned());
            return Some(regex(pattern).map(|regex| Val::text(found(regex).unwrap_or_default())));
        }
        ("findAll", [text, pattern]) => {
            return Some(
                regex(pattern)
                    .map(|regex| texts_of(regex.find_iter(text).map(|found| found.as_str()))),
            );
        }
        ("indexOf", [text, part]) => Val::Int(index(text, part, false, None)),
        ("lastIndexOf", [text, part]) => Val::Int(index(text, part, true, None)),
        ("lowerAscii", [text]) => Val::text(text.to_ascii_lowercase()),
        ("upperAscii", [text]) => Val::text(text.to_ascii_uppercase()),
        ("trim", [text]) => Val::text(text.trim()),
        ("quote" | "strings.quote", [text]) => Val::text(format!("{text:?}")),
        ("replace", [text, from, to]) => Val::text(text.replace(from, to)),
        ("split", [text, by]) => split(text, by),
        _ => return None,
    }))
}

fn texts_of<'a, 't>(texts: impl Iterator<Item = &'t str>) -> Val<'a> {
    Val::list(texts.map(Val::text).collect())
}

/// An empty separator parts letters, without the empty texts that Rust has around them.
fn split<'a>(text: &str, by: &str) -> Val<'a> {
    if by.is_empty() {
        return Val::list(
            text.chars()
                .map(|letter| Val::text(letter.to_string()))
                .collect(),
        );
    }
    texts_of(text.split(by))
}

pub(super) fn regex(pattern: &str) -> Result<Regex, Failure> {
    Regex::new(pattern).map_err(|_| Failure::new(format!("{pattern:?} is no regular expression")))
}

fn position(at: i64, size: usize) -> Result<usize, Failure> {
    usize::try_from(at)
        .ok()
        .filter(|at| *at <= size)
        .ok_or_else(|| Failure::new(format!("index out of range: {at}")))
}

fn part<'a>(text: &str, from: i64, to: Option<i64>) -> Outcome<'a> {
    let letters: Vec<char> = text.chars().collect();
    let from = position(from, letters.len())?;
    let to = to.map_or(Ok(letters.len()), |to| position(to, letters.len()))?;
    letters
        .get(from..to)
        .map(|letters| Val::text(letters.iter().collect::<String>()))
        .ok_or_else(|| Failure::new("invalid substring range"))
}

/// Counted in letters; -1 where there is none.
fn index(text: &str, part: &str, last: bool, bound: Option<usize>) -> i64 {
    let letters: Vec<char> = text.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let most = letters.len().checked_sub(part.len());
    let fits = |at: &usize| letters[*at..*at + part.len()] == part[..];
    let found = most.and_then(|most| {
        if last {
            (0..=bound.unwrap_or(most).min(most)).rev().find(fits)
        } else {
            (bound.unwrap_or_default()..=most).find(fits)
        }
    });
    found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)
}

/// `%s`, `%d`, `%f`, `%.2f` and `%%`.
fn format<'a>(text: &str, values: &[Val<'a>]) -> Outcome<'a> {
    let mut values = values.iter();
    let mut pieces = text.split('%');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    while let Some(piece) = pieces.next() {
        if piece.is_empty() {
            out.push('%');
            out.push_str(pieces.next().unwrap_or_default());
            continue;
        }
        let verb = piece.find(|letter: char| letter.is_ascii_alphabetic());
        let (Some(verb), Some(value)) = (verb, values.next()) else {
            return Err(Failure::new("a verb or a value of format() is missing"));
        };
        let places = piece[..verb]
            .strip_prefix('.')
            .and_then(|places| places.parse().ok());
        let written = match (piece[verb..].chars().next(), value.double()) {
            (Some('f'), Some(number)) => format!("{number:.*}", places.unwrap_or(6)),
            (Some('s' | 'd'), _) => shown(value),
            _ => return Err(Failure::new("format() knows %s, %d and %f here")),
        };
        out.push_str(&written);
        out.push_str(&piece[verb + 1..]);
    }
    Ok(Val::text(out))
}

fn validate<'a>(format: &str, text: &str) -> Outcome<'a> {
    let Some((name, most, pattern)) = FORMATS.iter().find(|(name, ..)| *name == format) else {
        return Err(Failure::new("no such format"));
    };
    if text.len() <= *most && regex(pattern)?.is_match(text) {
        return Ok(Val::Optional(None));
    }
    let finding = Val::text(format!("{text:?} is no {name}"));
    Ok(Val::optional(Some(Val::list(vec![finding]))))
}
