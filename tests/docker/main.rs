//! Whole runs of the real program over real containers. Every test here needs a docker engine with kew's images, and
//! fails without one. Names start with `docker_`, so that they can be chosen and counted.

mod agent;
mod agents;
mod attacks;
mod commits;
mod contain;
mod demo;
mod diamonds;
mod doctor;
mod engine;
mod faults;
mod images;
mod kept;
mod kill;
mod leaks;
mod network;
mod origins;
mod own;
mod policy;
mod publish;
mod remapped;
mod resume;
mod rig;
mod rounds;
mod strangers;
mod stream;
mod tables;
mod toolchain;
mod untouched;
mod up;
mod users;
mod verdicts;
