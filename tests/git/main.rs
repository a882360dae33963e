//! Host git, by real git in temporary folders. (The sealed container is tested elsewhere; here its script runs under sh.)

#[path = "../support/http.rs"]
mod http;
#[path = "../support/git.rs"]
mod support;

mod argv;
mod artifacts;
mod base;
mod checkout;
mod closure;
mod collect;
mod depth;
mod hostile;
mod keep;
mod land;
mod merge;
mod mirror;
mod phantom;
mod policy;
mod publish;
mod publish_gh;
mod publish_http;
mod reading;
mod recover;
mod tree;
