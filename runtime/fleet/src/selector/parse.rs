//! The grammar of label selectors. Entry point: [`parse`].

use super::label::{Requirement, Test};
use std::collections::BTreeSet;

type Result<T> = std::result::Result<T, String>;

/// A token of a selector. `in` and `notin` are words: they are operators only behind a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Comma,
    Open,
    Close,
    Equal,
    NotEqual,
    Not,
}

/// Reads requirements separated by commas; the blank text has none.
pub(super) fn parse(selector: &str) -> Result<Vec<Requirement>> {
    let tokens = tokens(selector)?;
    let mut rest = &tokens[..];
    let mut requirements = Vec::new();
    if rest.is_empty() {
        return Ok(requirements);
    }
    loop {
        requirements.push(requirement(&mut rest)?);
        match rest.split_first() {
            None => return Ok(requirements),
            Some((Token::Comma, after)) => rest = after,
            Some((token, _)) => return Err(format!("expected ',' before {}", token.describe())),
        }
    }
}

fn tokens(selector: &str) -> Result<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = selector.trim_start();
    while let Some(c) = rest.chars().next() {
        let (token, length) = match c {
            ',' => (Token::Comma, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '=' => (Token::Equal, if rest.starts_with("==") { 2 } else { 1 }),
            '!' if rest.starts_with("!=") => (Token::NotEqual, 2),
            '!' => (Token::Not, 1),
            '<' | '>' => {
                return Err(format!(
                    "{c:?} is not supported: use =, !=, in, notin, a key, or ! and a key"
                ));
            }
            _ => {
                let end = rest
                    .find(|c: char| c.is_ascii_whitespace() || "=!(),<>".contains(c))
                    .unwrap_or(rest.len());
                (Token::Word(&rest[..end]), end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

impl Token<'_> {
    fn describe(self) -> String {
        match self {
            Self::Word(word) => format!("{word:?}"),
            Self::Comma => "','".to_owned(),
            Self::Open => "'('".to_owned(),
            Self::Close => "')'".to_owned(),
            Self::Equal => "'='".to_owned(),
            Self::NotEqual => "'!='".to_owned(),
            Self::Not => "'!'".to_owned(),
        }
    }
}

fn requirement(rest: &mut &[Token<'_>]) -> Result<Requirement> {
    let absent = matches!(rest.first(), Some(Token::Not));
    if absent {
        *rest = &rest[1..];
    }
    let Some((Token::Word(key), after)) = rest.split_first() else {
        return Err(format!(
            "expected a label's key{}",
            rest.first().map_or(String::new(), |token| format!(
                " before {}",
                token.describe()
            ))
        ));
    };
    *rest = after;
    validate_key(key)?;
    let test = match rest.first() {
        None | Some(Token::Comma) if absent => Test::Absent,
        _ if absent => return Err(format!("expected ',' or the end after !{key}")),
        None | Some(Token::Comma) => Test::Exists,
        Some(Token::Equal) => Test::In(exact(rest)?),
        Some(Token::NotEqual) => Test::NotIn(exact(rest)?),
        Some(Token::Word("in")) => Test::In(set(rest)?),
        Some(Token::Word("notin")) => Test::NotIn(set(rest)?),
        Some(token) => {
            return Err(format!(
                "expected =, ==, !=, in, notin or ',' after {key:?}, found {}",
                token.describe()
            ));
        }
    };
    Ok(Requirement {
        key: (*key).into(),
        test,
    })
}

/// The value behind an operator; empty if there is none.
fn exact(rest: &mut &[Token<'_>]) -> Result<BTreeSet<Box<str>>> {
    *rest = &rest[1..];
    let value = match rest.first() {
        Some(Token::Word(value)) => {
            *rest = &rest[1..];
            *value
        }
        None | Some(Token::Comma) => "",
        Some(token) => return Err(format!("expected a value, found {}", token.describe())),
    };
    validate_value(value)?;
    Ok([value.into()].into())
}

/// The values in parentheses behind `in` or `notin`; there may be an empty value between two commas.
fn set(rest: &mut &[Token<'_>]) -> Result<BTreeSet<Box<str>>> {
    let open = "expected values in parentheses after in and notin";
    *rest = match rest {
        [_, Token::Open, Token::Close, ..] => {
            return Err("in and notin need at least one value".to_owned());
        }
        [_, Token::Open, after @ ..] => after,
        _ => return Err(open.to_owned()),
    };
    let mut values = BTreeSet::new();
    let mut value = "";
    loop {
        let Some((token, after)) = rest.split_first() else {
            return Err("expected ')'".to_owned());
        };
        *rest = after;
        match token {
            Token::Word(word) if value.is_empty() => {
                validate_value(word)?;
                value = word;
            }
            Token::Comma => drop(values.insert(std::mem::take(&mut value).into())),
            Token::Close => {
                values.insert(value.into());
                return Ok(values);
            }
            token => return Err(format!("expected ',' or ')' before {}", token.describe())),
        }
    }
}

/// Whether a text is made of letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
    ends && bytes
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Whether a text is a DNS subdomain.
fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(plain)
            && bytes.last().is_some_and(plain)
            && bytes.iter().all(|b| plain(b) || *b == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Fails unless a text can be the key of a label: a name of at most 63 bytes, behind an optional DNS prefix and a slash.
fn validate_key(key: &str) -> Result<()> {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if name.len() <= 63 && is_name(name) && prefix.is_none_or(is_subdomain) {
        return Ok(());
    }
    Err(format!(
        "{:?} is not a label's key: use an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' and '.'",
        key.chars().take(320).collect::<String>()
    ))
}

/// Fails unless a text can be the value of a label: empty, or a name of at most 63 bytes.
fn validate_value(value: &str) -> Result<()> {
    if value.is_empty() || value.len() <= 63 && is_name(value) {
        return Ok(());
    }
    Err(format!(
        "{:?} is not a label's value: use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
        value.chars().take(80).collect::<String>()
    ))
}
