//! The pages say what is true: links lead somewhere, and the README's test command is what CI runs.

use std::{fs, path::Path};

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
fn ci_runs_the_test_command_of_the_readme() {
    let readme = read("README.md");
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let [first, second, ..] = commands[..] else {
        panic!("the README begins with two commands: {commands:?}")
    };
    assert_eq!(first, "docker/setup.sh && cargo run -- run plans/demo.toml");
    assert!(read(".ci/run").contains(second), "{second}");
}
