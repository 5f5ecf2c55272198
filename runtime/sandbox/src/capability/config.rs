//! The interface `config`.

use crate::bindings::windlass::runtime::config;
use crate::call::Call;

impl config::Host for Call {
    fn get(&mut self) -> wasmtime::Result<String> {
        Ok(self.identity.config.to_string())
    }
}
