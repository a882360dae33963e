//! `kew sandbox up` from the binary alone, and agents on a project's own image.
//!
//! Images of tests have a label of their own: the same instructions would be the same image, and one test could not remove it
//! while another uses it.

use std::fs;

use crate::{
    contain::docker_build,
    images::base,
    rig::{Rig, docker, prompt},
};

fn tag(name: &str) -> String {
    format!("kew-test-{name}-{}", std::process::id())
}

/// stdout, stderr and exit code.
fn kew(rig: &Rig, args: &[&str]) -> (String, String, i32) {
    let base = base();
    let args: Vec<&str> = args.iter().copied().chain(base.iter().map(String::as_str)).collect();
    let output = rig.kew(&args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

#[test]
fn docker_up_makes_a_new_machine_ready_and_is_safe_to_repeat() {
    let mut rig = Rig::new();
    let (shell, collector) = (tag("up"), tag("up-collector"));
    // The mapping of this test is in the environment; the file has none for `shell`, and a comment that must survive.
    rig.env.insert("KEW_SANDBOX__IMAGES__SHELL".into(), format!("{shell}:latest"));
    let before = format!(
        "# mine\n[sandbox]\ncheckout_dir = \"{}\"\ncollector = \"{collector}:latest\" # own\n",
        rig.checkouts
    );
    rig.settings(&before);
    let file = rig.root.join("config/kew/config.toml");
    let map = format!("[sandbox.images]\nshell = \"{shell}:latest\"\n");

    let (out, err, code) = kew(&rig, &["sandbox", "up", "shell", "--print"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, map);
    assert_eq!(fs::read_to_string(&file).unwrap(), before, "`--print` writes nothing");
    for line in [
        format!("image {shell}:latest: built"),
        format!("image {collector}:latest: built"),
        "network kew-allowlist: up to date".to_owned(),
        "smoke shell: ok".to_owned(),
        "ok   shell: empty prompt: refused with exit status 64".to_owned(),
    ] {
        assert!(err.contains(&line), "{line}\n{err}");
    }

    let (out, err, code) = kew(&rig, &["sandbox", "up", "shell"]);
    assert_eq!((out, code), (map.clone(), 0), "{err}");
    assert!(err.contains(&format!("image {shell}:latest: up to date")), "{err}");
    assert!(err.contains(&format!("image {collector}:latest: up to date")), "{err}");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{before}\n{map}"));

    // Without the variable the file alone maps it, and a plan runs.
    rig.env.clear();
    let (_, err, code) = kew(&rig, &["sandbox", "up"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("is left as it is"), "{err}");
    rig.run(&rig.plan("[nodes.a]\nprompt = 'echo a > a; git add a; git commit -qm a'\n")).expect(0);

    // A mapping that is there stays; so does an image that kew did not build.
    let own = tag("up-own");
    docker_build(&own, "FROM kew-shell\nLABEL kew.test=own kew.inputs=\n");
    rig.env.insert("KEW_SANDBOX__IMAGES__SHELL".into(), format!("{own}:latest"));
    let id = docker(&["image", "inspect", "-f", "{{.Id}}", &own]);
    let (_, err, code) = kew(&rig, &["sandbox", "up", "shell"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("not built by kew, left as it is"), "{err}");
    assert!(err.contains(&format!("maps `shell` to `{shell}:latest`, not to `{own}:latest`")), "{err}");
    assert_eq!(docker(&["image", "inspect", "-f", "{{.Id}}", &own]), id);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{before}\n{map}"));
    docker(&["rmi", &shell, &collector, &own]);
}

#[test]
fn docker_up_makes_the_settings_file_and_writes_none_if_an_image_does_not_work() {
    let mut rig = Rig::new();
    let (good, bad) = (tag("up-good"), tag("up-bad"));
    docker_build(&good, "FROM kew-shell\nLABEL kew.test=good kew.inputs=\n");
    docker_build(&bad, "FROM kew-shell\nLABEL kew.test=bad kew.inputs=\nENTRYPOINT [\"/bin/true\"]\n");
    let config = rig.root.join("config");
    fs::remove_dir_all(&config).unwrap();
    rig.env.insert("KEW_SANDBOX__COLLECTOR".into(), good.clone());
    rig.env.insert("KEW_SANDBOX__IMAGES__SHELL".into(), bad.clone());
    let (out, err, code) = kew(&rig, &["sandbox", "up"]);
    assert_eq!((out.as_str(), code), ("", 4), "{err}");
    assert!(err.contains("FAIL shell: no prompt: taken"), "{err}");
    assert!(!config.exists());

    rig.env.insert("KEW_SANDBOX__IMAGES__SHELL".into(), good.clone());
    let (out, err, code) = kew(&rig, &["sandbox", "up"]);
    assert_eq!((out, code), (format!("[sandbox.images]\nshell = \"{good}\"\n"), 0), "{err}");
    let file = fs::read_to_string(config.join("kew/config.toml")).unwrap();
    assert!(
        file.starts_with("# ") && file.ends_with(&format!("\n[sandbox.images]\nshell = \"{good}\"\n")),
        "{file}"
    );
    docker(&["rmi", &good, &bad]);
}

#[test]
fn docker_a_project_image_becomes_a_toolchain() {
    let rig = Rig::new();
    let (project, image) = (tag("project"), tag("mk"));
    let debian = base().pop().unwrap_or_else(|| "debian:bookworm-slim".to_owned());
    // It ends as another user, with a program of its own: neither may matter.
    docker_build(
        &project,
        &format!(
            "FROM {debian}\nRUN apt-get update -qq && apt-get install -qq -y --no-install-recommends make >/dev/null\n\
             RUN useradd --uid 1000 dev\nUSER dev\nENTRYPOINT [\"/bin/false\"]\n"
        ),
    );
    let settings = format!(
        "[sandbox]\nnetwork = \"none\"\ncheckout_dir = \"{}\"\n[sandbox.images]\nshell = \"kew-shell:latest\"\n\
         [sandbox.toolchains.mk.images]\nshell = \"{image}:latest\"\n",
        rig.checkouts
    );
    rig.settings(&settings);
    let (out, err, code) = kew(&rig, &["sandbox", "build", "--base", &project, "--toolchain", "mk", "shell"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains(&format!("\n[sandbox.toolchains.mk.images]\nshell = \"{image}:latest\"\n")),
        "{out}"
    );
    let script = "printf 'all:\\n\\t@echo made > out\\n' > Makefile && make && cat out";
    let node = |keys: &str| format!("[nodes.a]\n{keys}{}\n", prompt(script));
    let ran = rig.run(&rig.plan(&node("toolchain = 'mk'\n")));
    ran.expect(0);
    assert_eq!(rig.output(ran.run_id().unwrap(), "a"), "made\n");
    rig.run(&rig.plan(&node(""))).expect(1);
    let doctor = rig.kew(&["sandbox", "doctor", "--runner", "shell"]);
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.contains("ok   shell (toolchain mk): no prompt: refused with exit status 64"), "{doctor}");
    docker(&["rmi", &image, &project]);
}

#[test]
fn docker_only_fit_images_become_toolchains() {
    let rig = Rig::new();
    for (name, change, says) in [
        (
            "alpine",
            "RUN printf 'ID=alpine\\nPRETTY_NAME=Alpine\\n' > /etc/os-release",
            "it is `Alpine`, neither Debian nor Ubuntu",
        ),
        ("taken", "RUN true", "it has already a user `agent 1001`"),
        ("shell", "RUN rm /bin/sh", "no shell starts in it"),
    ] {
        let tag = tag(name);
        docker_build(&tag, &format!("FROM kew-shell\nLABEL kew.test=unfit\nUSER root\n{change}\n"));
        let (out, err, code) = kew(&rig, &["sandbox", "build", "--base", &tag, "--toolchain", "x", "shell"]);
        assert_eq!((out.as_str(), code), ("", 2), "{err}");
        assert!(err.contains(says), "{err}");
        docker(&["rmi", &tag]);
    }
    for (args, says) in [
        (&["--base", "debian", "shell"][..], "--toolchain"),
        (&["--base", "debian", "--toolchain", "Bad Name", "shell"], "Bad Name"),
        (&["--base", "debian", "--toolchain", "x", "shel"], "did you mean `shell`?"),
        (&["--base", "debian", "--toolchain", "x", "collector"], "kew's own"),
    ] {
        let (_, err, code) = kew(&rig, &[&["sandbox", "build"], args].concat());
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(says), "{err}");
    }
}
