//! The interface `log`.

use crate::contract::windlass::runtime::log::{self, Level};
use crate::instance::call::Call;

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
