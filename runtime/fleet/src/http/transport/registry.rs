//! Finds the client that clusters with the same server, TLS and credentials share. Entry points: [`Transports::connect`] and
//! [`Transports::exchange`].

use super::TransportOptions;
use super::answer_memory::{AnswerMemory, AnswerUse};
use super::client::AuthenticatedClient;
use super::connection::Connection;
use super::outside::OutsideServer;
use super::sockets::{SocketUse, Sockets};
use crate::http::config::{ClusterConfig, ServerAddresses};
use crate::metrics::ClusterMetrics;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Credential plugins that start at once, for all servers together.
const PLUGINS: usize = 16;

/// The clients of a process, and the limits that all of them share.
pub(crate) struct Transports {
    host: Handle,
    options: TransportOptions,
    plugins: Arc<Semaphore>,
    sockets: Sockets,
    answers: Arc<AnswerMemory>,
    /// Of the API servers that are connected now.
    server_addresses: ServerAddresses,
    /// By [`ClusterConfig::connection_digest`]. Each user keeps its client alive; dropped clients are removed when one is added.
    clients: Mutex<HashMap<[u8; 32], Weak<AuthenticatedClient>>>,
}

impl Transports {
    pub(crate) fn new(host: Handle, options: TransportOptions) -> Self {
        Self {
            host,
            sockets: Sockets::new(&options),
            answers: AnswerMemory::new(options.max_answers),
            options,
            plugins: Arc::new(Semaphore::new(PLUGINS)),
            server_addresses: ServerAddresses::default(),
            clients: Mutex::default(),
        }
    }

    /// A connection to a server. Reads and sends nothing yet. `is_local`: for the local cluster.
    pub(crate) fn connect(
        &self,
        config: &ClusterConfig,
        is_local: bool,
        metrics: Arc<ClusterMetrics>,
    ) -> Connection {
        Connection::new(
            config,
            self.client(config, is_local),
            is_local,
            &self.host,
            &self.options,
            self.answers.clone(),
            metrics,
        )
    }

    /// Gives a connection other credentials for the same server. New calls use them. Watches end, to resume with them. Old sockets are closed
    /// when their calls have ended.
    pub(crate) fn exchange(&self, connection: &Connection, config: &ClusterConfig) {
        connection.exchange(self.client(config, connection.is_local()));
    }

    /// Sockets in use; `None`: there is no limit.
    pub(crate) fn sockets(&self) -> Option<SocketUse> {
        self.sockets.in_use()
    }

    /// Bytes of answers that are held.
    pub(crate) fn answers(&self) -> AnswerUse {
        self.answers.usage()
    }

    fn client(&self, config: &ClusterConfig, is_local: bool) -> Arc<AuthenticatedClient> {
        let client = self.shared_client(config);
        if is_local {
            client.mark_local();
        }
        client
    }

    /// A server that is no API server. Its connections are those of this answer alone, and end with its last clone: callers who do not know
    /// of each other share none. Reads and sends nothing yet.
    pub(crate) fn outside(&self, config: &ClusterConfig) -> OutsideServer {
        OutsideServer::new(self.new_client(config, None), &self.host, &self.options)
    }

    /// Of the API servers that are connected now.
    pub(crate) fn server_addresses(&self) -> &ServerAddresses {
        &self.server_addresses
    }

    /// The memory that answers to callers are charged to.
    pub(crate) fn answer_memory(&self) -> &Arc<AnswerMemory> {
        &self.answers
    }

    fn shared_client(&self, config: &ClusterConfig) -> Arc<AuthenticatedClient> {
        let digest = config.connection_digest();
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&digest).and_then(Weak::upgrade) {
            return client;
        }
        clients.retain(|_, client| client.strong_count() > 0);
        let client = self.new_client(config, Some(&self.server_addresses));
        clients.insert(digest, Arc::downgrade(&client));
        client
    }

    fn new_client(
        &self,
        config: &ClusterConfig,
        server_addresses: Option<&ServerAddresses>,
    ) -> Arc<AuthenticatedClient> {
        AuthenticatedClient::new(
            config.clone(),
            &self.host,
            &self.options,
            self.plugins.clone(),
            self.sockets.clone(),
            server_addresses.cloned(),
        )
    }
}
