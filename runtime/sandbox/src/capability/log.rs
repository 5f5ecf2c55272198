//! The interface `log`.

use crate::bindings::windlass::runtime::log::{self, Level};
use crate::call::Call;

impl log::Host for Call {
    fn write(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        self.journal.write(level, &message, &fields);
        Ok(())
    }
}
