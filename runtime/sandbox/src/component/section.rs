//! The custom section in which a component carries the JSON Schema of its `config`. Entry points: [`config_schema`] reads it,
//! [`with_config_schema`] writes it.
//!
//! A section is a part of the component's file, so it goes wherever the component goes, and counts in its digest.

/// The name of the section.
const NAME: &[u8] = b"windlass:config-schema";
/// Largest schema, in bytes.
const MOST: usize = 256 << 10;
/// Bytes before the first section: the magic number and the version.
const HEAD: usize = 8;
/// The id of custom sections.
const CUSTOM: u8 = 0;

/// Why a component carries no schema that can be read, or may not carry one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SectionError {
    /// It is too large.
    #[error("it has {0} bytes: at most {MOST} are allowed")]
    TooLarge(usize),
    /// It is not UTF-8.
    #[error("it is not UTF-8 text")]
    NotText,
    /// There are several.
    #[error("there are several: keep one")]
    Several,
}

/// The schema that a component carries: of its own sections, not of the modules in it. Bytes that are no component have none.
///
/// # Errors
/// [`SectionError`] when it cannot be used.
pub(crate) fn config_schema(component: &[u8]) -> Result<Option<String>, SectionError> {
    let mut rest = component.get(HEAD..).unwrap_or_default();
    let mut found = None;
    while let Some((id, section, after)) = next(rest) {
        rest = after;
        let named = (id == CUSTOM).then(|| sized(section)).flatten();
        let Some((NAME, schema)) = named else {
            continue;
        };
        if schema.len() > MOST {
            return Err(SectionError::TooLarge(schema.len()));
        }
        let text = std::str::from_utf8(schema).map_err(|_| SectionError::NotText)?;
        if found.replace(text.to_owned()).is_some() {
            return Err(SectionError::Several);
        }
    }
    Ok(found)
}

/// A component that carries this schema.
///
/// # Errors
/// [`SectionError`] when the component has one already, or the schema is too large.
pub fn with_config_schema(mut component: Vec<u8>, schema: &str) -> Result<Vec<u8>, SectionError> {
    if config_schema(&component)?.is_some() {
        return Err(SectionError::Several);
    }
    if schema.len() > MOST {
        return Err(SectionError::TooLarge(schema.len()));
    }
    let mut section = leb128(NAME.len());
    section.extend_from_slice(NAME);
    section.extend_from_slice(schema.as_bytes());
    component.push(CUSTOM);
    component.extend(leb128(section.len()));
    component.extend(section);
    Ok(component)
}

/// The id and the content of the first section, and what follows it.
fn next(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (id, rest) = bytes.split_first()?;
    let (section, rest) = sized(rest)?;
    Some((*id, section, rest))
}

/// The bytes after a length, and what follows them.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return bytes.get(index + 1..)?.split_at_checked(length);
        }
    }
    None
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component without anything.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn a_schema_is_found_again_after_other_sections() {
        let mut component = EMPTY.to_vec();
        component.extend(b"\x00\x05\x04name");
        let component = with_config_schema(component, "{\"type\": \"object\"}").unwrap();
        let long = format!("\"{}\"", "x".repeat(100_000));
        assert_eq!(
            config_schema(&component).unwrap().as_deref(),
            Some("{\"type\": \"object\"}")
        );
        assert_eq!(
            with_config_schema(component, "{}"),
            Err(SectionError::Several)
        );
        let component = with_config_schema(EMPTY.to_vec(), &long).unwrap();
        assert_eq!(config_schema(&component).unwrap(), Some(long));
        assert_eq!(config_schema(EMPTY), Ok(None));
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused() {
        let large = "x".repeat(MOST + 1);
        assert_eq!(
            with_config_schema(EMPTY.to_vec(), &large),
            Err(SectionError::TooLarge(MOST + 1))
        );
        let mut component = with_config_schema(EMPTY.to_vec(), "abc").unwrap();
        let section = component[HEAD..].to_vec();
        let last = component.len() - 1;
        component[last] = 0xff;
        assert_eq!(config_schema(&component), Err(SectionError::NotText));
        let twice = [EMPTY, &section, &section].concat();
        assert_eq!(config_schema(&twice), Err(SectionError::Several));
    }

    #[test]
    fn a_section_that_is_cut_off_ends_the_search() {
        let component = with_config_schema(EMPTY.to_vec(), "{}").unwrap();
        for end in 0..component.len() {
            assert_eq!(config_schema(&component[..end]), Ok(None), "{end}");
        }
        assert_eq!(
            config_schema(b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\xff"),
            Ok(None)
        );
    }
}
