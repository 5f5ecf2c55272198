//! The interface `clock`.

use crate::contract::windlass::runtime::clock;
use crate::instance::call::Call;

impl clock::Host for Call {
    fn now(&mut self) -> wasmtime::Result<String> {
        Ok(format!("{:.3}", self.guest.history.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_has_milliseconds_always() {
        let second = jiff::Timestamp::from_second(951_782_400).unwrap();
        assert_eq!(format!("{second:.3}"), "2000-02-29T00:00:00.000Z");
    }
}
