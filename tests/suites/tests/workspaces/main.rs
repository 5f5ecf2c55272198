//! Workspaces of kcp as clusters, on a real kcp and on the one in memory. Entry points: the modules below.
//!
//! The scenarios are those of multicluster-runtime's provider for kcp:
//!
//! | scenario | test |
//! |---|---|
//! | endpoints of a slice come and go | `bindings::a_binding_that_is_made_and_removed…`, `endpoints::workspaces_of_all_endpoints…` |
//! | an endpoint fails and others do not | `endpoints::an_endpoint_that_refuses…` |
//! | a workspace that binds is a cluster, only its objects are seen there, and only by its own handlers | `bound::a_workspace_that_binds…` |
//! | an index per cluster and over all | `bound::an_index…` |
//! | one event for each workspace, there | `bound::each_workspace_gets_its_own_event…` |
//! | two shards | `endpoints::workspaces_of_all_endpoints…`; in memory `engine::workspaces` |
//! | a binding that is not ready | `bindings::a_workspace_is_engaged_once…` |
//! | the last of several bindings | `bindings::a_workspace_stays_until_its_last…` |
//! | a slice is deleted; the last consumer goes | `bindings::a_slice_that_is_deleted…`, `endpoints::workspaces_of_all_endpoints…` |
//! | lookup by path | `bound::a_workspace_is_found…` |
//! | a client by path, of the root and of a new workspace | `bound::a_client_by_path…` |
//! | deletions that come late | `bindings::a_workspace_stays_until_finalizers…` |
//! | down to a compute cluster and back | `journey` |
//! | workspaces that begin and end | `stages` |
//!
//! Beside them, what an apply means there: `applies`. Faults: `restart`, and bindings that come and go in `bindings`. Size: `crowd`.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

mod applies;
mod bindings;
mod bound;
mod crowd;
mod endpoints;
mod ground;
mod journey;
mod keeper;
mod play;
mod restart;
mod shop;
mod stages;
