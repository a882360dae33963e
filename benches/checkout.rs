//! The second run's checkout against `git clone --no-hardlinks` of the same commit, in one run: of a repository of many files,
//! and of one with a large history. Prints medians and their ratio; judges nothing. Needs 4 GB of disk, below `target`.
//!
//! usage: cargo bench --bench checkout [-- FILES [MEGABYTES [RUNS]]]     (default 50000 1000 5; 0 leaves one out)

use std::{
    fs, io,
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    git::{
        access::Access,
        base::UserRepo,
        checkout::checkout,
        error::GitError,
        mirror::Mirror,
        refs::{self, RefName},
    },
    name::{EpicName, NodeId},
    process::query::RunAs,
};

fn main() -> io::Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<usize>().ok());
    let files = numbers.next().unwrap_or(50_000);
    let megabytes = numbers.next().unwrap_or(1000);
    let runs = numbers.next().unwrap_or(5).max(1);
    let cache = Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-repositories");
    fs::create_dir_all(&cache)?;
    if files > 0 {
        let repo = made(&cache.join(format!("wide-{files}")), |out| wide(out, files))?;
        compare(&format!("{files} files"), &repo, runs)?;
    }
    if megabytes > 0 {
        let repo = made(&cache.join(format!("deep-{megabytes}")), |out| deep(out, megabytes))?;
        compare(&format!("{megabytes} MB of history"), &repo, runs)?;
    }
    Ok(())
}

/// The sides take turns in being first, and what they made is removed after both: deleting a large tree slows down what comes
/// next.
fn compare(what: &str, repo: &Utf8Path, runs: usize) -> io::Result<()> {
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let root = Utf8Path::from_path(tmp.path()).ok_or_else(|| io::Error::other("no UTF-8"))?;
    let (mine, clone) = (root.join("mine"), root.join("clone"));
    let kew = || timed(|| run(repo, root, &mine).map_err(io::Error::other));
    let git = || {
        timed(|| {
            let words = ["clone", "--quiet", "--no-hardlinks", repo.as_str(), clone.as_str()];
            command("git", root).args(words).status().and_then(succeeded)
        })
    };
    let first = kew()?;
    fs::remove_dir_all(&mine)?;
    let (mut ours, mut theirs, mut releases) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..runs {
        if at % 2 == 0 {
            theirs.push(git()?);
            ours.push(kew()?);
        } else {
            ours.push(kew()?);
            theirs.push(git()?);
        }
        releases.push(timed(|| fs::remove_dir_all(&mine))?);
        fs::remove_dir_all(&clone)?;
    }
    let (ours, theirs, released) = (median(ours), median(theirs), median(releases));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    writeln!(
        io::stdout(),
        "{what}: kew {ours:.2?} (the first run {first:.2?}), git clone --no-hardlinks {theirs:.2?}, ratio {ratio:.2} (target 1.3), \
         removed in {released:.2?}"
    )
}

/// What a run does before a node's container: opens the mirror, which may be warm, and makes a checkout for the agent.
fn run(repo: &Utf8Path, root: &Utf8Path, dest: &Utf8Path) -> Result<(), GitError> {
    let user = UserRepo::open(Some(repo))?;
    let base = user.resolve(None)?;
    let mirror =
        Mirror::open_or_create(&user.context(&root.join("git"))?, &root.join("mirror"), user.format())?;
    mirror.ensure(&user, &base)?;
    let access = match rustix::process::geteuid().is_root() {
        true => Access::Owner(RunAs { uid: 1001, gid: 1001 }),
        false => Access::Everyone,
    };
    checkout(&mirror, &base, dest, &branch(), access)
}

fn branch() -> RefName {
    let epic = EpicName::new("bench").expect("a plain word");
    refs::branch(&epic, &NodeId::new("node").expect("a plain word"))
}

/// A bare repository that `git fast-import` reads from `stream`, unless it is there from before.
fn made(
    repo: &Utf8Path,
    stream: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<Utf8PathBuf> {
    if repo.exists() {
        return Ok(repo.to_owned());
    }
    let draft = Utf8PathBuf::from(format!("{repo}.new"));
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    fs::create_dir(&draft)?;
    command("git", &draft).args(["init", "--quiet", "--bare", "-b", "main"]).status().and_then(succeeded)?;
    let mut import = command("git", &draft);
    import.args(["-c", "core.compression=1", "fast-import", "--quiet", "--depth=0"]);
    let mut import = import.stdin(Stdio::piped()).spawn()?;
    let mut pipe = io::BufWriter::new(import.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?);
    stream(&mut pipe)?;
    pipe.flush()?;
    drop(pipe);
    succeeded(import.wait()?)?;
    fs::rename(&draft, repo)?;
    Ok(repo.to_owned())
}

/// Text files of several sizes in folders of 250, most of them small, and 2,000 commits on top that change one each.
fn wide(out: &mut dyn io::Write, files: usize) -> io::Result<()> {
    let mut random = Random(42);
    let path = |at: usize| format!("src/m{:03}/p{:02}/f{at}.txt", at / 250, at / 25 % 10);
    commit(out, 0)?;
    for at in 0..files {
        let len = match random.below(200) {
            0..120 => 200 + random.below(3_800),
            120..184 => 4_000 + random.below(12_000),
            184..199 => 16_000 + random.below(44_000),
            _ => 100_000 + random.below(300_000),
        };
        file(out, &path(at), &random.text(len))?;
    }
    for at in 1..=2_000 {
        commit(out, at)?;
        file(out, &path(random.below(files)), &random.text(800))?;
    }
    Ok(())
}

/// A commit for each megabyte that does not compress, in a tree that stays small.
fn deep(out: &mut dyn io::Write, megabytes: usize) -> io::Result<()> {
    let mut random = Random(7);
    for at in 0..megabytes {
        commit(out, at)?;
        let bytes: Vec<u8> = (0..1 << 17).flat_map(|_| random.next().to_le_bytes()).collect();
        file(out, &format!("asset{}.bin", at % 8), &bytes)?;
    }
    Ok(())
}

fn commit(out: &mut dyn io::Write, at: usize) -> io::Result<()> {
    let when = 1_700_000_000 + at;
    write!(out, "commit refs/heads/main\ncommitter bench <bench@example.org> {when} +0000\ndata 6\nchange\n")
}

fn file(out: &mut dyn io::Write, path: &str, bytes: &[u8]) -> io::Result<()> {
    writeln!(out, "M 100644 inline {path}\ndata {}", bytes.len())?;
    out.write_all(bytes)?;
    writeln!(out)
}

/// Numbers that look like chance and are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % bound
    }

    /// Words, of which there are 4,096.
    fn text(&mut self, len: usize) -> Vec<u8> {
        let mut text = Vec::with_capacity(len + 12);
        while text.len() < len {
            let word = self.below(4096);
            let end = if self.below(7) == 0 { '\n' } else { ' ' };
            let _ = write!(text, "{}{end}", format_args!("{:x}", word * word * 31));
        }
        text.truncate(len);
        text
    }
}

fn command(program: &str, dir: &Utf8Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).stdin(Stdio::null());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

fn succeeded(status: std::process::ExitStatus) -> io::Result<()> {
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("git: {status}"))) }
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
