//! What people and programs are told of a run: while it goes on, when it ends, and afterwards.

mod after;
mod lines;
mod progress;
mod support;
