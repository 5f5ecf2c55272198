//! Reads DER, as far as certificates and timestamps need it. Entry point: [`Reader`].
//!
//! Nothing is copied, and every length is compared with what is there. What is damaged ends a reader.

/// Tags.
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const UTF8: u8 = 0x0c;
pub(super) const TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// What is left of the content of an element.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

/// A tag, its content, and all of its bytes.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) value: &'a [u8],
    pub(super) whole: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next element, if it has this tag.
    pub(super) fn element(&mut self, tag: u8) -> Option<Element<'a>> {
        let mut rest = *self;
        let element = rest.next().filter(|element| element.tag == tag)?;
        *self = rest;
        Some(element)
    }

    /// What is in the next element, if it has this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Self> {
        self.element(tag).map(|element| Self(element.value))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            ..=0x7f => (usize::from(first), rest),
            // A length of up to three bytes: nothing here is larger.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        // Tags of several bytes are in nothing that is read here.
        (tag & 0x1f != 0x1f).then_some(Element { tag, value, whole })
    }
}

/// An element of this tag and content.
pub(super) fn wrap(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = value.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let length = &length[zeros..];
    let mut bytes = vec![tag];
    match value.len() {
        // In one byte.
        ..=0x7f => bytes.push(length.first().copied().unwrap_or_default()),
        _ => {
            bytes.push(0x80 | u8::try_from(length.len()).unwrap_or_default());
            bytes.extend(length);
        }
    }
    bytes.extend(value);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_read_as_it_is_written() {
        for size in [0, 1, 127, 128, 255, 256, 70_000] {
            let (value, after) = (vec![7; size], wrap(INTEGER, &[1]));
            let bytes = [wrap(OCTETS, &value), after].concat();
            let mut reader = Reader::new(&bytes);
            assert!(reader.element(INTEGER).is_none());
            assert_eq!(reader.element(OCTETS).unwrap().value, value);
            assert_eq!(reader.element(INTEGER).unwrap().whole, [INTEGER, 1, 1]);
            assert!(reader.next().is_none());
        }
    }

    #[test]
    fn what_is_cut_off_or_endless_is_no_element() {
        let whole = wrap(OCTETS, &[7; 300]);
        for end in 0..whole.len() {
            assert!(Reader::new(&whole[..end]).next().is_none(), "{end}");
        }
        for bytes in [
            &[OCTETS, 0x80, 0, 0][..],
            &[0x1f, 1, 0],
            &[OCTETS, 0x84, 0, 0, 0, 1, 0],
        ] {
            assert!(Reader::new(bytes).next().is_none(), "{bytes:?}");
        }
    }
}
