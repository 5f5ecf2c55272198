//! What the answers of one host call may take: of the call's own limit, and of its tenant's memory. Entry point: [`Room`].
//!
//! An answer of a server is charged to the tenant as it arrives, and given back once the text that the guest gets is made of it. The
//! text is charged until the guest's next host call or the end of its call: until then the host may hold it, as the guest decides
//! when it has taken it over.

use crate::instance::memory::Size;
use crate::tenant::context::GuestContext;
use crate::tenant::usage::Limit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use windlass_fleet::ApiCode;
use windlass_fleet::api::ApiError;
use windlass_fleet::cluster::AnswerAccount;

/// What can be done about an answer that is too large.
pub(crate) const FEWER: &str = "ask for fewer objects at once, or for metadata only";

/// Room for the answers of one host call.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) guest: Arc<GuestContext>,
    /// Bytes that the texts may have still.
    left: AtomicUsize,
    /// Bytes of texts, charged to the tenant until this is dropped.
    held: AtomicUsize,
    /// Whether the tenant's memory has refused an answer already, which counts once.
    refused: AtomicBool,
}

impl Room {
    pub(crate) fn new(guest: &Arc<GuestContext>) -> Arc<Self> {
        Arc::new(Self {
            guest: guest.clone(),
            left: AtomicUsize::new(guest.limits.response_bytes),
            held: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
        })
    }

    /// Takes so many bytes for a text. `instead`: what a guest can do that needs more.
    pub(crate) fn take(&self, bytes: usize, instead: &str) -> Result<(), ApiError> {
        let order = Ordering::Relaxed;
        let take = |left: usize| left.checked_sub(bytes);
        if self.left.fetch_update(order, order, take).is_err() {
            return Err(limit_exceeded(self.too_large(instead)));
        }
        if !self.charge(bytes) {
            self.left.fetch_add(bytes, order);
            let message = format!(
                "the memory that the tenant's guests share has no room for an answer of {}: raise the tenant's limits.memory, or ask for less at once",
                Size(bytes)
            );
            return Err(limit_exceeded(message));
        }
        self.held.fetch_add(bytes, order);
        Ok(())
    }

    fn too_large(&self, instead: &str) -> String {
        self.guest.hit(Limit::ResponseBytes);
        let most = Size(self.guest.limits.response_bytes);
        format!("the answer is larger than {most}: {instead}")
    }
}

fn limit_exceeded(message: String) -> ApiError {
    ApiError::host(ApiCode::LimitExceeded, message)
}

impl AnswerAccount for Room {
    fn admits(&self, bytes: usize) -> Result<(), String> {
        if bytes > self.left.load(Ordering::Relaxed) {
            return Err(self.too_large(FEWER));
        }
        Ok(())
    }

    fn charge(&self, bytes: usize) -> bool {
        let charged = self.guest.tenant.charge_answer(bytes);
        if !charged && !self.refused.swap(true, Ordering::Relaxed) {
            self.guest.hit(Limit::TenantMemory);
        }
        charged
    }

    fn release(&self, bytes: usize) {
        self.guest.tenant.release_answer(bytes);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        self.release(held);
    }
}
