//! A request of `wasi:http` with its body, and the answer. Entry point: [`Exchange`].
//!
//! A request is sent when it is handed over and its body is finished, whichever comes last, and in one piece. So the guest's calls have
//! one order, with which a recording plays them again.

use super::handle::BodyTooLarge;
use super::wasi::http::types::ErrorCode;
use crate::contract::windlass::runtime::http;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use wasmtime_wasi::p2::{StreamError, StreamResult};
use windlass_fleet::cluster::AnswerAccount;

/// Most bytes of a list of headers that a guest makes, each with [`HEADER`].
const MOST_HEADERS: usize = 64 << 10;
/// The cost of a header besides its bytes.
const HEADER: usize = 64;

/// One exchange, which the handles of its request, body and answer share.
pub(crate) type SharedExchange = Arc<Mutex<Exchange>>;

/// Bytes that the host keeps for a guest, charged to its tenant.
#[derive(Debug)]
pub(crate) struct Held {
    account: Arc<dyn AnswerAccount>,
    bytes: usize,
}

/// The tenant has no memory for what a guest leaves with its host.
#[derive(Debug, thiserror::Error)]
#[error(
    "the memory that the tenant's guests share has no room for an HTTP request: raise the tenant's limits.memory, or send less"
)]
pub(crate) struct NoRoom;

impl Held {
    /// Nothing yet. As long as it is there, so is all else that the account holds.
    pub(crate) fn on(account: Arc<dyn AnswerAccount>) -> Self {
        Self { account, bytes: 0 }
    }

    fn resize(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && !self.account.charge(more) {
            return Err(NoRoom);
        }
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.account.release(less);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.release(self.bytes);
        }
    }
}

/// Names and values of headers.
#[derive(Debug)]
pub(crate) struct Headers {
    pairs: Vec<(String, Vec<u8>)>,
    held: Held,
}

/// Headers that a guest may not keep. Ends it: the standard has no error for this.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadersError {
    #[error("the headers of one HTTP request are larger than {} KiB: send less", MOST_HEADERS >> 10)]
    TooLarge,
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

impl Headers {
    /// None yet.
    pub(crate) fn none(account: Arc<dyn AnswerAccount>) -> Self {
        Self {
            pairs: Vec::new(),
            held: Held::on(account),
        }
    }

    /// Those of an answer, which its account holds.
    pub(crate) fn answered(pairs: Vec<(String, String)>, account: Arc<dyn AnswerAccount>) -> Self {
        let bytes = pairs
            .into_iter()
            .map(|(name, value)| (name, value.into_bytes()));
        Self {
            pairs: bytes.collect(),
            held: Held::on(account),
        }
    }

    pub(crate) fn pairs(&self) -> &[(String, Vec<u8>)] {
        &self.pairs
    }

    /// Changes them. After an error they are not to be used.
    pub(crate) fn change(
        &mut self,
        change: impl FnOnce(&mut Vec<(String, Vec<u8>)>),
    ) -> Result<(), HeadersError> {
        change(&mut self.pairs);
        let size = |(name, value): &(String, Vec<u8>)| name.len() + value.len() + HEADER;
        let bytes = self.pairs.iter().map(size).sum();
        if bytes > MOST_HEADERS {
            return Err(HeadersError::TooLarge);
        }
        Ok(self.held.resize(bytes)?)
    }
}

/// What a server answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
    /// The charge for all of it.
    pub(crate) held: Held,
}

impl Answer {
    pub(crate) fn new(response: http::Response, account: Arc<dyn AnswerAccount>) -> Self {
        Self {
            status: response.status,
            headers: Headers::answered(response.headers, account.clone()),
            body: response.body.into(),
            held: Held::on(account),
        }
    }
}

/// A request without its body, as the contract has it.
pub(crate) struct Asked {
    pub(crate) request: http::Request,
    /// The header `content-length`, if the guest has set it: the host sends its own.
    pub(crate) length: Option<u64>,
}

/// See the module.
pub(crate) struct Exchange {
    body: Vec<u8>,
    /// Most bytes of the body.
    most: usize,
    held: Held,
    stage: Stage,
    /// The request, from when it is handed over until it is sent.
    asked: Option<Asked>,
    answer: Option<Result<Answer, ErrorCode>>,
}

/// How far the body is.
enum Stage {
    Open,
    Whole,
    Broken(ErrorCode),
}

impl Exchange {
    /// Without a body. One may have at most so many bytes.
    pub(crate) fn new(most: usize, account: Arc<dyn AnswerAccount>) -> Self {
        Self {
            body: Vec::new(),
            most,
            held: Held::on(account),
            stage: Stage::Whole,
            asked: None,
            answer: None,
        }
    }

    /// The guest takes the body, and is going to finish it.
    pub(crate) fn open(&mut self) {
        self.stage = Stage::Open;
    }

    /// Adds bytes to the body. After an error it cannot be finished.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> StreamResult<()> {
        let Stage::Open = self.stage else {
            return Err(StreamError::Closed);
        };
        if bytes.len() > self.most - self.body.len() {
            let error = BodyTooLarge { most: self.most };
            self.break_off(error.code());
            return Err(StreamError::LastOperationFailed(error.into()));
        }
        if let Err(error) = self.held.resize(self.body.len() + bytes.len()) {
            self.break_off(ErrorCode::InternalError(Some(error.to_string())));
            return Err(StreamError::LastOperationFailed(error.into()));
        }
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    /// The body ends. Returns the request, if it is to be sent now.
    pub(crate) fn finish(&mut self) -> Result<Option<http::Request>, ErrorCode> {
        if let Stage::Open = self.stage {
            self.stage = Stage::Whole;
        }
        let ready = self.ready();
        match &self.stage {
            Stage::Broken(code) => Err(code.clone()),
            Stage::Open | Stage::Whole => Ok(ready),
        }
    }

    /// The body will not be whole.
    pub(crate) fn break_off(&mut self, code: ErrorCode) {
        if let Stage::Open = self.stage {
            self.stage = Stage::Broken(code);
            self.body = Vec::new();
            // Less is never refused.
            let _ = self.held.resize(0);
        }
        self.ready();
    }

    /// The guest hands the request over. Returns it, if it is to be sent now.
    pub(crate) fn hand_over(&mut self, asked: Asked) -> Option<http::Request> {
        self.asked = Some(asked);
        self.ready()
    }

    /// The guest does not want the answer.
    pub(crate) fn forget(&mut self) {
        self.asked = None;
        self.answer = None;
    }

    /// Takes the request, if it and its body are whole.
    fn ready(&mut self) -> Option<http::Request> {
        if let Stage::Open = self.stage {
            return None;
        }
        let asked = self.asked.take()?;
        let length = u64::try_from(self.body.len()).unwrap_or(u64::MAX);
        let is_whole = matches!(self.stage, Stage::Whole);
        if is_whole && asked.length.is_some_and(|said| said != length) {
            self.stage = Stage::Broken(ErrorCode::HttpRequestBodySize(Some(length)));
        }
        if let Stage::Broken(code) = &self.stage {
            self.answer = Some(Err(code.clone()));
            return None;
        }
        Some(http::Request {
            body: std::mem::take(&mut self.body),
            ..asked.request
        })
    }

    /// Keeps the answer until the guest takes it.
    pub(crate) fn answer(&mut self, answer: Result<Answer, ErrorCode>) {
        let _ = self.held.resize(0);
        self.answer = Some(answer);
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// The answer, once.
    pub(crate) fn take_answer(&mut self) -> Option<Result<Answer, ErrorCode>> {
        self.answer.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Has room for so many bytes.
    #[derive(Debug)]
    struct Account(AtomicUsize);

    impl Account {
        fn of(bytes: usize) -> Arc<Self> {
            Arc::new(Self(AtomicUsize::new(bytes)))
        }

        fn left(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl AnswerAccount for Account {
        fn admits(&self, _: usize) -> Result<(), String> {
            Ok(())
        }

        fn charge(&self, bytes: usize) -> bool {
            let order = Ordering::Relaxed;
            let take = |left: usize| left.checked_sub(bytes);
            self.0.fetch_update(order, order, take).is_ok()
        }

        fn release(&self, bytes: usize) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn asked(length: Option<u64>) -> Asked {
        let request = http::Request {
            method: "POST".to_owned(),
            url: "https://api.example.com/".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout_ms: None,
            options: Vec::new(),
        };
        Asked { request, length }
    }

    fn body(request: Option<http::Request>) -> Option<Vec<u8>> {
        request.map(|request| request.body)
    }

    #[test]
    fn a_request_is_sent_once_when_it_and_its_body_are_whole() {
        let account = Account::of(100);
        let new = || Exchange::new(10, account.clone());
        assert_eq!(body(new().hand_over(asked(None))), Some(Vec::new()));

        let mut late = new();
        late.open();
        assert_eq!(body(late.hand_over(asked(Some(3)))), None);
        late.write(b"abc").unwrap();
        assert_eq!(body(late.finish().unwrap()), Some(b"abc".to_vec()));
        assert!(late.write(b"d").is_err());

        let mut early = new();
        early.open();
        early.write(b"abc").unwrap();
        assert_eq!(body(early.finish().unwrap()), None);
        assert_eq!(body(early.hand_over(asked(None))), Some(b"abc".to_vec()));

        let mut forgotten = new();
        forgotten.open();
        forgotten.hand_over(asked(None));
        forgotten.forget();
        assert_eq!(body(forgotten.finish().unwrap()), None);
    }

    #[test]
    fn a_body_that_is_not_whole_is_never_sent() {
        let account = Account::of(8);
        let broken = |change: &dyn Fn(&mut Exchange)| {
            let mut exchange = Exchange::new(10, account.clone());
            exchange.open();
            let sent = exchange.hand_over(asked(Some(3)));
            assert!(sent.is_none());
            change(&mut exchange);
            assert!(exchange.finish().is_err());
            exchange.take_answer().unwrap().err().unwrap()
        };
        let code = broken(&|exchange| exchange.break_off(ErrorCode::LoopDetected));
        assert!(matches!(code, ErrorCode::LoopDetected));
        let code = broken(&|exchange| exchange.write(b"ab").unwrap());
        assert!(matches!(code, ErrorCode::HttpRequestBodySize(Some(2))));
        let code = broken(&|exchange| assert!(exchange.write(&[0; 11]).is_err()));
        assert!(matches!(code, ErrorCode::HttpRequestBodySize(Some(10))));
        let code = broken(&|exchange| assert!(exchange.write(&[0; 9]).is_err()));
        assert!(matches!(code, ErrorCode::InternalError(Some(_))));
        assert_eq!(account.left(), 8);
    }

    #[test]
    fn headers_are_bounded_and_charged_until_nobody_has_them() {
        let account = Account::of(1000);
        let mut headers = Headers::none(account.clone());
        let pair = |value: usize| ("a".to_owned(), vec![b'x'; value]);
        headers.change(|pairs| pairs.push(pair(100))).unwrap();
        assert_eq!(account.left(), 1000 - 101 - HEADER);
        headers.change(Vec::clear).unwrap();
        assert_eq!(account.left(), 1000);
        headers.change(|pairs| pairs.push(pair(100))).unwrap();
        let full = headers.change(|pairs| pairs.push(pair(1000)));
        assert!(matches!(full, Err(HeadersError::NoRoom(_))));
        let large = headers.change(|pairs| pairs.push(pair(MOST_HEADERS)));
        assert!(matches!(large, Err(HeadersError::TooLarge)));
        drop(headers);
        assert_eq!(account.left(), 1000);
    }
}
