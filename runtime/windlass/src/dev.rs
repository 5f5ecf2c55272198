//! The tools for authors of guests: new projects, builds, definitions, an in-memory fleet and test cases. Entry points: [`scaffold`],
//! [`guest_build`], [`definitions`], [`simulated`] and [`cases`].

pub(crate) mod cases;
pub(crate) mod definitions;
mod embedded;
pub(crate) mod guest_build;
mod kubeconfig;
pub(crate) mod replaced_file;
pub(crate) mod scaffold;
pub(crate) mod seed;
pub(crate) mod simulated;
mod workspaces;
