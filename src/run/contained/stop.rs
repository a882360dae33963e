//! How a container is stopped: asked by signals first, then removed by name; its client is ended only when the container is
//! long gone. Never the other way round: a killed client leaves its container alive.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use super::{Control, lock};
use crate::{docker::client::Docker, run::executor::StopHow};

/// Asks, then insists, until the attempt says that it is over.
pub(super) fn stop_container(docker: &Docker, control: &Control, how: StopHow) {
    let begun = Instant::now();
    let over = || control.over.load(Ordering::SeqCst);
    let current = || lock(&control.container).clone();
    if let StopHow::Grace { int_first, grace } = how {
        // A container that is not there yet cannot hear: ask again until one of the two has happened.
        while !over() && begun.elapsed() < grace {
            let Some((name, _)) = current() else {
                thread::sleep(Duration::from_millis(50));
                if begun.elapsed() > Duration::from_secs(2) && current().is_none() {
                    return;
                }
                continue;
            };
            if int_first && docker.signal(&name, "INT").unwrap_or(false) {
                wait(grace / 2, over);
            }
            let left = grace.saturating_sub(begun.elapsed()).max(Duration::from_secs(1));
            if over() || docker.stop(&name, left).unwrap_or(false) {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        wait(Duration::from_secs(3), over);
    }
    if how == StopHow::Now
        && let Some(name) = lock(&control.collecting).clone()
    {
        let _ = docker.remove(&name);
    }
    let insisted = Instant::now();
    while !over() && insisted.elapsed() < Duration::from_secs(120) {
        let Some((name, killer)) = current() else { return };
        let gone = docker.remove(&name).unwrap_or(false);
        if gone && insisted.elapsed() > Duration::from_secs(20) {
            // The container is gone for long and the client does not notice: only now is it ended itself.
            killer.kill();
        }
        wait(Duration::from_millis(300), over);
    }
}

fn wait(limit: Duration, over: impl Fn() -> bool) {
    let begun = Instant::now();
    while !over() && begun.elapsed() < limit {
        thread::sleep(Duration::from_millis(20));
    }
}
