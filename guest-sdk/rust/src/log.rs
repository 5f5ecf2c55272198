//! Lines in the host's log. Entry points: the macros [`crate::debug`], [`crate::info`], [`crate::warn`] and [`crate::error`].

use crate::raw;
use crate::types::Level;

/// Writes a line: a constant message, values in fields. The host adds tenant, reconciler, cluster and reconcile id.
pub fn write(level: Level, message: &str, fields: &[(String, String)]) {
    raw::log(level, message, fields);
}

/// Writes a line for the guest's author: `debug!("looked", key = value)`.
#[macro_export]
macro_rules! debug { ($($line:tt)*) => { $crate::log_line!(Debug, $($line)*) } }

/// Writes a line about a step that was done: `info!("greeted", who = name, child = key)`. Values print with `Display`.
#[macro_export]
macro_rules! info { ($($line:tt)*) => { $crate::log_line!(Info, $($line)*) } }

/// Writes a line about a problem that was handled: `warn!("no greeting", key = value)`.
#[macro_export]
macro_rules! warn { ($($line:tt)*) => { $crate::log_line!(Warn, $($line)*) } }

/// Writes a line about a problem that was not handled: `error!("cannot greet", error = error)`.
#[macro_export]
macro_rules! error { ($($line:tt)*) => { $crate::log_line!(Error, $($line)*) } }

#[doc(hidden)]
#[macro_export]
macro_rules! log_line {
    ($level:ident, $message:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::log::write(
            $crate::Level::$level,
            $message,
            &[$((::std::string::String::from(stringify!($key)), ::std::string::ToString::to_string(&$value))),*],
        )
    };
}
