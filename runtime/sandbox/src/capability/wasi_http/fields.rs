//! The resource `fields`: headers. Entry point: its generated trait.

use crate::contract::wasi_http::exchange::Headers;
use crate::contract::wasi_http::handle::Fields;
use crate::contract::wasi_http::wasi::http::types::{HeaderError, HostFields};
use crate::instance::call::Call;
use std::sync::Arc;
use wasmtime::component::Resource;
use windlass_fleet::outbound::is_of_connection;

type Handle = Resource<Fields>;
type Done = wasmtime::Result<Result<(), HeaderError>>;

/// The header that the host sets by itself. A guest may say the same.
pub(super) const LENGTH: &str = "content-length";

impl Call {
    fn own_fields(&mut self, pairs: Vec<(String, Vec<u8>)>) -> wasmtime::Result<Handle> {
        let mut list = Headers::none(self.account());
        list.change(|list| *list = pairs)?;
        Ok(self.table.push(Fields::own(list))?)
    }

    fn change(
        &mut self,
        handle: &Handle,
        change: impl FnOnce(&mut Vec<(String, Vec<u8>)>),
    ) -> Done {
        let fields = self.table.get_mut(handle)?;
        if fields.is_fixed {
            return Ok(Err(HeaderError::Immutable));
        }
        let Some(list) = Arc::get_mut(&mut fields.list) else {
            return Ok(Err(HeaderError::Immutable));
        };
        list.change(change)?;
        Ok(Ok(()))
    }
}

impl HostFields for Call {
    fn new(&mut self) -> wasmtime::Result<Handle> {
        self.own_fields(Vec::new())
    }

    fn from_list(
        &mut self,
        entries: Vec<(String, Vec<u8>)>,
    ) -> wasmtime::Result<Result<Handle, HeaderError>> {
        for (name, value) in &entries {
            if let Err(error) = check(name, value) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(self.own_fields(entries)?))
    }

    fn get(&mut self, handle: Handle, name: String) -> wasmtime::Result<Vec<Vec<u8>>> {
        let pairs = self.table.get(&handle)?.list.pairs().iter();
        let values = pairs.filter(|(known, _)| known.eq_ignore_ascii_case(&name));
        Ok(values.map(|(_, value)| value.clone()).collect())
    }

    fn has(&mut self, handle: Handle, name: String) -> wasmtime::Result<bool> {
        let mut pairs = self.table.get(&handle)?.list.pairs().iter();
        Ok(pairs.any(|(known, _)| known.eq_ignore_ascii_case(&name)))
    }

    fn set(&mut self, handle: Handle, name: String, values: Vec<Vec<u8>>) -> Done {
        let checked = values.iter().try_for_each(|value| check(&name, value));
        if let Err(error) = checked.and(check(&name, &[])) {
            return Ok(Err(error));
        }
        self.change(&handle, |pairs| {
            pairs.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            pairs.extend(values.into_iter().map(|value| (name.clone(), value)));
        })
    }

    fn delete(&mut self, handle: Handle, name: String) -> Done {
        if let Err(error) = check(&name, &[]) {
            return Ok(Err(error));
        }
        self.change(&handle, |pairs| {
            pairs.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        })
    }

    fn append(&mut self, handle: Handle, name: String, value: Vec<u8>) -> Done {
        if let Err(error) = check(&name, &value) {
            return Ok(Err(error));
        }
        self.change(&handle, |pairs| pairs.push((name, value)))
    }

    fn entries(&mut self, handle: Handle) -> wasmtime::Result<Vec<(String, Vec<u8>)>> {
        Ok(self.table.get(&handle)?.list.pairs().to_vec())
    }

    fn clone(&mut self, handle: Handle) -> wasmtime::Result<Handle> {
        let pairs = self.table.get(&handle)?.list.pairs().to_vec();
        self.own_fields(pairs)
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        self.table.delete(handle)?;
        Ok(())
    }
}

/// Whether a guest may set a header. What passes here is checked again before it is sent.
fn check(name: &str, value: &[u8]) -> Result<(), HeaderError> {
    let is_name = !name.is_empty() && name.bytes().all(is_token);
    let is_value = value
        .iter()
        .all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte));
    if !is_name || !is_value {
        return Err(HeaderError::InvalidSyntax);
    }
    let lower = name.to_ascii_lowercase();
    if is_of_connection(&lower) && lower != LENGTH {
        return Err(HeaderError::Forbidden);
    }
    Ok(())
}

/// Whether names of headers and methods may have a byte (RFC 9110 §5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_sets_headers_but_those_of_the_connection() {
        for (name, value) in [("X-A", &b"1 a\t"[..]), ("Content-Length", b"0")] {
            assert!(check(name, value).is_ok(), "{name}");
        }
        for (name, value) in [
            ("", &b""[..]),
            ("X A", b""),
            ("X-A", b"1\r\nHost: b"),
            ("X-A", b"\xe4"),
        ] {
            assert!(
                matches!(check(name, value), Err(HeaderError::InvalidSyntax)),
                "{name}"
            );
        }
        for name in [
            "Host",
            "transfer-encoding",
            "CONNECTION",
            "Proxy-Authorization",
        ] {
            assert!(
                matches!(check(name, b""), Err(HeaderError::Forbidden)),
                "{name}"
            );
        }
    }
}
