//! Host git, by real git in temporary folders. (The sealed container is tested elsewhere; here its script runs under sh.)

#[path = "../support/git.rs"]
mod support;

mod argv;
mod artifacts;
mod base;
mod checkout;
mod collect;
mod hostile;
mod keep;
mod land;
mod merge;
mod mirror;
mod reading;
