//! Building images from the binary alone, and trying images before a run.

use crate::{
    contain::docker_build,
    rig::{Rig, docker},
};

/// The base image of this machine, where the pinned one is not there.
pub fn base() -> Vec<String> {
    let have = |image: &str| {
        std::process::Command::new("docker")
            .args(["image", "inspect", image])
            .output()
            .unwrap()
            .status
            .success()
    };
    if have("debian:bookworm-slim") {
        vec!["--base-image".into(), "debian:bookworm-slim".into()]
    } else {
        Vec::new()
    }
}

#[test]
fn docker_an_image_built_from_the_binary_passes_smoke_and_runs() {
    let rig = Rig::new();
    let tag = format!("kew-test-built-{}", std::process::id());
    rig.settings(&format!(
        "[sandbox]\nnetwork = \"none\"\ncheckout_dir = \"{}\"\n[sandbox.images]\nshell = \"{tag}:latest\"\n",
        rig.checkouts
    ));
    let base = base();
    let mut args = vec!["sandbox", "build", "shell"];
    args.extend(base.iter().map(String::as_str));
    let built = rig.kew(&args);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let smoke = rig.kew(&["sandbox", "smoke"]);
    assert_eq!(String::from_utf8_lossy(&smoke.stdout), format!("shell: ok ({tag}:latest)\n"));
    rig.run(&rig.plan("[nodes.a]\nprompt = 'echo a > a; git add a; git commit -qm a'\n")).expect(0);
    docker(&["rmi", &tag]);
}

#[test]
fn docker_smoke_says_what_is_wrong_with_an_image() {
    let rig = Rig::new();
    for (name, dockerfile, says) in [
        ("root", "FROM kew-shell\nUSER root\n", "the user is 0, not 1001"),
        (
            "home",
            "FROM kew-shell\nUSER root\nRUN chmod 0755 /home/agent\nUSER agent\n",
            "the home folder is 755, not 0700",
        ),
        ("git", "FROM kew-shell\nUSER root\nRUN rm -f /usr/bin/git\nUSER agent\n", "there is no git"),
    ] {
        let tag = format!("kew-test-smoke-{name}-{}", std::process::id());
        docker_build(&tag, dockerfile);
        rig.settings(&format!(
            "[sandbox]\nnetwork = \"none\"\ncheckout_dir = \"{}\"\n[sandbox.images]\nshell = \"{tag}\"\n",
            rig.checkouts
        ));
        let smoke = rig.kew(&["sandbox", "smoke", "--runner", "shell"]);
        let text = String::from_utf8_lossy(&smoke.stdout).into_owned();
        assert_eq!(smoke.status.code(), Some(4), "{text}");
        assert!(text.contains(says), "{text}");
        docker(&["rmi", &tag]);
    }
}
