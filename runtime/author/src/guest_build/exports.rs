//! Reads the exports of a core module, and what it imports from. Entry points: [`exports`] and [`imported_modules`].

/// The sections of imports and exports among a module's sections.
const IMPORTS: u8 = 2;
const EXPORTS: u8 = 7;

/// The kind of an import that is a function.
const FUNCTION: u8 = 0;

/// Magic number and version, before the first section.
const HEADER: usize = 8;

/// The names of a module's exports. Ends at bytes that are not a module.
pub(super) fn exports(module: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = section(module, EXPORTS).unwrap_or_default();
    let count = number(&mut rest).unwrap_or_default();
    (0..count).map_while(move |_| {
        let length = number(&mut rest)?;
        let name = take(&mut rest, length)?;
        take(&mut rest, 1)?; // function, table, memory or global
        number(&mut rest)?; // which
        str::from_utf8(name).ok()
    })
}

/// The names of the modules whose functions a module imports, one for each function. Ends at an import that is none, and at bytes that
/// are not a module.
pub(super) fn imported_modules(module: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = section(module, IMPORTS).unwrap_or_default();
    let count = number(&mut rest).unwrap_or_default();
    (0..count).map_while(move |_| {
        let length = number(&mut rest)?;
        let name = take(&mut rest, length)?;
        let length = number(&mut rest)?;
        take(&mut rest, length)?;
        let kind = *take(&mut rest, 1)?.first()?;
        number(&mut rest)?; // its type
        str::from_utf8(name).ok().filter(|_| kind == FUNCTION)
    })
}

/// The body of the first section of this kind.
fn section(module: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = module.get(HEADER..)?;
    loop {
        let kind = *take(&mut rest, 1)?.first()?;
        let length = number(&mut rest)?;
        let body = take(&mut rest, length)?;
        if kind == wanted {
            return Some(body);
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: u32) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// A number in LEB128, of at most 32 bits.
fn number(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0_u64;
    for shift in (0..35).step_by(7) {
        let byte = *take(bytes, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with a custom section of 200 bytes before its imports and exports.
    fn module() -> Vec<u8> {
        let mut module = b"\0asm\x01\0\0\0\x00\xc8\x01".to_vec();
        module.extend([7; 200]);
        module.extend(b"\x02\x13\x03\x01m\x01f\x00\x00\x01n\x00\x00\x01\x01o\x01g\x03\x7f\x00");
        module.extend(b"\x07\x0d\x02\x01a\x00\x00\x05b#c-d\x02\x00");
        module
    }

    #[test]
    fn every_export_is_told_by_name() {
        let module = module();
        assert_eq!(exports(&module).collect::<Vec<_>>(), ["a", "b#c-d"]);
    }

    #[test]
    fn imports_are_told_by_their_modules_up_to_one_that_is_no_function() {
        let module = module();
        assert_eq!(imported_modules(&module).collect::<Vec<_>>(), ["m", "n"]);
        for length in 0..module.len() {
            assert!(imported_modules(&module[..length]).count() <= 2);
        }
        assert_eq!(imported_modules(b"nothing of the sort").count(), 0);
    }

    #[test]
    fn what_is_cut_off_or_no_module_has_fewer() {
        let module = module();
        for length in 0..module.len() {
            assert!(exports(&module[..length]).count() < 2, "{length}");
        }
        assert_eq!(exports(b"nothing of the sort").count(), 0);
    }
}
