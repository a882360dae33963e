//! Settings by layers: a repository narrows and never opens; every error names the layer and the key.

use serde_json::Value;

use super::rig::{IMAGES, Rig};

fn with(settings: &str) -> Rig {
    let rig = Rig::new();
    // Tables first, since keys before the first table belong to none.
    rig.write("kew.toml", format!("{settings}\n{IMAGES}"));
    rig
}

/// The network that a dry run shows.
fn network(rig: &Rig) -> String {
    let done = rig.kew(&["run", "--dry-run", "--format", "json", "plan.toml"]);
    assert_eq!(done.code, 0, "{}", done.err);
    serde_json::from_str::<Value>(&done.out).unwrap()["network"].as_str().unwrap().to_owned()
}

#[test]
fn a_repository_may_not_open_what_is_closed() {
    for (text, key) in [
        ("[sandbox]\nenabled = false", "sandbox.enabled"),
        ("[sandbox]\nenabled = 0", "sandbox.enabled"),
        ("sandbox.enabled = \"no\"\n[state]", "sandbox.enabled"),
        ("[sandbox]\nnetwork = \"open\"", "sandbox.network"),
        ("[sandbox]\ncheckout_dir = \"/tmp\"", "sandbox.checkout_dir"),
        ("[sandbox]\ncollector = \"evil\"", "sandbox.collector"),
        ("[state]\ndir = \"/tmp\"", "state"),
        ("[notify]\ncommand = \"x\"", "notify"),
        ("notify = []", "notify"),
        ("[publish]\nremote = \"evil\"", "publish.remote"),
        ("[runners.mine]\nargv = []", "runners"),
        ("[credentials]\nx = 1", "credentials"),
        ("[policy]\nx = 1", "policy"),
    ] {
        let rig = with(text);
        for args in [
            &["check", "plan.toml"][..],
            &["run", "plan.toml"],
            &["run", "--dry-run", "plan.toml"],
            &["runs"],
        ] {
            let said = rig.refused(
                args,
                &[&format!("`{key}"), "kew.toml", "a repository may not", "~/.config/kew/config.toml"],
            );
            assert!(said.contains("help: "), "{text}: {said}");
        }
    }
}

#[test]
fn a_repository_may_narrow() {
    for (network_word, expected) in [("none", "none"), ("allowlist", "allowlist")] {
        let rig = with(&format!("[sandbox]\nenabled = true\nnetwork = \"{network_word}\""));
        assert_eq!(network(&rig), expected);
    }
}

#[test]
fn the_last_layer_wins() {
    let rig = with("");
    assert_eq!(network(&rig), "allowlist");
    rig.user("[sandbox]\nnetwork = \"open\"\n");
    assert_eq!(network(&rig), "open", "the user may");
    rig.write("kew.toml", format!("[sandbox]\nnetwork = \"allowlist\"\n{IMAGES}"));
    assert_eq!(network(&rig), "allowlist", "the repository narrows what the user opened");
    rig.user("[sandbox]\nnetwork = \"none\"\n");
    assert_eq!(network(&rig), "none", "and never opens what the user closed");
    rig.user("[sandbox]\nnetwork = \"open\"\n");
    let rig = rig.env("KEW_SANDBOX__NETWORK", "none");
    assert_eq!(network(&rig), "none");
    let rig = rig.env("KEW_SANDBOX__NETWORK", "open");
    assert_eq!(network(&rig), "open", "the environment is the user's too");
}

#[test]
fn the_users_file_is_where_xdg_says() {
    let rig = with("");
    rig.user("[sandbox]\nnetwork = \"open\"\n");
    let elsewhere = rig.root.join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("kew")).unwrap();
    std::fs::write(elsewhere.join("kew/config.toml"), "[sandbox]\nnetwork = \"none\"\n").unwrap();
    let rig = rig.env("XDG_CONFIG_HOME", elsewhere.as_str());
    assert_eq!(network(&rig), "none");
    let rig = rig.env("XDG_CONFIG_HOME", "");
    assert_eq!(network(&rig), "open", "empty is as unset");
}

#[test]
fn unknown_keys_name_the_layer_and_what_was_meant() {
    let rig = with("[sandbox]\nnetwrok = \"none\"");
    rig.refused(
        &["check", "plan.toml"],
        &["kew.toml`", "`netwrok`", "did you mean `network`?", "kew schema settings"],
    );
    let rig = with("");
    rig.user("[sandbax]\nnetwork = \"none\"\n");
    rig.refused(&["check", "plan.toml"], &["config.toml`", "`sandbax`", "did you mean `sandbox`?"]);
    let rig = with("").env("KEW_SANDBOX__NETWROK", "none");
    rig.refused(&["check", "plan.toml"], &["environment", "`netwrok`", "did you mean `network`?"]);
}

#[test]
fn wrong_values_name_the_layer_and_the_key() {
    for (text, words) in [
        ("[sandbox]\npids_limit = \"many\"", &["kew.toml`", "`sandbox.pids_limit`"][..]),
        ("[sandbox]\nmemory = 4", &["kew.toml`", "`sandbox.memory`"]),
        ("[sandbox]\nmemory = \"4GB\"", &["kew.toml`", "`sandbox.memory`", "4GiB"]),
        ("[sandbox]\nnetwork = \"closed\"", &["kew.toml`", "`sandbox.network`", "`closed`", "allowlist"]),
        ("[sandbox]\npids_limit = -1", &["kew.toml`", "`sandbox.pids_limit`"]),
        ("sandbox = 3\n[state2]", &["kew.toml`"]),
    ] {
        let rig = Rig::new();
        rig.write("kew.toml", text);
        rig.refused(&["check", "plan.toml"], words);
    }
    let rig = with("").env("KEW_SANDBOX__CPUS", "lots");
    rig.refused(&["check", "plan.toml"], &["environment", "`sandbox.cpus`"]);
}

#[test]
fn broken_toml_shows_its_line() {
    let rig = Rig::new();
    rig.write("kew.toml", "[sandbox]\n\nnetwork = = 3\n");
    rig.refused(&["check", "plan.toml"], &["kew.toml` is not valid TOML", "line 3", "network = = 3", "^"]);
    rig.write("kew.toml", "x = 1\nx = 2\n");
    rig.refused(&["check", "plan.toml"], &["kew.toml` is not valid TOML", "line 2"]);
    rig.write("kew.toml", [b'#', 0xff]);
    rig.refused(&["check", "plan.toml"], &["kew.toml` could not be read"]);
}

#[test]
fn sizes_and_numbers_must_fit() {
    for (text, words) in [
        (
            "memory = \"1GiB\"\ntmp_size = \"512MiB\"\nhome_size = \"1MiB\"",
            &["more than half of `sandbox.memory`", "513 MiB"][..],
        ),
        ("cpus = 0", &["`sandbox.cpus` = 0"]),
        ("cpus = -2.5", &["`sandbox.cpus` = -2.5"]),
        ("cpus = nan", &["`sandbox.cpus` = NaN"]),
        ("cpus = inf", &["`sandbox.cpus` = inf"]),
        ("pids_limit = 0", &["`sandbox.pids_limit`"]),
        ("memory = \"1MiB\"\ntmp_size = \"1b\"\nhome_size = \"1b\"", &["`sandbox.memory` at least 16MiB"]),
        ("images.shell = \"--privileged\"", &["`sandbox.images.shell`", "is not an image name"]),
        ("images.shell = \"\"", &["`sandbox.images.shell`", "is not an image name"]),
        ("images.shell = \"a b\"", &["`sandbox.images.shell`", "is not an image name"]),
        ("toolchains.t.images.shell = \"-v\"", &["`sandbox.toolchains.t.images.shell`"]),
    ] {
        let rig = Rig::new();
        rig.write("kew.toml", format!("[sandbox]\n{text}\n"));
        rig.refused(&["check", "plan.toml"], words);
    }
    let rig = Rig::new();
    rig.write("kew.toml", "[sandbox]\nmemory = \"1GiB\"\ntmp_size = \"256MiB\"\nhome_size = \"256MiB\"\ncpus = 0.5\nimages.shell = \"r.example:5000/kew-shell@sha256:00\"\n");
    assert_eq!(rig.kew(&["check", "plan.toml"]).code, 0, "exactly half is enough");
}

#[test]
fn the_user_may_only_name_whole_paths() {
    let rig = with("");
    rig.user("[state]\ndir = \"kew\"\n");
    rig.refused(&["runs"], &["`state.dir` = `kew`", "absolute"]);
    rig.user("[sandbox]\ncheckout_dir = \"../x\"\n");
    rig.refused(&["check", "plan.toml"], &["`sandbox.checkout_dir` = `../x`"]);
}

#[test]
fn the_images_own_variables_are_no_settings() {
    let rig = with("").env("KEW_PROMPT_FILE", "x").env("KEW_BASE_IMAGE", "x").env("KEWX__Y", "z");
    assert_eq!(network(&rig), "allowlist");
}

#[test]
fn the_policy_is_the_users_and_must_make_sense() {
    for (text, words) in [
        ("protected_paths = [\"a[b\"]", &["`policy.protected_paths`", "a[b"][..]),
        ("protected_paths = [\"/etc/**\"]", &["`policy.protected_paths`", "`/etc/**` can match no path"]),
        ("protected_paths = [\"ci/\"]", &["`ci/` can match no path", "`name/**`"]),
        ("protected_paths = [\"./ci\"]", &["`./ci` can match no path"]),
        ("protected_paths = \"ci\"", &["`policy.protected_paths`"]),
        ("submodules = \"refuse\"", &["`policy.submodules`", "`refuse`", "hold", "allow"]),
        ("blob_max = \"5GiB\"", &["`policy.blob_max`", "4 GiB"]),
        ("blob_max = \"0b\"", &["`policy.blob_max` must be at least 1"]),
        ("commits_max = 0", &["`policy.commits_max` must be at least 1"]),
        ("pack_max = 5", &["`policy.pack_max`"]),
        ("symlink = \"allow\"", &["`symlink`", "did you mean `symlinks`?"]),
    ] {
        let rig = with("");
        rig.user(&format!("[policy]\n{text}\n"));
        rig.refused(&["check", "plan.toml"], words);
    }
    let rig = with("");
    rig.user(
        "[policy]\nprotected_paths = []\nsubmodules = \"allow\"\nsymlinks = \"allow\"\nblob_max = \"1GiB\"\n",
    );
    assert_eq!(network(&rig), "allowlist");
}
