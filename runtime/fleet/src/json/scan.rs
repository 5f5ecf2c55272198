//! A cursor over JSON text that checks as it goes. Entry point: [`Scanner`].

use super::{JsonError, JsonProblem, MAX_DEPTH, MAX_LENGTH, Span};
use std::borrow::Cow;

type Result<T> = std::result::Result<T, JsonError>;

/// A string as it is spelled in the text, between its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    /// The text between the quotes.
    pub(crate) text: &'a str,
    /// The position of the opening quote.
    pub(crate) start: usize,
    escaped: bool,
}

impl<'a> Raw<'a> {
    /// Whether the string, once unescaped, is this one.
    pub(crate) fn is(&self, other: &str) -> bool {
        if self.escaped {
            unescape(self.text) == other
        } else {
            self.text == other
        }
    }

    /// The string, copied only if it has an escape.
    pub(crate) fn value(&self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(unescape(self.text))
        } else {
            Cow::Borrowed(self.text)
        }
    }
}

/// A cursor over JSON text. Every method leaves it behind what it consumed. After an error it must not be used.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    /// Validated as UTF-8 before, which is many times faster than while scanning.
    text: &'a str,
    /// Always at a character boundary: it only ever stops at ASCII bytes.
    at: usize,
    /// Objects and arrays that are open around the cursor.
    depth: u32,
}

impl<'a> Scanner<'a> {
    /// A cursor at the start of a text.
    pub(crate) fn new(text: &'a [u8]) -> Result<Self> {
        if text.len() > MAX_LENGTH {
            return Err(JsonError::new(JsonProblem::TooLong, MAX_LENGTH));
        }
        match std::str::from_utf8(text) {
            Ok(text) => Ok(Self::of(text)),
            Err(error) => Err(JsonError::new(JsonProblem::NotUtf8, error.valid_up_to())),
        }
    }

    /// A cursor at the start of a text that is known to be short enough.
    pub(crate) fn of(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// The cursor's position.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The text under the cursor.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Skips white space.
    pub(crate) fn space(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// The byte under the cursor.
    pub(crate) fn peek(&self) -> Result<u8> {
        self.text
            .as_bytes()
            .get(self.at)
            .copied()
            .ok_or_else(|| JsonError::new(JsonProblem::CutOff, self.at))
    }

    /// Fails unless nothing but white space is left.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.space();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(JsonError::syntax("the end of the text", self.at))
        }
    }

    /// Consumes an object, calling `member` for each key with the cursor at its value; `member` consumes the value.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Raw<'a>) -> Result<()>,
    ) -> Result<()> {
        self.open(b'{', "an object")?;
        if self.close(b'}')? {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            member(self, key)?;
            if !self.more(b'}', "',' or '}'")? {
                return Ok(());
            }
        }
    }

    /// Consumes an array, calling `element` with the cursor at each element; `element` consumes it.
    pub(crate) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.open(b'[', "an array")?;
        if self.close(b']')? {
            return Ok(());
        }
        loop {
            self.space();
            element(self)?;
            if !self.more(b']', "',' or ']'")? {
                return Ok(());
            }
        }
    }

    fn open(&mut self, byte: u8, expected: &'static str) -> Result<()> {
        if self.peek()? != byte {
            return Err(JsonError::syntax(expected, self.at));
        }
        if self.depth == MAX_DEPTH {
            return Err(JsonError::new(JsonProblem::TooDeep, self.at));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Consumes a bracket that closes at once.
    fn close(&mut self, byte: u8) -> Result<bool> {
        self.space();
        let closes = self.peek()? == byte;
        if closes {
            self.at += 1;
            self.depth -= 1;
        }
        Ok(closes)
    }

    /// Consumes what follows a member or element; false at the closing bracket.
    fn more(&mut self, closing: u8, expected: &'static str) -> Result<bool> {
        self.space();
        match self.peek()? {
            b',' => self.at += 1,
            byte if byte == closing => {
                self.at += 1;
                self.depth -= 1;
                return Ok(false);
            }
            _ => return Err(JsonError::syntax(expected, self.at)),
        }
        Ok(true)
    }

    /// Consumes a key, its colon and the white space around them.
    fn key(&mut self) -> Result<Raw<'a>> {
        self.space();
        let key = self.string()?;
        self.space();
        if self.peek()? != b':' {
            return Err(JsonError::syntax("':'", self.at));
        }
        self.at += 1;
        self.space();
        Ok(key)
    }

    /// Consumes a value of any type and returns its range.
    pub(crate) fn value(&mut self) -> Result<Span> {
        let start = self.at;
        self.skip()?;
        Ok(Span::new(start, self.at))
    }

    /// Consumes a value of any type.
    pub(crate) fn skip(&mut self) -> Result<()> {
        // A bit per open bracket, 1 for an object. It has as many bits as levels may nest, and needs no recursion.
        let mut objects: u128 = 0;
        let outside = self.depth;
        loop {
            match self.peek()? {
                b'{' => {
                    self.open(b'{', "an object")?;
                    if !self.close(b'}')? {
                        objects = objects << 1 | 1;
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.open(b'[', "an array")?;
                    if !self.close(b']')? {
                        objects <<= 1;
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            loop {
                if self.depth == outside {
                    return Ok(());
                }
                let more = if objects & 1 == 1 {
                    self.more(b'}', "',' or '}'")?
                } else {
                    self.more(b']', "',' or ']'")?
                };
                if more {
                    break;
                }
                objects >>= 1;
            }
            if objects & 1 == 1 {
                self.key()?;
            } else {
                self.space();
            }
        }
    }

    fn scalar(&mut self) -> Result<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'-' | b'0'..=b'9' => self.number().map(|_| ()),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => Err(JsonError::syntax("a value", self.at)),
        }
    }

    /// Consumes `true`, `false` or `null`.
    pub(crate) fn literal(&mut self, word: &'static str) -> Result<()> {
        let rest = &self.text.as_bytes()[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        if word.as_bytes().starts_with(rest) {
            return Err(JsonError::new(JsonProblem::CutOff, self.text.len()));
        }
        Err(JsonError::syntax("a value", self.at))
    }

    /// Consumes a number and returns its text.
    pub(crate) fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek().is_ok_and(|b| b == b'.') {
            self.at += 1;
            self.digits()?;
        }
        if self.peek().is_ok_and(|b| b == b'e' || b == b'E') {
            self.at += 1;
            if let b'+' | b'-' = self.peek()? {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<()> {
        if !self.peek()?.is_ascii_digit() {
            return Err(JsonError::syntax("a digit", self.at));
        }
        while self.peek().is_ok_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    /// Consumes a string.
    pub(crate) fn string(&mut self) -> Result<Raw<'a>> {
        let start = self.at;
        if self.peek()? != b'"' {
            return Err(JsonError::syntax("a string", self.at));
        }
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at = plain_end(self.text.as_bytes(), self.at);
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => {
                    return Err(JsonError::syntax(
                        "no control character in a string",
                        self.at,
                    ));
                }
            }
        }
        self.at += 1;
        Ok(Raw {
            text: &self.text[start + 1..self.at - 1],
            start,
            escaped,
        })
    }

    /// Consumes an escape sequence, both halves of a surrogate pair at once.
    fn escape(&mut self) -> Result<()> {
        let start = self.at;
        self.at += 1;
        let kind = self.peek()?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.hex()? {
                0xDC00..=0xDFFF => Err(JsonError::syntax("a whole surrogate pair", start)),
                0xD800..=0xDBFF => self.low_surrogate(start),
                _ => Ok(()),
            },
            _ => Err(JsonError::syntax("an escape sequence", start)),
        }
    }

    fn low_surrogate(&mut self, start: usize) -> Result<()> {
        for byte in [b'\\', b'u'] {
            if self.peek()? != byte {
                return Err(JsonError::syntax("a whole surrogate pair", start));
            }
            self.at += 1;
        }
        match self.hex()? {
            0xDC00..=0xDFFF => Ok(()),
            _ => Err(JsonError::syntax("a whole surrogate pair", start)),
        }
    }

    fn hex(&mut self) -> Result<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = char::from(self.peek()?).to_digit(16);
            unit = unit << 4
                | digit.ok_or_else(|| JsonError::syntax("a hexadecimal digit", self.at))?;
            self.at += 1;
        }
        Ok(unit)
    }
}

/// The first byte from `at` on that a string's plain run cannot have: a quote, a backslash or a control character.
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Eight bytes at a time; the lowest flag of each test is exact, those above it may be carries.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let backslash = zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let stops = (quote | backslash | control) & HIGH;
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes
        .get(at)
        .is_some_and(|b| !matches!(b, b'"' | b'\\' | 0..=0x1F))
    {
        at += 1;
    }
    at
}

/// Resolves the escapes of a string that has been scanned.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let length = match rest.as_bytes().get(at + 1) {
            Some(b'u') => {
                let (character, length) = unescape_unicode(&rest[at..]);
                plain.push(character);
                length
            }
            Some(other) => {
                plain.push(match other {
                    b'b' => '\u{8}',
                    b'f' => '\u{c}',
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    other => char::from(*other),
                });
                2
            }
            None => break,
        };
        rest = &rest[at + length..];
    }
    plain.push_str(rest);
    plain
}

/// Reads `\uXXXX`, or a pair of them, at the start of a text that has been scanned; returns the bytes read too.
fn unescape_unicode(text: &str) -> (char, usize) {
    let unit = |at: usize| {
        text.get(at..at + 4)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .unwrap_or(0xFFFD)
    };
    let first = unit(2);
    if !(0xD800..0xDC00).contains(&first) {
        return (
            char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER),
            6,
        );
    }
    let code = 0x10000 + ((first - 0xD800) << 10) + (unit(8).wrapping_sub(0xDC00) & 0x3FF);
    (
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
        12,
    )
}
