//! A small JSON reader for serde. Entry point: [`from_str`].
//!
//! Every guest contains its reader, and a guest may be limited to a few dozen kilobytes. This reader has a third of the size of
//! `serde_json`'s: it has one error type, one kind of input and one way to read a struct. It accepts the same texts, with
//! two exceptions: an array is never read as a struct, and `serde_json::value::RawValue` is not supported.
//! `serde_json` writes JSON.

mod access;
mod fault;
mod number;

pub(crate) use fault::Fault;

use access::{Items, Variant};
use number::Number;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::borrow::Cow;

/// The deepest nesting that is read; deeper nesting would overflow the stack.
const DEPTH: u8 = 128;

/// Reads a whole text.
pub(crate) fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Fault> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: DEPTH,
    };
    match T::deserialize(&mut reader) {
        Ok(value) => reader.end().map(|()| value),
        Err(fault) => Err(fault),
    }
    .map_err(|fault| fault.at(reader.at))
}

/// The text, and how far it was read.
struct Reader<'de> {
    text: &'de str,
    /// In bytes; never beyond the end.
    at: usize,
    /// How many more containers may be nested.
    depth: u8,
}

impl<'de> Reader<'de> {
    /// The next byte that is not white space; 0 at the end, which no JSON holds.
    #[inline(never)]
    fn peek(&mut self) -> u8 {
        loop {
            match self.here() {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return byte,
            }
        }
    }

    /// The next byte, white space or not; 0 at the end.
    fn here(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Takes the next byte, white space or not; 0 at the end.
    fn byte(&mut self) -> u8 {
        let byte = self.here();
        self.at += usize::from(self.at < self.text.len());
        byte
    }

    /// Takes this byte, and nothing else.
    #[inline(never)]
    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek() == byte {
            self.at += 1;
            return Ok(());
        }
        Err(Fault::new(match byte {
            b':' => "expected `:`",
            b',' => "expected `,` or the end of a list or map",
            b'"' => "expected a string",
            b'[' => "expected a list",
            b'{' => "expected a map",
            b']' => "expected the end of a list",
            _ => "expected the end of a map",
        }))
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.peek();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(Fault::new("expected the end"))
        }
    }

    #[inline(never)]
    fn literal(&mut self, word: &'static str) -> Result<(), Fault> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(Fault::new("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn flag(&mut self) -> Result<bool, Fault> {
        match self.peek() {
            b't' => self.literal("true").map(|()| true),
            b'f' => self.literal("false").map(|()| false),
            _ => Err(Fault::new("expected true or false")),
        }
    }

    /// A string; borrowed unless it holds escapes.
    #[inline(never)]
    fn string(&mut self) -> Result<Cow<'de, str>, Fault> {
        self.expect(b'"')?;
        let mut start = self.at;
        let mut unescaped = String::new();
        loop {
            self.at = plain_end(self.text.as_bytes(), self.at);
            match self.byte() {
                b'"' => {
                    let piece = self.text.get(start..self.at - 1).unwrap_or_default();
                    if unescaped.is_empty() {
                        return Ok(Cow::Borrowed(piece));
                    }
                    unescaped.push_str(piece);
                    return Ok(Cow::Owned(unescaped));
                }
                b'\\' => {
                    unescaped.push_str(self.text.get(start..self.at - 1).unwrap_or_default());
                    unescaped.push(self.escape()?);
                    start = self.at;
                }
                _ => {
                    return Err(Fault::new(
                        "a string that does not end, or a control character in it",
                    ));
                }
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, Fault> {
        let escaped = match self.byte() {
            byte @ (b'"' | b'\\' | b'/') => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                let code = if first & 0xfc00 == 0xd800 {
                    self.literal("\\u")
                        .map_err(|_| Fault::new("half of a surrogate pair"))?;
                    let second = self.hex()?.wrapping_sub(0xdc00);
                    if second >= 0x400 {
                        return Err(Fault::new("half of a surrogate pair"));
                    }
                    0x10000 + ((first - 0xd800) << 10) + second
                } else {
                    first
                };
                return char::from_u32(code).ok_or_else(|| Fault::new("half of a surrogate pair"));
            }
            _ => return Err(Fault::new("an unknown escape")),
        };
        Ok(escaped)
    }

    /// The string at this place, for an error.
    #[cold]
    #[inline(never)]
    fn name_at(&self, at: usize) -> String {
        let mut reader = Reader { at, ..*self };
        reader.string().unwrap_or_default().into_owned()
    }

    fn hex(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = char::from(self.byte()).to_digit(16);
            code = code * 16 + digit.ok_or_else(|| Fault::new("expected a hexadecimal digit"))?;
        }
        Ok(code)
    }

    /// Reads over a value of any kind.
    fn skip(&mut self) -> Result<(), Fault> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b'n' => self.literal("null"),
            b't' | b'f' => self.flag().map(drop),
            open @ (b'[' | b'{') => {
                let mut items = Items::enter(self, open)?;
                while items.next()? {
                    if open == b'{' {
                        items.reader.string()?;
                        items.reader.expect(b':')?;
                    }
                    items.reader.skip()?;
                }
                Ok(())
            }
            _ => number::read(self).map(drop),
        }
    }
}

/// Where a string's plain text ends, from `at` on: at a quote, a backslash, a control character or the end of the text.
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    // Most of an object is text that nobody asks for: eight bytes at a time.
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = is_zero(word ^ (ONES * u64::from(b'"')));
        let backslash = is_zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        // The lowest flag is exact; those above it may be carries.
        let stops = (quote | backslash | control) & HIGH;
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default().iter();
    at + rest
        .take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20))
        .count()
}

fn visit_string<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Fault> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

/// A method for each type of number. It passes the number of the text on, and the visitor checks whether it fits.
macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match number::read(self)? {
                Number::Unsigned(number) => visitor.visit_u64(number),
                Number::Negative(number) => visitor.visit_i64(number),
                Number::Float(number) => visitor.visit_f64(number),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.peek() {
            b'"' => visit_string(self.string()?, visitor),
            b'{' => self.deserialize_map(visitor),
            b'[' => self.deserialize_seq(visitor),
            b'n' => self.deserialize_unit(visitor),
            b't' | b'f' => self.deserialize_bool(visitor),
            _ => self.deserialize_f64(visitor),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bool(self.flag()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visit_string(self.string()?, visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visit_string(self.string()?, visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visit_string(self.string()?, visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visit_string(self.string()?, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.peek() == b'n' {
            self.literal("null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.peek();
        self.literal("null")?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut items = Items::enter(self, b'[')?;
        let value = visitor.visit_seq(&mut items)?;
        items.leave().map(|()| value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut items = Items::enter(self, b'{')?;
        let value = visitor.visit_map(&mut items)?;
        items.leave().map(|()| value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if self.peek() == b'"' {
            return visitor.visit_enum(Variant(self));
        }
        let mut items = Items::enter(self, b'{')?;
        if !items.next()? {
            return Err(Fault::new("expected the name of a variant"));
        }
        let value = visitor.visit_enum(Variant(items.reader))?;
        items.leave().map(|()| value)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { bytes byte_buf }
}

#[cfg(test)]
mod tests;
