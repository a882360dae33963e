//! The hostile repository: every plant of the table from inside a node, with two gits on the host.
//!
//! None may run on the host, bring home what is the host's, or keep kew waiting; the honest commit beside it comes home, or
//! the node is held and says why. That the plants are real is shown by a careless git, which runs them.

mod gits;
mod plants;

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use camino::{Utf8Path, Utf8PathBuf};

use self::{
    gits::HostGit,
    plants::{Ends, PRELUDE, Plant, plants},
};
use crate::rig::{CEILING, Ran, Rig, docker, git, git_command, prompt};

/// What the host has that is nobody else's business.
struct Host {
    rig: Rig,
    /// Where a plant that runs on the host leaves its mark.
    trap: Utf8PathBuf,
    /// Another repository.
    other: Utf8PathBuf,
    /// Ids of objects: of the other repository, and of a branch of the user's that was never pushed.
    secrets: Vec<String>,
    /// Assignments for the scripts.
    facts: String,
}

impl Host {
    fn new() -> Self {
        let rig = Rig::new();
        let (trap, other) = (rig.root.join("trap"), rig.root.join("other"));
        fs::create_dir(&trap).unwrap();
        fs::set_permissions(&trap, fs::Permissions::from_mode(0o777)).unwrap();
        git(&rig.root, &["init", "-q", "-b", "main", other.as_str()]);
        let secret = |repo: &Utf8Path, text: &str| {
            fs::write(repo.join("secret"), text).unwrap();
            git(repo, &["add", "secret"]);
            git(repo, &["commit", "-qm", "private"]);
            ["HEAD", "HEAD^{tree}", "HEAD:secret"].map(|name| git(repo, &["rev-parse", name]))
        };
        let of_other = secret(&other, "the secret of another repository\n");
        git(&rig.repo, &["checkout", "-qb", "private"]);
        let unpushed = secret(&rig.repo, "the secret of a branch\n");
        git(&rig.repo, &["checkout", "-q", "main"]);
        // What else a user may have under way; the rig looks at all of it after the run.
        fs::write(rig.repo.join("README"), "set aside\n").unwrap();
        git(&rig.repo, &["stash"]);
        for (name, text) in [("README", "changed\n"), ("staged", "staged\n"), ("loose", "untracked\n")] {
            fs::write(rig.repo.join(name), text).unwrap();
        }
        git(&rig.repo, &["add", "staged"]);
        git(&rig.repo, &["config", "user.name", "somebody"]);
        git(&rig.repo, &["tag", "-a", "-m", "one", "v1", "main"]);
        let facts = format!(
            "trap={trap} host_repo={other} host_commit={} user_repo={} unpushed={} unpushed_tree={} unpushed_blob={}\n",
            of_other[0], rig.repo, unpushed[0], unpushed[1], unpushed[2]
        );
        let secrets = [of_other, unpushed].concat();
        Self { rig, trap, other, secrets, facts }
    }

    fn script(&self, plant: &Plant) -> String {
        format!("name={}\n{}{PRELUDE}\n{}\nexit 0\n", plant.name, self.facts, plant.script)
    }

    /// Names of the plants that left a mark.
    fn marks(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.trap).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// All plants as nodes of one run, and what must hold of each.
#[expect(
    clippy::print_stderr,
    reason = "which gits these were and what each plant came to is worth a look in any test log"
)]
fn plant_all(host: &Host, host_git: &HostGit) {
    let inside =
        docker(&["run", "--rm", "--network", "none", "--entrypoint", "git", "kew-collector", "--version"]);
    eprintln!("host git {}, collector's {inside}", host_git.version);
    let mut text =
        "version = 1\n[epic]\nname = \"plants\"\nmax_parallel = 6\n[defaults]\nrunner = \"shell\"\n\
                    network = \"none\"\ncommits = \"required\"\ntimeout = \"2m\"\n"
            .to_owned();
    for plant in plants() {
        text.push_str(&format!("[nodes.{}]\n{}\n", plant.name, prompt(&host.script(plant))));
    }
    let plan = host.rig.root.join("plants.toml");
    fs::write(&plan, text).unwrap();
    let ran = host.rig.run(&plan);
    host_git.was_used();

    let mut wrong = Vec::new();
    for plant in plants() {
        let end = format!("{} ({}): {}", plant.name, plant.row, ran.outcome(plant.name));
        let took = collecting_ms(&ran, plant.name);
        eprintln!("{took:>6} ms  {end}");
        if let Err(why) = judge(host, &ran, plant) {
            wrong.push(format!("{end}: {why}"));
        }
        // The limits of the collecting script are a quarter of this.
        if u128::from(took) > CEILING.as_millis() {
            wrong.push(format!("{end}: it took {took} ms"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), ran.stderr);
    ran.expect(3);
    assert_eq!(host.marks(), Vec::<String>::new(), "these ran on the host");

    let home = git(&host.rig.repo, &["rev-list", "--objects", "--no-object-names", "--glob=refs/kew/*"]);
    for secret in &host.secrets {
        assert!(!home.contains(secret.as_str()), "{secret} came home");
    }
    let known = git_command(&host.rig.repo).args(["cat-file", "-e", &host.secrets[0]]).status().unwrap();
    assert!(!known.success(), "an object of another repository is in the user's");
    git(&host.other, &["fsck", "--strict"]);
    assert_eq!(git(&host.other, &["status", "--porcelain"]), "");
}

fn judge(host: &Host, ran: &Ran, plant: &Plant) -> Result<(), String> {
    let outcome = ran.outcome(plant.name);
    let ended = ran.ended(plant.name);
    let home = |commits: std::ops::RangeInclusive<u64>| {
        let (Some(head), Some(count)) = (ended["head"].as_str(), ended["commits"].as_u64()) else {
            return Err("no commit came home".to_owned());
        };
        let honest = git(&host.rig.repo, &["show", &format!("{head}:honest.txt")]);
        match outcome == "passed" && honest == "honest" && commits.contains(&count) {
            true => Ok(()),
            false => Err(format!("{count} commits and `{honest}` came home")),
        }
    };
    let held = |word: &str, says: &str| match outcome.starts_with(&format!("held: {word}")) {
        true if outcome.contains(says) && ended["head"].is_null() => Ok(()),
        _ => Err(format!("not held for `{word}` with `{says}`")),
    };
    match plant.ends {
        Ends::Home => home(1..=1),
        Ends::HomeToo => home(2..=2),
        Ends::Held(word, says) => held(word, says),
        Ends::Either => home(2..=2).or_else(|_| held("", "")),
    }
}

/// Time between the end of a node's container and the end of its collection, by the events.
fn collecting_ms(ran: &Ran, node: &str) -> u64 {
    let told = ran.of_node("node-progress", node);
    let begun = told.iter().find(|event| event["phase"] == "collecting");
    let begun = begun.unwrap_or_else(|| panic!("`{node}` was never collected: {}", ran.outcome(node)));
    ran.ended(node)["time"].as_u64().unwrap() - begun["time"].as_u64().unwrap()
}

#[test]
fn docker_no_plant_runs_leaks_or_waits_with_the_installed_git() {
    let mut host = Host::new();
    let host_git = HostGit::installed(&mut host.rig);
    plant_all(&host, &host_git);
}

#[test]
fn docker_no_plant_runs_leaks_or_waits_with_debians_git() {
    let mut host = Host::new();
    let host_git = HostGit::debians(&mut host.rig);
    plant_all(&host, &host_git);
}

#[test]
fn docker_the_plants_are_many_and_have_names_of_their_own() {
    let plants = plants();
    let names: std::collections::BTreeSet<_> = plants.iter().map(|plant| plant.name).collect();
    assert_eq!(names.len(), plants.len());
    assert!(plants.len() >= 42, "{}", plants.len());
    for row in 1..=20 {
        let row = format!("1.{row}");
        assert!(plants.iter().any(|plant| plant.row == row), "{row}");
    }
}

/// What the plants are measured against: the same scripts on the host, and git as one would use it there.
#[test]
fn docker_a_careless_git_runs_the_plants() {
    let host = Host::new();
    for plant in plants().into_iter().filter(|plant| plant.runs) {
        let clone = host.rig.root.join("careless").join(plant.name);
        git(
            &host.rig.root,
            &[
                "clone",
                "--single-branch",
                "--branch=main",
                "-q",
                "--no-local",
                &format!("file://{}", host.rig.repo),
                clone.as_str(),
            ],
        );
        git(&clone, &["checkout", "-qb", "kew/plants/careless"]);
        let mut bash = like(git_command(&clone), "bash");
        let done = bash.args(["-c", &host.script(plant)]).output().unwrap();
        assert!(done.status.success(), "{}: {}", plant.name, String::from_utf8_lossy(&done.stderr));
        for dir in
            [".", "below", "nested", "sub"].map(|dir| clone.join(dir)).iter().filter(|dir| dir.exists())
        {
            for careless in [
                "status",
                "diff",
                "log -p -3",
                "add -A",
                "commit --allow-empty -qam more",
                "fetch",
                "push origin HEAD",
                "log -3",
            ] {
                let mut command = like(git_command(dir), "timeout");
                command.arg("10").arg("git").args(careless.split(' ')).stdin(std::process::Stdio::null());
                command.output().unwrap();
            }
        }
    }
    let expected: Vec<&str> =
        plants().into_iter().filter(|plant| plant.runs).map(|plant| plant.name).collect();
    let marks = host.marks();
    let missing: Vec<_> = expected.iter().filter(|name| !marks.iter().any(|mark| mark == *name)).collect();
    assert!(missing.is_empty(), "no careless git runs {missing:?}");
}

/// Another program with the folder and environment of a git command.
fn like(git: Command, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(git.get_current_dir().unwrap());
    command.envs(git.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}
