//! Whole runs of the real program over real containers. Every test here needs a docker engine with kew's images, and
//! fails without one. Names start with `docker_`, so that they can be chosen and counted.

mod agent;
mod agents;
mod commits;
mod contain;
mod demo;
mod doctor;
mod engine;
mod faults;
mod images;
mod kill;
mod network;
mod origins;
mod own;
mod rig;
mod rounds;
mod strangers;
mod stream;
mod up;
mod verdicts;
