//! Bytes that the answers of one host call may have, within the guest's own limit and its tenant's memory. Entry point:
//! [`AnswerBudget`].
//!
//! * A server's answer is charged to the tenant as it arrives. The charge ends when the answer has become text for the guest.
//! * The text is charged until the guest's next host call, or the end of its call: until then the host may still hold the text.

use crate::instance::memory::Size;
use crate::tenant::context::GuestContext;
use crate::tenant::usage::Limit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use windlass_fleet::ApiCode;
use windlass_fleet::api::ApiError;
use windlass_fleet::cluster::AnswerAccount;

/// Advice about an answer that is too large.
pub(crate) const FEWER: &str = "ask for fewer objects at once, or for metadata only";

/// Bytes for the answers of one host call.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    pub(crate) guest: Arc<GuestContext>,
    /// Bytes that are left for texts.
    left: AtomicUsize,
    /// Bytes of texts, charged to the tenant until this is dropped.
    held: AtomicUsize,
    /// Whether the tenant's memory has refused an answer. One host call counts one refusal.
    refused: AtomicBool,
}

impl AnswerBudget {
    pub(crate) fn new(guest: &Arc<GuestContext>) -> Arc<Self> {
        Arc::new(Self {
            guest: guest.clone(),
            left: AtomicUsize::new(guest.limits.response_bytes),
            held: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
        })
    }

    /// Takes bytes for a text. `advice`: for a guest that needs more.
    pub(crate) fn take(&self, bytes: usize, advice: &str) -> Result<(), ApiError> {
        let order = Ordering::Relaxed;
        let take = |left: usize| left.checked_sub(bytes);
        if self.left.fetch_update(order, order, take).is_err() {
            return Err(limit_exceeded(self.too_large(advice)));
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

    fn too_large(&self, advice: &str) -> String {
        self.guest.hit(Limit::ResponseBytes);
        let most = Size(self.guest.limits.response_bytes);
        format!("the answer is larger than {most}: {advice}")
    }
}

fn limit_exceeded(message: String) -> ApiError {
    ApiError::host(ApiCode::LimitExceeded, message)
}

impl AnswerAccount for AnswerBudget {
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

impl Drop for AnswerBudget {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        self.release(held);
    }
}
