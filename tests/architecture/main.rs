//! What must stay true of the sources themselves: floors, who may name what, and what no file may hold.
//!
//! Guards of absence. The floors are those of the table in `src/lib.rs`, read from there.

mod source;

use std::{collections::BTreeMap, fs, process::Command};

use source::{Source, root, sources};

/// Floor of each module, by the table in the crate's own documentation.
fn floors() -> BTreeMap<String, u32> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut floors = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        let mut cells = line.split('|').map(str::trim);
        let Some(floor) = cells.next().and_then(|cell| cell.split(' ').next()?.parse().ok()) else {
            continue;
        };
        for name in cells.next().unwrap_or_default().split(',') {
            let name = name.trim().trim_start_matches("[`").trim_end_matches("`]");
            assert!(floors.insert(name.to_owned(), floor).is_none(), "`{name}` is on two floors");
        }
    }
    assert!(floors.len() >= 20, "{floors:?}");
    floors
}

fn modules() -> Vec<Source> {
    sources("src").into_iter().filter(|file| !["lib", "main"].contains(&file.module())).collect()
}

/// Fails with all that was found.
#[track_caller]
fn none(found: Vec<String>, rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// Whether `path` is `name` or below it.
fn below(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn every_module_has_a_floor_and_every_floor_its_modules() {
    let floors = floors();
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut declared: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    declared.sort_unstable();
    assert_eq!(floors.keys().collect::<Vec<_>>(), declared);
}

#[test]
fn a_module_imports_from_its_own_floor_or_below() {
    let floors = floors();
    let mut found = Vec::new();
    let mut seen = 0;
    for file in modules() {
        let own = floors[file.module()];
        for path in file.paths() {
            let Some(target) = path.strip_prefix("crate::").and_then(|path| path.split("::").next()) else {
                continue;
            };
            seen += 1;
            // Macros are not on a floor; there are none.
            let floor = floors.get(target).unwrap_or_else(|| panic!("{}: what is `{path}`?", file.path));
            if *floor > own {
                found.push(format!("{} (floor {own}) names `{path}` (floor {floor})", file.path));
            }
        }
    }
    assert!(seen > 300, "the scanner sees the imports: {seen}");
    none(found, "a module imports only from its own floor or below");
}

/// What a pure module may not name.
const OUTSIDE: [&str; 12] = [
    "tokio",
    "duct",
    "rustix",
    "rusqlite",
    "std::fs",
    "std::process",
    "std::net",
    "std::thread",
    "std::env",
    "std::time::Instant",
    "std::time::SystemTime",
    "jiff::Timestamp::now",
];

/// The same by the names that an import leaves behind.
const OUTSIDE_BY_NAME: [&str; 4] = ["Instant::now", "SystemTime::now", "Timestamp::now", "Zoned::now"];

/// What is pure all the same: these two only take a `PATH` apart.
const TEXT: [&str; 2] = ["std::env::split_paths", "std::env::join_paths"];

#[test]
fn the_lower_floors_and_both_argv_are_pure() {
    let floors = floors();
    let argv = ["src/docker/argv.rs", "src/git/argv.rs"];
    let (mut found, mut pure) = (Vec::new(), 0);
    for file in modules() {
        if floors[file.module()] > 2 && !argv.contains(&file.path.as_str()) {
            continue;
        }
        pure += 1;
        for path in file.paths() {
            if TEXT.contains(&path.as_str()) {
                continue;
            }
            let named = OUTSIDE.iter().any(|name| below(&path, name));
            if named || OUTSIDE_BY_NAME.iter().any(|name| path.ends_with(name)) {
                found.push(format!("{} names `{path}`", file.path));
            }
        }
    }
    assert!(pure > 25, "{pure}");
    none(found, "time, ids and the outside are passed in");
}

#[test]
fn duct_is_named_in_two_files_and_never_asked_to_collect() {
    let files = ["src/process/child.rs", "src/process/query.rs"];
    let mut named = Vec::new();
    for file in sources("src") {
        if file.paths().iter().any(|path| below(path, "duct")) {
            named.push(file.path.to_string());
        }
    }
    assert_eq!(named, files);
    let mut found = Vec::new();
    for file in sources("src") {
        let duct = files.contains(&file.path.as_str());
        for (call, why) in [
            (".reader(", "its reader kills on drop and errs on a bad status"),
            (".lines()", "a line may be longer than memory"),
            (".spawn_blocking", "node threads are ours"),
            (".checked()", "an exit status is no error"),
        ] {
            if file.code.contains(call) && (duct || call != ".lines()") {
                found.push(format!("{} calls `{call}`: {why}", file.path));
            }
        }
        if duct && file.code.matches("duct::cmd").count() != file.code.matches(".unchecked()").count() {
            found.push(format!("{}: every expression is unchecked", file.path));
        }
        if duct && file.code.matches("duct::cmd").count() != file.code.matches(".full_env(").count() {
            found.push(format!("{}: every child's environment is given in full", file.path));
        }
    }
    none(found, "how duct is used");
}

#[test]
fn only_reports_and_commands_print() {
    // The watchdog says one word to the process that started it, the guard why an agent did not start.
    let talkers = ["src/run/watchdog.rs", "src/run/host/guard.rs"];
    let may =
        |file: &Source| ["cli", "report"].contains(&file.module()) || talkers.contains(&file.path.as_str());
    let mut found = Vec::new();
    for file in sources("src").into_iter().filter(|file| !may(file)) {
        for path in file.paths() {
            if path.ends_with("io::stdout") || path.ends_with("io::stderr") {
                found.push(format!("{} names `{path}`", file.path));
            }
        }
        for call in ["print!(", "println!(", "dbg!("] {
            if file.code.contains(call) {
                found.push(format!("{} calls `{call}`", file.path));
            }
        }
    }
    none(found, "only `report` and `cli` print");
}

#[test]
fn nothing_is_copied_into_or_out_of_a_container_by_docker() {
    let mut found = Vec::new();
    for file in sources("src") {
        // In texts, so not in the code; comments may speak of it.
        let lines = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines.filter(|line| line.contains("docker cp") || line.contains("\"cp\"")) {
            found.push(format!("{}: {}", file.path, line.trim()));
        }
    }
    none(found, "`docker cp` follows links of whoever made them");
}

#[test]
fn exceptions_from_lints_are_expected_with_a_reason() {
    let mut found = Vec::new();
    for file in sources("src").into_iter().chain(sources("tests")) {
        for bad in ["#[allow", "#![allow", "#[ignore", "todo!(", "unimplemented!(", "unsafe "] {
            if file.code.contains(bad) {
                found.push(format!("{}: `{bad}`", file.path));
            }
        }
        for part in file.code.split("#[expect(").skip(1).chain(file.code.split("#![expect(").skip(1)) {
            let list = part.split(']').next().unwrap_or_default();
            if !list.contains("reason") {
                found.push(format!("{}: an exception without a reason: {}", file.path, list.trim()));
            }
        }
    }
    none(found, "an exception is `expect`ed and says why");
}

#[test]
fn the_program_does_not_unwrap() {
    let mut found = Vec::new();
    for file in sources("src") {
        for call in [".unwrap()", ".unwrap_err()", "panic!("] {
            if file.code.contains(call) {
                found.push(format!("{}: `{call}`", file.path));
            }
        }
        let expects = file.text.matches(".expect(\"\")").count();
        if expects > 0 {
            found.push(format!("{}: `expect` says why it cannot fail", file.path));
        }
    }
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    assert!(lib.contains("#![warn(clippy::unwrap_used)]"), "the lint watches what this scanner does not see");
    none(found, "errors are values");
}

#[test]
fn a_file_says_what_it_is_and_is_not_long() {
    let mut found = Vec::new();
    for file in sources("src").into_iter().chain(sources("tests")) {
        if !file.text.starts_with("//! ") {
            found.push(format!("{} does not say what it is", file.path));
        }
        let lines = file.text.lines().count();
        if lines > 500 {
            found.push(format!("{} has {lines} lines", file.path));
        }
    }
    none(found, "a file opens with what it is, and has at most 500 lines");
}

/// The files that git knows, or would add.
fn tracked() -> Vec<String> {
    let git = Command::new("git")
        .current_dir(root())
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .unwrap();
    assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    let names = String::from_utf8(git.stdout).unwrap();
    let names: Vec<String> = names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    assert!(names.len() > 100, "{names:?}");
    names
}

#[test]
fn no_file_knows_this_machine_or_its_mirrors() {
    // In halves, so that this file does not hold them.
    let banned = [
        ["arti", "factory"],
        ["registry.", "npmjs"],
        ["pypi.", "org"],
        ["/root", "/"],
        ["/home", "/user"],
        ["/Users", "/"],
        ["/work/", "wt-"],
        ["/work/", "shared"],
        ["/tmp/", "helpers"],
    ]
    .map(|halves| halves.concat());
    let here = root().as_str();
    let mut found = Vec::new();
    // What the named groups of hosts are made of.
    let groups = "src/egress/groups.rs";
    for name in tracked().into_iter().filter(|name| name.as_str() != groups) {
        let Ok(bytes) = fs::read(root().join(&name)) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        for (at, line) in text.lines().enumerate() {
            let bad = banned.iter().find(|bad| line.contains(bad.as_str()));
            let here = (here.len() > 6 && line.contains(here)).then_some("the path of this checkout");
            if let Some(bad) = bad.map(String::as_str).or(here) {
                found.push(format!("{name}:{}: {bad}", at + 1));
            }
        }
    }
    none(found, "a file that knows one machine is wrong on all others");
}

#[test]
fn commands_that_are_spoken_of_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_kew")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"run"), "{help}");
    let mut found = Vec::new();
    for name in tracked() {
        if name.starts_with("tests/") || name == "Cargo.lock" {
            continue;
        }
        let Ok(text) = fs::read_to_string(root().join(&name)) else { continue };
        for part in text.split("`kew ").skip(1) {
            let command: String = part.chars().take_while(|c| c.is_ascii_lowercase()).collect();
            if !command.is_empty() && !commands.contains(&command.as_str()) {
                found.push(format!("{name}: `kew {command}`"));
            }
        }
    }
    none(found, "there is no such command");
}
