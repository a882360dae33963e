//! Two gits for the host: the one that is installed, and Debian bookworm's, taken out of the collector's image.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use camino::{Utf8Path, Utf8PathBuf};

use crate::rig::Rig;

/// A git that kew finds first.
pub struct HostGit {
    /// As it calls itself.
    pub version: String,
    used: Utf8PathBuf,
}

impl HostGit {
    /// The first on PATH that is not Debian's.
    pub fn installed(rig: &mut Rig) -> Self {
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path)
            .filter_map(|dir| Utf8PathBuf::from_path_buf(dir.join("git")).ok())
            .find(|git| git.exists() && !version(git).starts_with("2.39."));
        let git = found
            .expect("only git 2.39 is installed here: this test needs another one on PATH beside Debian's");
        Self::first_on_path(rig, &format!("exec {git} \"$@\""))
    }

    /// Debian bookworm's, with the libraries that it needs beside the C library.
    pub fn debians(rig: &mut Rig) -> Self {
        let root = rig.root.join("bookworm");
        fs::create_dir(&root).unwrap();
        let pack = "mkdir /tmp/lib && cp -L $(ldd /usr/bin/git | grep -oE '/[^ ]*/lib(pcre2|z)[^ ]*') /tmp/lib && \
                    tar -C / -cf - usr/bin/git usr/lib/git-core tmp/lib";
        let unpack = format!(
            "docker run --rm --network none --user 0 --entrypoint /bin/sh kew-collector -c \"$1\" | tar -C {root} -xf -"
        );
        let done =
            Command::new("bash").args(["-o", "pipefail", "-c", &unpack, "unpack", pack]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let git = Self::first_on_path(
            rig,
            &format!(
                "export LD_LIBRARY_PATH={root}/tmp/lib GIT_EXEC_PATH={root}/usr/lib/git-core\nexec {root}/usr/bin/git \"$@\""
            ),
        );
        assert!(git.version.starts_with("2.39."), "{}: the collector is no bookworm any more", git.version);
        git
    }

    /// Fails if kew ran another.
    pub fn was_used(&self) {
        let times = fs::read_to_string(&self.used).unwrap_or_default().len();
        assert!(times > 100, "kew ran this git {times} times only");
    }

    fn first_on_path(rig: &mut Rig, how: &str) -> Self {
        let (bin, used) = (rig.root.join("git-first"), rig.root.join("git-used"));
        fs::create_dir(&bin).unwrap();
        let git = bin.join("git");
        fs::write(&git, format!("#!/bin/sh\nprintf . >>{used}\n{how}\n")).unwrap();
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
        let version = version(&git);
        rig.env.insert("PATH".into(), format!("{bin}:{}", std::env::var("PATH").unwrap()));
        Self { version, used }
    }
}

fn version(git: &Utf8Path) -> String {
    let said = Command::new(git).arg("--version").output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.trim().strip_prefix("git version ").unwrap_or_else(|| panic!("{git}: {said}")).to_owned()
}
