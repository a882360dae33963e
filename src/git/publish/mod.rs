//! Pushing a commit to the user's remote, with the user's own credentials and never by the agent's configuration.
//!
//! git runs in a bare repository that exists for one push alone: made by kew, empty, with the user's objects as an
//! alternate. The environment and the global configuration are the user's, so that credential helpers and ssh work; what of
//! the repository's own configuration is needed (`remote` finds it) is passed by environment. Addresses and their secrets
//! are in no argument and no message. Invariant: a branch is made where there is none, or moved where its tip is a commit
//! that kew itself had pushed; all else is refused. Reading order: `address`, `remote`, `setting`, `push`, `fault`.

pub mod address;
pub mod fault;
pub mod push;
pub mod remote;
mod setting;

pub use self::{
    address::Address,
    fault::{Kind, PublishFault},
    push::{Outlet, Pushed, Tips},
    remote::Remote,
};
