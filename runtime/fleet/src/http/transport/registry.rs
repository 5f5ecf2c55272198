//! Who shares connections with whom. Entry points: [`Transports::connect`] and [`Transports::exchange`].

use super::TransportOptions;
use super::answers::{AnswerUse, Answers};
use super::connection::Connection;
use super::http::Http;
use super::sockets::{SocketUse, Sockets};
use crate::http::config::ClusterConfig;
use crate::metrics::ClusterMetrics;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Credential plugins that are started at once.
const PLUGINS: usize = 16;

/// The ways to servers, by what they are shared by. Entries vanish with their last user.
pub(crate) struct Transports {
    host: Handle,
    options: TransportOptions,
    plugins: Arc<Semaphore>,
    sockets: Sockets,
    answers: Arc<Answers>,
    /// Holds no connection alive: each user holds its own `Arc`. Dead entries are dropped whenever one is added.
    shared: Mutex<HashMap<[u8; 32], Weak<Http>>>,
}

impl Transports {
    pub(crate) fn new(host: Handle, options: TransportOptions) -> Self {
        Self {
            host,
            sockets: Sockets::new(&options),
            answers: Answers::new(options.max_answers),
            options,
            plugins: Arc::new(Semaphore::new(PLUGINS)),
            shared: Mutex::default(),
        }
    }

    /// The way to a server; nothing is read or sent yet. `vital`: for the local cluster.
    pub(crate) fn connect(
        &self,
        config: &ClusterConfig,
        vital: bool,
        metrics: Arc<ClusterMetrics>,
    ) -> Connection {
        Connection::new(
            config,
            self.http(config, vital),
            vital,
            &self.host,
            &self.options,
            self.answers.clone(),
            metrics,
        )
    }

    /// Has a connection go on with other credentials for the same server: new calls use them, watches end and resume with them,
    /// and the old sockets are closed once what they carry has ended.
    pub(crate) fn exchange(&self, connection: &Connection, config: &ClusterConfig) {
        connection.exchange(self.http(config, connection.is_vital()));
    }

    /// How many sockets there are, where there is a cap.
    pub(crate) fn sockets(&self) -> Option<SocketUse> {
        self.sockets.now()
    }

    /// The bytes of answers that are held.
    pub(crate) fn answers(&self) -> AnswerUse {
        self.answers.usage()
    }

    fn http(&self, config: &ClusterConfig, vital: bool) -> Arc<Http> {
        let http = self.shared_http(config);
        if vital {
            http.becomes_vital();
        }
        http
    }

    fn shared_http(&self, config: &ClusterConfig) -> Arc<Http> {
        let digest = config.connection_digest();
        let mut shared = self.shared.lock();
        if let Some(http) = shared.get(&digest).and_then(Weak::upgrade) {
            return http;
        }
        shared.retain(|_, http| http.strong_count() > 0);
        let http = Http::new(
            config.clone(),
            &self.host,
            &self.options,
            self.plugins.clone(),
            self.sockets.clone(),
        );
        shared.insert(digest, Arc::downgrade(&http));
        http
    }
}
