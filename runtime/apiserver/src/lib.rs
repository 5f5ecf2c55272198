//! An in-memory Kubernetes API server, many clusters in one process. Entry point: [`Server`].
//!
//! It behaves as kube-apiserver 1.36 with kube-controller-manager's garbage collector and namespace controller does, for what
//! controllers and kubectl use. It accepts every client unless it is given bearer tokens, allows everything, keeps nothing on disk, runs
//! no admission webhooks and no conversion webhooks, and answers in JSON only (it reads JSON, YAML and, for built-in
//! kinds, protocol buffers).
//!
//! [`Builder::kcp_shards`] serves a kcp too: workspaces, exports and bindings, and the virtual workspaces of exports.
//!
//! [`Server::fork`] serves copies of other clusters, which keep every write to themselves.
//!
//! Fields of the kinds in `schema/builtin.json` and of CRDs are typed for server-side apply and strategic merge patch; where a
//! schema says nothing, lists are atomic.
//!
//! Modules are listed from the words to the whole: a module imports only modules above it.
//!
//! Not here: subresources that a kubelet answers, admission of quotas and limit ranges, kinds of webhooks, volume attachments and
//! resource claims, and controllers other than the two named above.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use serde_json::json;
//! use windlass_apiserver::Server;
//!
//! let server = Server::builder().cluster("alpha").bind("127.0.0.1:0").await?;
//! let alpha = server.cluster("alpha").ok_or("no cluster")?;
//! alpha.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}))?;
//! assert_eq!(alpha.list("v1", "ConfigMap", "default")?.len(), 1);
//! println!("{}", server.kubeconfig());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod base64;
mod quantity;
mod duration;
mod stamp;
mod status;
mod call;
mod hook;
mod fault;
mod selector;
mod schema;
mod cel;
mod rules;
mod protobuf;
mod patch;
mod apply;
mod resource;
mod part;
mod builtin;
mod registry;
mod body;
mod store;
mod convert;
mod metadata;
mod crd;
mod place;
mod state;
mod kinds;
mod write;
mod cleanup;
mod origin;
mod cluster;
mod fork;
mod clusters;
mod kcp;
mod http;
mod server;
mod schedule;

pub use call::{Call, Verb};
pub use cluster::{Backup, Cluster};
pub use fault::{AnswerFault, Damage, EventFault, Fault, Faults, RequestFault, Rule, RuleId};
pub use fork::Change;
pub use hook::{AnswerVerdict, FrameVerdict, Hook, Reply, ReplyBody, RequestVerdict};
pub use kcp::WorkspaceError;
pub use origin::{Budget, Origin, OriginError};
pub use schedule::{Disturbance, Schedule, Shape, Step};
pub use server::{BindError, Builder, ClientCertificate, Connections, Entrance, Server, TlsError};
pub use status::ApiError;
