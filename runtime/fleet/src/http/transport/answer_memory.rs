//! Memory for answers that are read and held: one limit for the process, shared by tenants. Entry point: [`AnswerMemory::reserve`].
//!
//! A client's call reserves [`ADVANCE`] before it is sent. Its charge grows as the answer arrives, and ends when the last reference to the
//! answer's bytes is dropped.
//!
//! **The rule: a tenant may hold as much as it leaves free.** One tenant alone holds at most half of the limit, two hold at most a third each.
//! However many there are, the next tenant finds as much free as each of them holds. So large answers of one tenant never keep small
//! answers of another from being read.
//!
//! Invariant: no call waits for memory while it holds some; an answer that finds none is dropped first. So waiting calls cannot block each
//! other, and an unread answer does not fill the window of a connection that other calls use.
//!
//! Cost: a lock for each charge and release. Not guaranteed: an order of the waits, which all look again when memory is released.
//!
//! Lists that fill caches, watches, discovery and Leases are the host's own. They are limited by
//! [`TransportOptions::max_body`](super::TransportOptions::max_body), charged to no tenant, and never wait here.

use crate::api::{ApiCode, ApiError};
use crate::fair::Held;
use crate::name::TenantName;
use bytes::Bytes;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Bytes that a call reserves before it is sent: enough for most objects, and few enough for thousands of concurrent calls.
pub(crate) const ADVANCE: usize = 64 << 10;

/// How often a waiting call looks again. An account gives no notice when it has memory.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A further limit on the answers of a client, beside that of the process: see [`Client::charged_to`](crate::Client::charged_to).
pub trait AnswerAccount: Send + Sync + fmt::Debug {
    /// Whether the answer to a read may have this many bytes. It is asked while the answer is read; after a rejection the rest is not read.
    ///
    /// # Errors
    /// The reason, as a message for the client's caller.
    fn admits(&self, bytes: usize) -> Result<(), String>;

    /// Charges this many further bytes. `false`: there is no memory for them now, and nothing is charged.
    fn charge(&self, bytes: usize) -> bool;

    /// Releases this many bytes.
    fn release(&self, bytes: usize);
}

/// The tenant and the account that answers are charged to.
#[derive(Debug, Clone)]
pub(crate) struct Payer {
    pub(crate) tenant: TenantName,
    pub(crate) account: Option<Arc<dyn AnswerAccount>>,
}

/// Bytes of answers that the process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerUse {
    /// Bytes held.
    pub held: usize,
    /// Most bytes that were held at once.
    pub peak: usize,
    /// Most bytes that may be held.
    pub limit: usize,
    /// Calls that were rejected because there was no memory in time.
    pub rejected: u64,
}

/// An answer finds no memory beside the answers that are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no room for an answer of {bytes} bytes beside those that are held: ask for less at once, or raise the tenant's limits.memory or the manager's transport.answersInMemory ({limit} bytes)"
)]
pub(crate) struct NoRoom {
    bytes: usize,
    limit: usize,
}

impl From<NoRoom> for ApiError {
    fn from(error: NoRoom) -> Self {
        Self::host(ApiCode::LimitExceeded, error.to_string())
    }
}

/// The limit, and the bytes that are held.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    limit: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    peak: usize,
    rejected: u64,
    by_tenant: Held<TenantName>,
}

impl State {
    fn take(&mut self, limit: usize, tenant: &TenantName, bytes: usize) -> bool {
        let free = limit.saturating_sub(self.held.saturating_add(bytes));
        if self.by_tenant.by(tenant).saturating_add(bytes) > free {
            return false;
        }
        self.held += bytes;
        self.peak = self.peak.max(self.held);
        self.by_tenant.add(tenant, bytes);
        true
    }

    fn release(&mut self, tenant: &TenantName, bytes: usize) {
        self.held -= bytes;
        self.by_tenant.subtract(tenant, bytes);
    }
}

impl AnswerMemory {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    pub(crate) fn usage(&self) -> AnswerUse {
        let state = self.state.lock();
        AnswerUse {
            held: state.held,
            peak: state.peak,
            limit: self.limit,
            rejected: state.rejected,
        }
    }

    /// Charges this many bytes, and waits for them until `until`. The caller must hold no charge.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        payer: &Payer,
        bytes: usize,
        until: Instant,
    ) -> Result<Charge, NoRoom> {
        let mut charge = Charge {
            answers: self.clone(),
            payer: payer.clone(),
            bytes: 0,
        };
        let impossible = bytes > self.limit / 2;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Registered before the check, so that no release in between is missed.
            freed.as_mut().enable();
            if charge.cover(bytes) {
                return Ok(charge);
            }
            if impossible || Instant::now() >= until {
                return Err(self.reject(bytes));
            }
            let look = until.min(Instant::now() + LOOK_AGAIN);
            let _ = tokio::time::timeout_at(look, freed).await;
        }
    }

    /// Counts a rejected call.
    pub(crate) fn reject(&self, bytes: usize) -> NoRoom {
        self.state.lock().rejected += 1;
        NoRoom {
            bytes,
            limit: self.limit,
        }
    }
}

/// Bytes that are charged to a payer. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct Charge {
    answers: Arc<AnswerMemory>,
    payer: Payer,
    bytes: usize,
}

impl Charge {
    /// Whether the account admits an answer of this many bytes.
    pub(super) fn admits(&self, bytes: usize) -> Result<(), String> {
        match &self.payer.account {
            Some(account) => account.admits(bytes),
            None => Ok(()),
        }
    }

    /// Raises the charge to this many bytes. `false`: there is no memory, and the charge stays as it is.
    pub(super) fn cover(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let tenant = &self.payer.tenant;
        if more == 0 {
            return true;
        }
        if !self
            .answers
            .state
            .lock()
            .take(self.answers.limit, tenant, more)
        {
            return false;
        }
        let account = self.payer.account.as_ref();
        if account.is_some_and(|account| !account.charge(more)) {
            self.answers.state.lock().release(tenant, more);
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// Lowers the charge to this many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less == 0 {
            return;
        }
        self.bytes = bytes;
        let tenant = &self.payer.tenant;
        self.answers.state.lock().release(tenant, less);
        if let Some(account) = &self.payer.account {
            account.release(less);
        }
        self.answers.freed.notify_waiters();
    }

    /// Charges these bytes until the last reference to them is dropped.
    pub(crate) fn of(mut self, json: Bytes) -> Bytes {
        self.shrink(json.len());
        Arc::new(self).share(json)
    }

    /// As [`Self::of`], for one of several parts with one charge. It ends when the last part is dropped.
    pub(crate) fn share(self: Arc<Self>, json: Bytes) -> Bytes {
        Bytes::from_owner(Charged {
            json,
            _charge: self,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

struct Charged {
    json: Bytes,
    _charge: Arc<Charge>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payer(tenant: &str) -> Payer {
        Payer {
            tenant: TenantName::new(tenant).unwrap(),
            account: None,
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_holds_as_much_as_it_leaves_free() {
        let answers = AnswerMemory::new(120);
        let mut a = answers.reserve(&payer("a"), 60, soon()).await.unwrap();
        assert!(!a.cover(61), "half of it, alone");
        let b = answers.reserve(&payer("b"), 30, soon()).await.unwrap();
        assert_eq!(answers.usage().held, 90);
        let refused = answers.reserve(&payer("b"), 1, soon()).await.unwrap_err();
        assert_eq!((refused.bytes, refused.limit), (1, 120));
        let c = answers.reserve(&payer("c"), 15, soon()).await.unwrap();
        drop((a, b, c));
        let usage = answers.usage();
        assert_eq!((usage.held, usage.peak, usage.rejected), (0, 105, 1));
        assert!(answers.state.lock().by_tenant.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_call_is_served_when_bytes_are_dropped() {
        let answers = AnswerMemory::new(120);
        let charge = answers.reserve(&payer("a"), 60, soon()).await.unwrap();
        let bytes = charge.of(Bytes::from(vec![0; 50]));
        assert_eq!(answers.usage().held, 50);
        let slice = bytes.slice(3..7);
        drop(bytes);
        let payer = payer("a");
        let waits = answers.reserve(&payer, 40, soon());
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending());
        drop(slice);
        assert!(futures::poll!(&mut waits).is_ready());
    }

    #[tokio::test]
    async fn an_answer_that_can_never_fit_is_rejected_at_once() {
        let (answers, payer) = (AnswerMemory::new(120), payer("a"));
        let waits = answers.reserve(&payer, 61, soon());
        tokio::pin!(waits);
        let std::task::Poll::Ready(Err(_)) = futures::poll!(waits) else {
            panic!("it waits");
        };
    }

    #[derive(Debug)]
    struct Account(Mutex<usize>);

    impl AnswerAccount for Account {
        fn admits(&self, bytes: usize) -> Result<(), String> {
            (bytes <= 20)
                .then_some(())
                .ok_or_else(|| "too large".into())
        }

        fn charge(&self, bytes: usize) -> bool {
            let mut held = self.0.lock();
            let fits = *held + bytes <= 30;
            *held += if fits { bytes } else { 0 };
            fits
        }

        fn release(&self, bytes: usize) {
            *self.0.lock() -= bytes;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_an_account_rejects_are_charged_to_nobody() {
        let answers = AnswerMemory::new(1000);
        let account = Arc::new(Account(Mutex::new(0)));
        let payer = Payer {
            account: Some(account.clone()),
            ..payer("a")
        };
        let mut charge = answers.reserve(&payer, 20, soon()).await.unwrap();
        assert!(!charge.cover(31));
        assert!(charge.admits(21).is_err());
        assert_eq!((answers.usage().held, *account.0.lock()), (20, 20));
        assert!(answers.reserve(&payer, 20, soon()).await.is_err());
        charge.shrink(10);
        assert_eq!((answers.usage().held, *account.0.lock()), (10, 10));
        drop(charge);
        assert_eq!((answers.usage().held, *account.0.lock()), (0, 0));
    }
}
