//! The machine code of a component's functions, kept from one build to the next. Entry point: [`Functions`].
//!
//! A save changes few functions. The compiler looks each one up by a hash of all that its code depends on, and compiles the others.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use wasmtime::CacheStore;

/// The functions of the build before, and those of this build.
#[derive(Debug, Default)]
pub(super) struct Functions {
    before: HashMap<Vec<u8>, Vec<u8>>,
    /// What this build has looked up and compiled. Nothing else is kept, so a component's functions bound it.
    now: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl Functions {
    /// Reads what [`Self::kept`] wrote. Bytes that it did not write count as no functions: all are compiled.
    pub(super) fn read(bytes: &[u8]) -> Self {
        Self {
            before: entries(bytes).unwrap_or_default(),
            now: Mutex::default(),
        }
    }

    /// The functions of this build, for the next one.
    pub(super) fn kept(&self) -> Vec<u8> {
        let now = self.now.lock();
        let mut bytes = Vec::new();
        for (key, code) in &*now {
            for part in [key, code] {
                bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let code = self.before.get(key)?;
        self.now.lock().insert(key.to_vec(), code.clone());
        Some(Cow::Borrowed(code))
    }

    fn insert(&self, key: &[u8], code: Vec<u8>) -> bool {
        self.now.lock().insert(key.to_vec(), code);
        true
    }
}

fn entries(mut bytes: &[u8]) -> Option<HashMap<Vec<u8>, Vec<u8>>> {
    let mut found = HashMap::new();
    while !bytes.is_empty() {
        let (key, rest) = super::part(bytes)?;
        let (code, rest) = super::part(rest)?;
        found.insert(key.to_vec(), code.to_vec());
        bytes = rest;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_used_or_made_is_there_in_the_next() {
        let first = Functions::default();
        for name in ["same", "gone"] {
            assert!(first.get(name.as_bytes()).is_none());
            assert!(first.insert(name.as_bytes(), format!("code of {name}").into_bytes()));
        }
        let second = Functions::read(&first.kept());
        assert_eq!(second.get(b"same").as_deref(), Some(&b"code of same"[..]));
        assert!(second.insert(b"new", Vec::new()));
        let third = Functions::read(&second.kept());
        assert_eq!(third.get(b"same").as_deref(), Some(&b"code of same"[..]));
        assert_eq!(third.get(b"new").as_deref(), Some(&b""[..]));
        assert!(
            third.get(b"gone").is_none(),
            "the build before had no use for it"
        );
    }

    #[test]
    fn bytes_that_are_cut_or_strange_are_no_functions() {
        let whole = Functions::default();
        assert!(whole.insert(b"key", b"code".to_vec()));
        let whole = whole.kept();
        for cut in 1..whole.len() {
            assert!(Functions::read(&whole[..cut]).get(b"key").is_none());
        }
        assert!(Functions::read(&[0xff; 64]).get(b"key").is_none());
    }
}
