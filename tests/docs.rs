//! The pages say what is true: links lead somewhere, commands exist, the README's test command is what CI runs.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_link_leads_to_a_file() {
    for page in ["README.md", "docker/README.md"] {
        let text = read(page);
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let links: Vec<&str> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        for link in links.into_iter().filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap();
            assert!(dir.parent().unwrap().join(file).exists(), "{page}: {link}");
        }
    }
}

#[test]
fn every_command_that_the_pages_name_exists() {
    let words = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kew")).args(args).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let help = words(&[]);
    let known: BTreeSet<&str> = help
        .lines()
        .filter(|line| line.starts_with("  ") && !line.trim_start().starts_with('-'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let mut named = BTreeSet::new();
    for page in ["README.md", "docker/README.md"] {
        let text = read(page);
        for quoted in text.split('`').filter(|part| part.starts_with("kew ")) {
            named.insert(quoted.split_whitespace().nth(1).unwrap().to_owned());
        }
    }
    assert!(named.contains("check") && named.contains("run"), "{named:?}");
    for command in named {
        assert!(known.contains(command.as_str()), "a page names `kew {command}`; there are {known:?}");
    }
}

#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let readme = read("README.md");
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let [first, second] = commands[..] else { panic!("the README has two commands: {commands:?}") };
    assert_eq!(first, "docker/setup.sh && cargo run -- run plans/demo.toml");
    assert!(read(".ci/run").contains(second), "{second}");
}
