//! The interface `config`.

use crate::contract::windlass::runtime::config;
use crate::instance::call::Call;

impl config::Host for Call {
    fn get(&mut self) -> wasmtime::Result<String> {
        Ok(self.guest.config.to_string())
    }
}
