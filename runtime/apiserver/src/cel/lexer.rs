//! A text cut into [`Token`]s.

use super::syntax::Literal;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Literal(Literal),
    Ident(String),
    /// Operators and brackets.
    Symbol(&'static str),
}

/// Longer ones first.
const SYMBOLS: [&str; 28] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")",
    "[", "]", "{", "}", ".", ",", "=", "&", "|", ";",
];

/// # Errors
/// The byte at which no token begins.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if text[at..].starts_with("//") {
            at += text[at..].find('\n').unwrap_or(text.len() - at);
            continue;
        }
        let (token, length) = token(&text[at..])
            .ok_or_else(|| format!("token recognition error at position {}", at + 1))?;
        tokens.push((at, token));
        at += length;
    }
    Ok(tokens)
}

fn token(text: &str) -> Option<(Token, usize)> {
    if let Some((literal, length)) = quoted(text) {
        return Some((Token::Literal(literal), length));
    }
    let first = text.chars().next()?;
    let second_is_digit = text.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if first.is_ascii_digit() || (first == '.' && second_is_digit) {
        let (literal, length) = number(text)?;
        return Some((Token::Literal(literal), length));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let end = text
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(text.len());
        let token = match &text[..end] {
            "true" => Token::Literal(Literal::Bool(true)),
            "false" => Token::Literal(Literal::Bool(false)),
            "null" => Token::Literal(Literal::Null),
            name => Token::Ident(name.to_owned()),
        };
        return Some((token, end));
    }
    if first == '`' {
        let end = text[1..].find('`')? + 1;
        return Some((Token::Ident(text[1..end].to_owned()), end + 1));
    }
    let symbol = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol))?;
    Some((Token::Symbol(symbol), symbol.len()))
}

fn number(text: &str) -> Option<(Literal, usize)> {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex
            .find(|letter: char| !letter.is_ascii_hexdigit())
            .unwrap_or(hex.len());
        if hex[end..].starts_with(['u', 'U']) {
            return Some((
                Literal::Uint(u64::from_str_radix(&hex[..end], 16).ok()?),
                end + 3,
            ));
        }
        return Some((
            Literal::Int(i64::from_str_radix(&hex[..end], 16).ok()?),
            end + 2,
        ));
    }
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let whole = digits(0);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    if end > whole {
        return Some((Literal::Double(text[..end].parse().ok()?), end));
    }
    if matches!(bytes.get(end), Some(b'u' | b'U')) {
        return Some((Literal::Uint(text[..end].parse().ok()?), end + 1));
    }
    // The largest negative number is one more than the largest number: the parser puts the sign to it.
    let number: u64 = text[..end].parse().ok()?;
    let literal = i64::try_from(number).map_or(Literal::Uint(number), Literal::Int);
    Some((literal, end))
}

/// A text or bytes, with the prefixes `r` and `b` in any order.
fn quoted(text: &str) -> Option<(Literal, usize)> {
    let prefix = text
        .find(|letter: char| !matches!(letter, 'r' | 'R' | 'b' | 'B'))
        .filter(|length| *length <= 2)?;
    let (marks, rest) = text.split_at(prefix);
    let quote = ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|quote| rest.starts_with(quote))?;
    let raw = marks.contains(['r', 'R']);
    let bytes = marks.contains(['b', 'B']);
    let mut content: Vec<u8> = Vec::new();
    let mut at = quote.len();
    loop {
        let left = &rest[at..];
        if left.starts_with(quote) {
            at += quote.len();
            break;
        }
        let letter = left.chars().next()?;
        if letter == '\n' && quote.len() == 1 {
            return None;
        }
        if letter == '\\' && !raw {
            at += 1 + escape(&left[1..], bytes, &mut content)?;
            continue;
        }
        content.extend(letter.to_string().bytes());
        at += letter.len_utf8();
    }
    let literal = if bytes {
        Literal::Bytes(content)
    } else {
        Literal::Text(String::from_utf8(content).ok()?)
    };
    Some((literal, prefix + at))
}

/// Adds what an escape stands for and returns its length.
fn escape(text: &str, bytes: bool, content: &mut Vec<u8>) -> Option<usize> {
    let simple = match text.chars().next()? {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        letter @ ('\\' | '\'' | '"' | '`' | '?') => u8::try_from(letter).ok()?,
        letter => {
            let (skip, length, radix) = match letter {
                'x' | 'X' => (1, 2, 16),
                'u' => (1, 4, 16),
                'U' => (1, 8, 16),
                '0'..='3' => (0, 3, 8),
                _ => return None,
            };
            let code = u32::from_str_radix(text.get(skip..skip + length)?, radix).ok()?;
            match u8::try_from(code) {
                Ok(byte) if bytes => content.push(byte),
                _ => content.extend(char::from_u32(code)?.to_string().bytes()),
            }
            return Some(skip + length);
        }
    };
    content.push(simple);
    Some(1)
}
