//! What is refused for the base's tree and for the room on the disk, before the engine is asked.

use std::process::Command;

use super::rig::{IMAGES, ONE, Rig};

fn with_submodule_and_lfs() -> Rig {
    let rig = Rig::new();
    let id = rig.git(&["rev-parse", "HEAD"]);
    rig.write("art/.gitattributes", "*.psd filter=lfs -text\n");
    rig.git(&["add", "-A"]);
    rig.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{id},vendor/sub")]);
    rig.git(&["commit", "-q", "-m", "elsewhere"]);
    rig
}

#[test]
fn submodules_and_lfs_are_refused_at_once_with_their_remedies() {
    let rig = with_submodule_and_lfs();
    for args in [&["run", "plan.toml"][..], &["run", "--dry-run", "plan.toml"]] {
        rig.refused(
            args,
            &[
                "has submodules, which kew does not fetch: `vendor/sub`",
                "gives files to Git LFS, which kew does not fetch, by `art/.gitattributes`",
                "help: `checkout.submodules = \"empty\"`",
                "`checkout.lfs = \"pointers\"`",
            ],
        );
    }
    // The other base has neither.
    rig.write("plan.toml", ONE.replace("epic.name", "epic.base = \"HEAD~1\"\nepic.name"));
    assert_eq!(rig.kew(&["run", "--dry-run", "plan.toml"]).code, 0);
}

#[test]
fn a_repository_may_take_them_as_they_are_and_the_run_says_so() {
    let rig = with_submodule_and_lfs();
    rig.write("kew.toml", format!("[checkout]\nsubmodules = \"empty\"\n{IMAGES}"));
    let said = rig.refused(&["run", "--dry-run", "plan.toml"], &["Git LFS"]);
    assert!(!said.contains("submodules"), "{said}");
    rig.write(
        "kew.toml",
        format!("[checkout]\nsubmodules = \"empty\"\nlfs = \"pointers\"\ndepth = 3\n{IMAGES}"),
    );
    let done = rig.kew(&["run", "--dry-run", "plan.toml"]);
    assert_eq!(done.code, 0, "{}", done.err);
    for words in [
        "submodules are empty folders in checkouts: `vendor/sub`",
        "files of Git LFS are pointers in checkouts",
    ] {
        assert!(done.out.contains(words), "{words}: {}", done.out);
    }
}

#[test]
fn wrong_settings_of_the_checkout_are_told() {
    for (text, words) in [
        ("submodules = \"fetch\"", &["`checkout.submodules`", "`fetch`", "refuse", "empty"][..]),
        ("lfs = true", &["`checkout.lfs`"]),
        ("depth = 0", &["`checkout.depth`"]),
        ("deepth = 3", &["`deepth`", "did you mean `depth`?"]),
    ] {
        let rig = Rig::new();
        rig.write("kew.toml", format!("[checkout]\n{text}\n{IMAGES}"));
        rig.refused(&["check", "plan.toml"], words);
    }
}

/// Runs kew with a small file system of its own at `small`, which is gone with the process.
fn on_small_disk(rig: &Rig, size: &str, args: &[&str]) -> (i32, String) {
    let small = rig.root.join("small");
    std::fs::create_dir_all(&small).unwrap();
    let script = format!("mount -t tmpfs -o size={size},mode=0777 tmpfs '{small}' && exec \"$@\"");
    let kew = rig.command(args);
    let mut command = Command::new("unshare");
    command.args(if rustix::process::geteuid().is_root() { &["-m"][..] } else { &["-r", "-m"] });
    command.args(["sh", "-c", &script, "sh"]).arg(kew.get_program()).args(kew.get_args());
    command.current_dir(&rig.repo).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.envs(
        kew.get_envs().filter_map(|(name, value)| Some((name, value?))).filter(|(name, _)| *name != "PATH"),
    );
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(step).collect()
}

#[test]
fn a_run_without_room_for_its_checkouts_does_not_begin() {
    let rig = Rig::new();
    rig.write("big", noise(2 << 20));
    rig.write("kew.toml", IMAGES);
    let nodes: String =
        ["a", "b", "c"].map(|id| format!("[nodes.{id}]\nrunner = \"shell\"\nprompt = \"true\"\n")).concat();
    rig.write("plan.toml", format!("version = 1\nepic.name = \"e\"\n{nodes}"));
    rig.commit();
    rig.user(&format!("[sandbox]\ncheckout_dir = \"{}/small\"\n", rig.root));
    // Each takes 2 MiB of files and as much of objects.
    let before = rig.listing();
    let (code, said) = on_small_disk(&rig, "9m", &["run", "plan.toml"]);
    assert_eq!(code, 4, "{said}");
    for words in [
        "no room for 3 checkouts",
        "about 12",
        "4 MiB each",
        "9 MiB are free",
        "`sandbox.checkout_dir`",
        "--jobs 1",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let same: Vec<String> = rig.listing().into_iter().filter(|line| !line.contains("/small ")).collect();
    let before: Vec<String> = before.into_iter().filter(|line| !line.contains("/small ")).collect();
    assert_eq!(same, before, "nothing is written");
    // One at a time has room; what stops it then is that there is no engine here.
    for (size, jobs) in [("9m", "1"), ("9m", "2"), ("20m", "3")] {
        let (code, said) = on_small_disk(&rig, size, &["run", "--jobs", jobs, "plan.toml"]);
        assert_eq!(code, 4, "{said}");
        assert!(!said.contains("no room") && said.contains("docker"), "{size} {jobs}: {said}");
    }
    // What the base does not reach takes no room in a checkout.
    rig.git(&["checkout", "-q", "-b", "other"]);
    let large: Vec<u8> = noise(6 << 20).into_iter().map(|byte| byte ^ 0x55).collect();
    rig.write("larger", large);
    rig.commit();
    rig.git(&["checkout", "-q", "main"]);
    let (_, said) = on_small_disk(&rig, "9m", &["run", "--jobs", "1", "plan.toml"]);
    assert!(!said.contains("no room"), "{said}");
    // A cut history needs less.
    for _ in 0..3 {
        rig.write("big", noise(2 << 20).into_iter().map(|byte| byte.wrapping_add(7)).collect::<Vec<u8>>());
        rig.commit();
        rig.write("big", noise(2 << 20));
        rig.git(&["commit", "-q", "-a", "--allow-empty", "-m", "back"]);
    }
    rig.user(&format!("[sandbox]\ncheckout_dir = \"{}/small\"\n[checkout]\ndepth = 1\n", rig.root));
    let (_, said) = on_small_disk(&rig, "5m", &["run", "--jobs", "1", "plan.toml"]);
    assert!(!said.contains("no room"), "{said}");
}

#[test]
fn a_state_without_room_for_the_objects_does_not_begin() {
    let rig = Rig::new();
    rig.write("big", noise(2 << 20));
    rig.commit();
    rig.user(&format!("[state]\ndir = \"{}/small/state\"\n", rig.root));
    let (code, said) = on_small_disk(&rig, "1m", &["run", "plan.toml"]);
    assert_eq!(code, 4, "{said}");
    for words in ["no room for the state", "about 2", "1 MiB are free", "`state.dir`"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
