//! Bytes of answers that are read and held: one bound for the process, divided between tenants. Entry point:
//! [`Answers::reserve`].
//!
//! A call of a client reserves [`ADVANCE`] before it is sent. Its charge grows as its answer arrives, and lasts until the last
//! reference to the answer's bytes is dropped.
//!
//! **The rule: a tenant may hold as much as it leaves free.** A tenant that is alone holds at most half of the bound. Two that hold
//! all they may hold a third each. However many they are, the next tenant finds as much free as each of them holds, so that large
//! answers of one tenant never keep small ones of another from being read.
//!
//! Nobody waits for room while it holds some: an answer that finds none is dropped first. So waiting calls cannot block each
//! other, and an unread answer never takes up the window of a connection that it shares with others.
//!
//! Lists that fill stores, watches, discovery and leases are the host's own. They are bounded by
//! [`TransportOptions::max_body`](super::TransportOptions::max_body), count for no tenant and never wait here.

use crate::name::TenantName;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a call reserves before it is sent, in bytes: enough for most objects, and little enough for thousands of calls at once.
pub(crate) const ADVANCE: usize = 64 << 10;

/// How often a waiting call looks again. An account may have room without anything of [`Answers`] having changed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What is charged for the answers of a client besides the process: see [`Client::charged_to`](crate::Client::charged_to).
pub trait AnswerAccount: Send + Sync + fmt::Debug {
    /// Whether the answer to a read may have so many bytes. Asked while it is read: the rest of one that may not is not read.
    ///
    /// # Errors
    /// Why not, for the caller.
    fn admits(&self, bytes: usize) -> Result<(), String>;

    /// Charges so many bytes more. `false`: there is no room for them now.
    fn charge(&self, bytes: usize) -> bool;

    /// Gives back so many bytes.
    fn release(&self, bytes: usize);
}

/// Who answers are charged to.
#[derive(Debug, Clone)]
pub(crate) struct Payer {
    pub(crate) tenant: TenantName,
    pub(crate) account: Option<Arc<dyn AnswerAccount>>,
}

/// The bytes of answers that a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerUse {
    /// Bytes held now.
    pub held: usize,
    /// Most that were held at once.
    pub peak: usize,
    /// The bound.
    pub limit: usize,
    /// Calls that were rejected because no room came in time.
    pub rejected: u64,
}

/// The bound, and what is held.
#[derive(Debug)]
pub(crate) struct Answers {
    limit: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    peak: usize,
    rejected: u64,
    /// Only of tenants that hold something.
    tenants: HashMap<TenantName, usize>,
}

impl State {
    fn take(&mut self, limit: usize, tenant: &TenantName, bytes: usize) -> bool {
        let own = self.tenants.get(tenant).copied().unwrap_or_default();
        let free = limit.saturating_sub(self.held.saturating_add(bytes));
        if own.saturating_add(bytes) > free {
            return false;
        }
        self.held += bytes;
        self.peak = self.peak.max(self.held);
        *self.tenants.entry(tenant.clone()).or_default() += bytes;
        true
    }

    fn give_back(&mut self, tenant: &TenantName, bytes: usize) {
        self.held -= bytes;
        if let Some(own) = self.tenants.get_mut(tenant) {
            *own -= bytes;
            if *own == 0 {
                self.tenants.remove(tenant);
            }
        }
    }
}

impl Answers {
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

    /// Waits until so many bytes can be charged, no longer than until a time. The caller holds no charge meanwhile.
    ///
    /// # Errors
    /// Why the call is rejected.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        payer: &Payer,
        bytes: usize,
        until: Instant,
    ) -> Result<Charge, String> {
        let mut charge = Charge {
            answers: self.clone(),
            payer: payer.clone(),
            bytes: 0,
        };
        let impossible = bytes > self.limit / 2;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Listens before it looks, so that room that comes in between is not missed.
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

    /// Counts a rejected call, and says why it is one.
    pub(crate) fn reject(&self, bytes: usize) -> String {
        self.state.lock().rejected += 1;
        format!(
            "there is no room for an answer of {bytes} bytes beside those that are held: ask for less at once, or raise the tenant's limits.memory or the manager's transport.answersInMemory ({} bytes)",
            self.limit
        )
    }
}

/// Bytes that are charged to a payer until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    answers: Arc<Answers>,
    payer: Payer,
    bytes: usize,
}

impl Charge {
    /// Whether the payer takes an answer of so many bytes.
    pub(super) fn admits(&self, bytes: usize) -> Result<(), String> {
        match &self.payer.account {
            Some(account) => account.admits(bytes),
            None => Ok(()),
        }
    }

    /// Charges up to so many bytes. `false`: there is no room, and the charge stays as it is.
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
            self.answers.state.lock().give_back(tenant, more);
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// Gives back what is charged beyond so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less == 0 {
            return;
        }
        self.bytes = bytes;
        let tenant = &self.payer.tenant;
        self.answers.state.lock().give_back(tenant, less);
        if let Some(account) = &self.payer.account {
            account.release(less);
        }
        self.answers.freed.notify_waiters();
    }

    /// The same bytes, charged for as long as they are held.
    pub(crate) fn of(mut self, json: Bytes) -> Bytes {
        self.shrink(json.len());
        Arc::new(self).share(json)
    }

    /// As [`Self::of`], for one of several that are charged together, until the last of them is dropped.
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
        let answers = Answers::new(120);
        let mut a = answers.reserve(&payer("a"), 60, soon()).await.unwrap();
        assert!(!a.cover(61), "half of it, alone");
        let b = answers.reserve(&payer("b"), 30, soon()).await.unwrap();
        assert_eq!(answers.usage().held, 90);
        let refused = answers.reserve(&payer("b"), 1, soon()).await.unwrap_err();
        assert!(refused.contains("transport.answersInMemory"), "{refused}");
        let c = answers.reserve(&payer("c"), 15, soon()).await.unwrap();
        drop((a, b, c));
        let usage = answers.usage();
        assert_eq!((usage.held, usage.peak, usage.rejected), (0, 105, 1));
        assert!(answers.state.lock().tenants.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_served_as_soon_as_bytes_are_dropped() {
        let answers = Answers::new(120);
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
    async fn what_can_never_be_held_is_rejected_at_once() {
        let (answers, payer) = (Answers::new(120), payer("a"));
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
    async fn what_an_account_has_no_room_for_is_charged_to_nobody() {
        let answers = Answers::new(1000);
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
