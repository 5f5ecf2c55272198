//! What calls and guests wait for before they begin, each shared fairly between tenants: instance slots, memory, compilations.
//! Entry points: [`slots::Pool`], [`memory::Reservations`] and [`compilations::CompileQueue`].

pub(crate) mod compilations;
pub(crate) mod evictable;
pub(crate) mod memory;
pub(crate) mod slots;
