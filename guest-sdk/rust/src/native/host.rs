//! The host of a process: one connection, and the clusters that it lends. Entry point: [`Host::connect`].

use crate::error::ApiError;
use crate::http;
use crate::types::{
    ClusterInfo, DeleteOptions, Event, GroupVersionKind, Level, Operation, Reply, Selection,
};
use crate::wire::{self, Lines};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

thread_local! {
    /// The host of the thread's guest code. Set only by [`Host::enter`].
    static CURRENT: RefCell<Option<Host>> = const { RefCell::new(None) };
}

/// The host of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Host(Rc<RefCell<Lines>>);

/// Ends [`Host::enter`].
pub(super) struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.take();
    }
}

impl Host {
    /// Connects to the host whose socket this file names.
    pub(super) fn connect(file: &Path) -> io::Result<Self> {
        let socket = std::fs::read_to_string(file)?;
        let lines = Lines::connect(Path::new(&socket))?;
        Ok(Self(Rc::new(RefCell::new(lines))))
    }

    /// Lets the thread's guest code call this host.
    pub(super) fn enter(&self) -> Entered {
        CURRENT.set(Some(self.clone()));
        Entered(())
    }

    /// The host of the thread; `None` in a unit test.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The next task; `None`: the host has ended.
    pub(super) fn next_task(&self) -> Option<Value> {
        self.0.borrow_mut().next().ok().flatten()
    }

    /// Ends a task. If the host has ended, there is no next one.
    pub(super) fn give_back(&self, outcome: &Value) {
        drop(self.0.borrow_mut().send(&json!({ "Return": outcome })));
    }

    pub(super) fn lent(&self, number: u64) -> Lent {
        Lent {
            host: self.clone(),
            number: u32::try_from(number).unwrap_or_default(),
        }
    }

    pub(crate) fn open(&self, name: &str) -> Result<Lent, ApiError> {
        let number = wire::result(self.call(&json!({"Open": {"name": name}})))?;
        Ok(self.lent(number.as_u64().unwrap_or_default()))
    }

    pub(crate) fn clusters(
        &self,
        label_selector: Option<&str>,
    ) -> Result<Vec<ClusterInfo>, ApiError> {
        let asked = json!({"Clusters": {"label_selector": label_selector}});
        Ok(wire::infos(&wire::result(self.call(&asked))?))
    }

    pub(crate) fn http(&self, request: &http::Request) -> Result<http::Response, ApiError> {
        let timeout = request.timeout.map(|timeout| timeout.as_millis());
        let asked = json!({"Http": {"request": {
            "method": request.method, "url": request.url, "headers": request.headers, "body": request.body,
            "timeout_ms": timeout.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)), "options": [],
        }}});
        Ok(wire::response(&wire::result(self.call(&asked))?))
    }

    pub(crate) fn config(&self) -> String {
        self.text("Config")
    }

    pub(crate) fn now(&self) -> String {
        self.text("Now")
    }

    pub(crate) fn log(&self, level: Level, message: &str, fields: &[(String, String)]) {
        let level = wire::case(&level);
        self.call(&json!({"Log": {"level": level, "message": message, "fields": fields}}));
    }

    fn text(&self, function: &str) -> String {
        let answer = self.call(&function.into());
        answer.as_str().unwrap_or_default().to_owned()
    }

    fn call(&self, function: &Value) -> Value {
        self.0.borrow_mut().call(function)
    }
}

/// A cluster that the host has lent until the task ends, or this is dropped.
#[derive(Debug)]
pub(crate) struct Lent {
    host: Host,
    number: u32,
}

impl Lent {
    pub(crate) fn name(&self) -> String {
        let answer = self.host.call(&json!({"Name": {"cluster": self.number}}));
        answer.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn run(&self, operation: &Operation) -> Result<Reply, ApiError> {
        let answer = self.host.call(&wire::function(self.number, operation));
        wire::result(answer).map(wire::reply)
    }

    pub(crate) fn delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let function = wire::delete_collection(self.number, kind, selection, options);
        wire::result(self.host.call(&function)).map(drop)
    }

    pub(crate) fn record(&self, event: &Event) {
        self.host.call(&wire::record_event(self.number, event));
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let drop_it = json!({"Call": {"Drop": {"cluster": self.number}}});
        // A host that has ended needs no answer.
        drop(self.host.0.borrow_mut().ask(&drop_it));
    }
}
