//! The tools for authors of guests: new projects, builds, an in-memory fleet and test cases. Entry points: [`scaffold`], [`guest_build`],
//! [`simulated`] and [`cases`].

pub(crate) mod cases;
mod embedded;
pub(crate) mod guest_build;
mod kubeconfig;
pub(crate) mod scaffold;
pub(crate) mod seed;
pub(crate) mod simulated;
mod workspaces;
