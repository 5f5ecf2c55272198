//! The contents of a list, a map and a variant. Entry points: [`Items`] and [`Variant`].

use super::{Fault, Reader, visit_string};
use serde::de::value::CowStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// A list or a map that was entered.
pub(super) struct Items<'a, 'de> {
    pub(super) reader: &'a mut Reader<'de>,
    close: u8,
    /// How many items were begun: the next one follows a comma.
    begun: usize,
    /// Where the name of the last field begins.
    name: usize,
    /// Whether the end was read.
    ended: bool,
}

impl<'a, 'de> Items<'a, 'de> {
    pub(super) fn enter(reader: &'a mut Reader<'de>, open: u8) -> Result<Self, Fault> {
        reader.expect(open)?;
        let depth = reader.depth.checked_sub(1);
        reader.depth = depth.ok_or_else(|| Fault::new("lists and maps nested too deep"))?;
        Ok(Self {
            reader,
            close: open + 2, // [ \ ] and { | }
            begun: 0,
            name: 0,
            ended: false,
        })
    }

    /// Goes to the next item; `false` after the last.
    pub(super) fn next(&mut self) -> Result<bool, Fault> {
        if self.reader.peek() == self.close {
            self.leave()?;
            return Ok(false);
        }
        if self.begun > 0 {
            self.reader.expect(b',')?;
        }
        self.begun += 1;
        Ok(true)
    }

    /// Reads the end, unless it was read; unread items are an error.
    pub(super) fn leave(&mut self) -> Result<(), Fault> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        self.reader.depth += 1;
        self.reader.expect(self.close)
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        if self.ended || !self.next()? {
            return Ok(None);
        }
        let item = seed.deserialize(&mut *self.reader);
        item.map(Some)
            .map_err(|fault| fault.within(format!("[{}]", self.begun - 1)))
    }
}

impl<'de> MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        if self.ended || !self.next()? {
            return Ok(None);
        }
        self.reader.peek();
        self.name = self.reader.at;
        seed.deserialize(Key(self.reader)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        self.reader.expect(b':')?;
        let value = seed.deserialize(&mut *self.reader);
        value.map_err(|fault| fault.within(self.reader.name_at(self.name)))
    }
}

/// A key: always a string, which may contain a number or a boolean.
struct Key<'a, 'de>(&'a mut Reader<'de>);

macro_rules! quoted {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.0.expect(b'"')?;
            let value = self.0.$method(visitor)?;
            self.0.expect(b'"').map(|()| value)
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visit_string(self.0.string()?, visitor)
    }

    quoted! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64 deserialize_bool
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let name: CowStrDeserializer<'_, Fault> = CowStrDeserializer::new(self.0.string()?);
        visitor.visit_enum(name)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A variant: its name alone, or its name, a colon and its contents.
pub(super) struct Variant<'a, 'de>(pub(super) &'a mut Reader<'de>);

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let name = seed.deserialize(&mut *self.0)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        if self.0.peek() == b':' {
            self.0.expect(b':')?;
            return serde::Deserialize::deserialize(self.0);
        }
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        self.0.expect(b':')?;
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.0.expect(b':')?;
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.0.expect(b':')?;
        self.0.deserialize_map(visitor)
    }
}
