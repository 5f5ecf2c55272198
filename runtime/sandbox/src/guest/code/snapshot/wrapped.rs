//! A component around another one, which has all its code: tools wrap a component to give it stand-ins for imports that nothing calls any
//! more. Entry point: [`Wrapped::of`].
//!
//! The binary format: <https://github.com/WebAssembly/component-model/blob/main/design/mvp/Binary.md>.

use std::ops::Range;

/// The bytes before the first section: what every component begins with.
const PREAMBLE: &[u8] = b"\0asm\x0d\0\x01\0";

/// The sections with a core module, and with a component.
const MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// A wrapped component.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrapped<'a> {
    bytes: &'a [u8],
    /// Its section with the component within, and the component.
    section: Range<usize>,
    inner: Range<usize>,
}

impl<'a> Wrapped<'a> {
    /// The largest component within one that has no module of its own. None: there is none.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut largest: Option<Section> = None;
        let mut at = bytes.starts_with(PREAMBLE).then_some(PREAMBLE.len())?;
        while at < bytes.len() {
            let section = Section::at(bytes, at)?;
            at = section.content.end;
            match section.id {
                MODULE => return None,
                COMPONENT
                    if largest
                        .as_ref()
                        .is_none_or(|it| it.content.len() < section.content.len()) =>
                {
                    largest = Some(section);
                }
                _ => {}
            }
        }
        let largest = largest?;
        Some(Self {
            bytes,
            section: largest.start..largest.content.end,
            inner: largest.content,
        })
    }

    /// The component within.
    pub(super) fn inner(&self) -> &'a [u8] {
        &self.bytes[self.inner.clone()]
    }

    /// The same around another component, which has the same imports and exports.
    pub(super) fn around(&self, inner: &[u8]) -> Vec<u8> {
        let (before, behind) = (
            &self.bytes[..self.section.start],
            &self.bytes[self.section.end..],
        );
        [before, &[COMPONENT], &number(inner.len()), inner, behind].concat()
    }
}

/// A section.
struct Section {
    id: u8,
    start: usize,
    content: Range<usize>,
}

impl Section {
    fn at(bytes: &[u8], start: usize) -> Option<Self> {
        let (mut length, mut at) = (0, start + 1);
        for shift in (0..35).step_by(7) {
            let byte = *bytes.get(at)?;
            at += 1;
            length |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let content = at..at.checked_add(length)?;
                bytes.get(content.clone())?;
                let id = bytes[start];
                return Some(Self { id, start, content });
            }
        }
        None
    }
}

/// A length in the binary format: seven bits a byte, the lowest first.
fn number(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(sections: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = PREAMBLE.to_vec();
        for (id, content) in sections {
            bytes.push(*id);
            bytes.extend(number(content.len()));
            bytes.extend_from_slice(content);
        }
        bytes
    }

    #[test]
    fn the_largest_component_within_is_the_wrapped_one() {
        let (small, large, other) = ([7; 10], [8; 300], [9; 70_000]);
        let wrapped_in = |inner: &[u8]| {
            component(&[
                (7, b"types"),
                (COMPONENT, &small),
                (COMPONENT, inner),
                (5, b"it"),
            ])
        };
        let bytes = wrapped_in(&large);
        let wrapped = Wrapped::of(&bytes).unwrap();
        assert_eq!(wrapped.inner(), large);
        assert_eq!(wrapped.around(&large), bytes);
        assert_eq!(wrapped.around(&other), wrapped_in(&other));
    }

    #[test]
    fn what_has_a_module_of_its_own_or_is_cut_wraps_nothing() {
        let bytes = component(&[(COMPONENT, &[7; 10]), (MODULE, b"code")]);
        assert_eq!(Wrapped::of(&bytes), None);
        assert_eq!(Wrapped::of(&component(&[(7, b"types")])), None);
        assert_eq!(Wrapped::of(b"\0asm\x01\0\0\0"), None);
        let whole = component(&[(COMPONENT, &[7; 10])]);
        for cut in 0..whole.len() {
            assert_eq!(Wrapped::of(&whole[..cut]), None, "{cut}");
        }
    }
}
