//! The names that git or a file system takes for `.git`, whatever they look like. Pure.
//!
//! A file system that folds case, drops invisible characters or keeps short names would let such a file in a tree become
//! part of a repository. Git's own check refuses most of these in a pack; here the rule is spelled out, for link targets
//! too. Invariant: a name that is plainly another one (`.gitignore`, `.github`, `git`) is never taken for it.

/// Whether one part of a path is a name of `.git` to some system: in any case (`.GIT`), by NTFS (`git~1`, `.git.`,
/// `.git::$INDEX_ALLOCATION`, behind a `\`), by HFS+ (with characters in it that it does not see).
pub fn is_dot_git(part: &[u8]) -> bool {
    part.split(|byte| *byte == b'\\').any(|piece| {
        let plain = of_ntfs(piece);
        plain.eq_ignore_ascii_case(b".git")
            || is_short_name(plain)
            || of_hfs(piece).eq_ignore_ascii_case(b".git")
    })
}

/// Whether a path is the file that names submodules.
pub fn is_gitmodules(path: &[u8]) -> bool {
    of_ntfs(path).eq_ignore_ascii_case(b".gitmodules") || of_hfs(path).eq_ignore_ascii_case(b".gitmodules")
}

/// The name that NTFS makes of one: without a stream, and without dots and spaces at its end.
fn of_ntfs(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == b':').unwrap_or(name.len());
    let name = &name[..end];
    let end = name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    &name[..end]
}

/// `git~1` and its like, which NTFS gives to names that are too long for it.
fn is_short_name(name: &[u8]) -> bool {
    matches!(name, [head @ .., b'~', b'1'..=b'9'] if head.eq_ignore_ascii_case(b"git"))
}

/// The name that HFS+ makes of one: without the characters that it does not see.
fn of_hfs(name: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(name) else { return name.to_vec() };
    let unseen = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    text.chars().filter(|c| !unseen(c)).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_git_is_one() {
        for name in [
            ".git",
            ".GIT",
            ".gIt",
            ".git.",
            ".git . .",
            ".git::$INDEX_ALLOCATION",
            ".GIT:x",
            "git~1",
            "GIT~2",
            "git~1.",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\u{202e}",
            "x\\.git",
            ".git\\config",
        ] {
            assert!(is_dot_git(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn other_names_are_not() {
        for name in
            ["git", ".gitignore", ".github", ".gitmodules", "a.git", "git~", "git~10", ".gi t", "..git", ""]
        {
            assert!(!is_dot_git(name.as_bytes()), "{name:?}");
        }
        assert!(!is_dot_git(b".g\xffit"));
        assert!(is_gitmodules(b".GITMODULES ") && !is_gitmodules(b"a/.gitmodules"));
    }
}
