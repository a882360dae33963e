//! Host git, by real git in temporary folders. (The sealed container is tested elsewhere; here its script runs under sh.)

#[path = "../support/git.rs"]
mod support;

mod argv;
mod base;
mod checkout;
mod closure;
mod collect;
mod depth;
mod hostile;
mod land;
mod merge;
mod mirror;
mod phantom;
mod policy;
mod reading;
mod recover;
mod tree;
