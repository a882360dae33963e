//! A project's own tools under the agents: a base image with cargo, kew's recipe on top of it, and a plan whose job runs
//! `cargo test`, doctests too, under the full argv. And: every image of kew's passes its own examinations.
//!
//! The images of the first test stay on the engine under names of their own, so that the next run finds their layers.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use crate::{
    images::base,
    rig::{Rig, docker, git, prompt},
};

const BASE: &str = "kew-test-cargo-base";
const IMAGE: &str = "kew-test-cargo-shell";

/// Debian's cargo on the base of kew's own images; nothing of kew's.
fn cargo_base() {
    let debian = base().get(1).cloned().unwrap_or_else(|| "debian:bookworm-slim".to_owned());
    let dockerfile = format!(
        "FROM {debian}\nRUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
         --no-install-recommends cargo >/dev/null && rm -rf /var/lib/apt/lists/*\n"
    );
    let mut build = Command::new("docker")
        .args(["build", "-q", "--network", "host", "-t", BASE, "-"])
        .env("DOCKER_BUILDKIT", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    build.stdin.take().unwrap().write_all(dockerfile.as_bytes()).unwrap();
    let output = build.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A crate with a unit test and a doctest, committed.
fn a_crate(rig: &Rig) {
    let write = |path: &str, text: &str| {
        let path = rig.repo.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "[package]\nname = \"adds\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"adds\"\nversion = \"0.1.0\"\n");
    write(".gitignore", "/target\n");
    let lib = "/// Adds.\n///\n/// ```\n/// assert_eq!(adds::add(1, 2), 3);\n/// ```\npub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n\n#[test]\nfn adds() {\n    assert_eq!(add(2, 2), 4);\n}\n";
    write("src/lib.rs", lib);
    git(&rig.repo, &["add", "."]);
    git(&rig.repo, &["commit", "-qm", "A crate"]);
}

#[test]
fn docker_a_job_runs_cargo_test_with_doctests_in_a_toolchain() {
    let rig = Rig::new();
    rig.settings(&format!(
        "[sandbox]\nnetwork = \"none\"\ncheckout_dir = \"{}\"\n[sandbox.images]\nshell = \"kew-shell:latest\"\n[sandbox.toolchains.rust.images]\nshell = \"{IMAGE}:latest\"\n",
        rig.checkouts
    ));
    cargo_base();
    let built = rig.kew(&["sandbox", "build", "--base", BASE, "--toolchain", "rust", "shell"]);
    let said = String::from_utf8_lossy(&built.stdout).into_owned();
    assert!(built.status.success(), "{said}{}", String::from_utf8_lossy(&built.stderr));
    assert!(said.contains(&format!("built {IMAGE}:latest\n")), "{said}");
    assert!(said.contains("[sandbox.toolchains.rust.images]"), "{said}");

    a_crate(&rig);
    let test = "cargo test --offline --locked 2>&1";
    let coder = |change: &str| format!("{change} && cargo test --offline --lib && git commit -qam change");
    // Its unit test passes either way: only the doctest sees the second change.
    let good = coder("sed -i s/Adds./Adds!/ src/lib.rs");
    let bad = coder("sed -i 's/add(1, 2), 3/add(1, 2), 4/' src/lib.rs");
    let plan = rig.plan(&format!(
        "toolchain = \"rust\"\n[nodes.good]\n{}\n[nodes.good-test]\nreviews = \"good\"\nverdict = \"exit\"\n{}\n[nodes.bad]\n{}\n[nodes.bad-test]\nreviews = \"bad\"\nverdict = \"exit\"\n{}\n",
        prompt(&good),
        prompt(test),
        prompt(&bad),
        prompt(test)
    ));
    let ran = rig.run(&plan);
    ran.expect(3);
    let run = ran.run_id().unwrap().to_owned();
    let output = rig.output(&run, "good-test");
    assert!(output.contains("test adds ... ok") && output.contains("Doc-tests adds"), "{output}");
    assert!(output.contains("test src/lib.rs - add (line 3) ... ok"), "{output}");
    assert_eq!(ran.ended("good")["commits"], 1);
    let verdicts: Vec<(String, String)> = ran
        .events
        .iter()
        .filter(|event| event["type"] == "verdict")
        .map(|event| (event["subject"].to_string(), event["verdict"].to_string()))
        .collect();
    assert!(verdicts.contains(&("\"good\"".into(), "\"approve\"".into())), "{verdicts:?}");
    assert!(verdicts.contains(&("\"bad\"".into(), "\"request_changes\"".into())), "{verdicts:?}");
    let output = rig.output(&run, "bad-test");
    assert!(output.contains("test src/lib.rs - add (line 3) ... FAILED"), "{output}");
}

const IMAGES: [(&str, &str); 5] = [
    ("claude-code", "kew-agent"),
    ("hermes", "kew-hermes"),
    ("opencode", "kew-opencode"),
    ("pi", "kew-pi"),
    ("shell", "kew-shell"),
];

#[test]
fn docker_every_image_passes_smoke_and_doctor_and_shares_its_layers() {
    let mut rig = Rig::new();
    for name in ["ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"] {
        rig.env.insert(name.into(), "sk-test-not-a-key".into());
    }
    let map: String =
        IMAGES.iter().map(|(runner, image)| format!("{runner} = \"{image}:latest\"\n")).collect();
    rig.settings(&format!(
        "[sandbox]\nnetwork = \"none\"\ncheckout_dir = \"{}\"\n[sandbox.images]\n{map}",
        rig.checkouts
    ));
    let smoke = rig.kew(&["sandbox", "smoke"]);
    let said = String::from_utf8_lossy(&smoke.stdout).into_owned();
    assert_eq!(smoke.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&smoke.stderr));
    for (runner, image) in IMAGES {
        assert!(said.contains(&format!("{runner}: ok ({image}:latest)\n")), "{said}");
    }
    let doctor = rig.kew(&["sandbox", "doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(0), "{said}");
    for (runner, _) in IMAGES {
        for check in ["image", "user", "home", "commit", "no prompt", "empty prompt"] {
            assert!(said.contains(&format!("ok   {runner}: {check}: ")), "{runner} {check}: {said}");
        }
    }
    assert!(!said.contains("FAIL") && !said.contains("sk-test-not-a-key"), "{said}");

    let layers = |image: &str| -> Vec<String> {
        let list = docker(&["image", "inspect", "-f", "{{join .RootFS.Layers \"\\n\"}}", image]);
        list.lines().map(str::to_owned).collect()
    };
    let of = |image| layers(image).into_iter().take(4).collect::<Vec<_>>();
    let shell = of("kew-shell");
    // Base image, recipe, git and user; then the tools, which the helper has no use for.
    assert_eq!(layers("kew-collector")[..3], shell[..3]);
    for (_, image) in IMAGES {
        assert_eq!(of(image), shell, "{image} shares the common layers");
    }
}
