//! Calls of reconcilers to servers that are no API servers, within what the operator allows. Entry points: [`HttpGrant`], the rules, and
//! [`HttpClient::send`], from [`Context::http`](crate::Context::http).
//!
//! A call passes these steps:
//!
//! 1. `target`: the URL is read once, strictly. What two programs could read differently is refused.
//! 2. `grant`: a `rule` allows method, scheme, host, port and path, and so does each bound; else the call is `denied`, with the missing rule.
//! 3. `client`: the caller's limits, the deadline of the run, and the memory for the answer, as for calls to API servers.
//! 4. The transport resolves the name for each connection, and connects only to a public address that is of no API server, or to one that
//!    the rule names.
//!
//! Invariants:
//! * The headers of a rule are added last. Nothing that a caller gives replaces them, and no error, log line or answer has their values.
//! * A redirect is another call: it is followed as often as its rule says, and each time a rule must allow it.
//! * A call that may change something is never abandoned, and is sent only by the leader, as a write to an API server.

mod client;
mod grant;
mod rule;
mod target;

pub use client::{HttpClient, HttpRequest, HttpResponse};
pub use grant::{HttpDenied, HttpGrant};
pub use rule::{HttpRule, HttpRuleError, HttpRuleText, is_of_connection};
pub use target::{Target, TargetError};
