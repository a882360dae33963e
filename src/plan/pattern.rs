//! Patterns of artifacts: which files of a checkout are kept beside the log. Pure.
//!
//! `*` stands for any characters within one name, `**` as a whole part for any folders or none. Nothing else is special.
//! Two programs read a pattern, a `find` in a sealed container and kew itself, so what they could read differently is
//! refused. Invariant: no pattern leads out of the checkout or into its `.git`.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

/// The longest pattern, in bytes.
const LONGEST: usize = 200;
/// Characters that other programs take for something.
const SPECIAL: &str = "?[]{}\\";

/// One checked pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

/// What is wrong with a pattern, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct BadPattern {
    /// What is wrong: `is empty`.
    pub fault: String,
    /// What to write.
    pub help: &'static str,
}

/// Patterns, ready to be asked.
#[derive(Debug, Clone)]
pub struct Patterns {
    set: GlobSet,
}

impl Pattern {
    /// Checks it.
    pub fn new(text: impl Into<String>) -> Result<Self, BadPattern> {
        let text = text.into();
        let bad = |fault: &str, help| Err(BadPattern { fault: fault.to_owned(), help });
        if text.is_empty() {
            return bad("is empty", "as in `coverage/**`");
        }
        if text.len() > LONGEST {
            return bad("is longer than 200 bytes", "a shorter one with `*` matches the same and more");
        }
        if text.contains(char::is_control) {
            return bad("has a control character", "as in `coverage/**`");
        }
        if text.starts_with('/') {
            return bad("is absolute", "patterns are relative to the checkout, as in `coverage/**`");
        }
        if text.ends_with('/') {
            return bad("ends with `/`", "for all that is in a folder, as in `coverage/**`");
        }
        if let Some(special) = text.chars().find(|c| SPECIAL.contains(*c)) {
            let fault = format!("has `{special}`");
            return Err(BadPattern {
                fault,
                help: "only `*` and `**` are special, and no other such character is taken",
            });
        }
        for part in text.split('/') {
            if matches!(part, "" | "." | "..") {
                return bad("has an empty part, `.` or `..`", "write the plain way to the files");
            }
            if part.contains("**") && part != "**" {
                return bad(
                    "has `**` beside other characters",
                    "`**` stands alone between slashes, as in `**/*.xml`",
                );
            }
            if part.eq_ignore_ascii_case(".git") {
                return bad("leads into `.git`", "git's own files are no artifacts");
            }
            if part.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(".kew-")) {
                return bad("names kew's own files", "names that begin with `.kew-` are reserved");
            }
        }
        Ok(Self(text))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same as an extended regular expression of POSIX, over whole paths that begin with `./`.
    pub fn posix_regex(&self) -> String {
        let mut regex = r"\./".to_owned();
        let mut parts = self.0.split('/').peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            if part == "**" {
                regex.push_str(if last { ".+" } else { "([^/]+/)*" });
                continue;
            }
            for character in part.chars() {
                match character {
                    '*' => regex.push_str("[^/]*"),
                    '.' | '^' | '$' | '+' | '(' | ')' | '|' => regex.extend(['\\', character]),
                    plain => regex.push(plain),
                }
            }
            if !last {
                regex.push('/');
            }
        }
        regex
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for Pattern {
    type Error = BadPattern;

    fn try_from(text: String) -> Result<Self, BadPattern> {
        Self::new(text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

impl Patterns {
    /// Makes them ready.
    pub fn new(patterns: &[Pattern]) -> Self {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let glob = GlobBuilder::new(&pattern.0).literal_separator(true).build();
            set.add(glob.expect("a checked pattern has nothing special but stars in their places"));
        }
        Self { set: set.build().expect("a few short patterns are not too large") }
    }

    /// Which of them match the relative path, by their places.
    pub fn matching(&self, path: &str) -> Vec<usize> {
        self.set.matches(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        !Patterns::new(&[Pattern::new(pattern).unwrap()]).matching(path).is_empty()
    }

    #[test]
    fn stars_stay_within_a_name_and_double_stars_do_not() {
        for (pattern, yes, no) in [
            (
                "coverage/**",
                &["coverage/a", "coverage/a/b", "coverage/.x"][..],
                &["coverage", "x/coverage/a"][..],
            ),
            ("*.xml", &["a.xml", ".xml"], &["a/b.xml", "axml"]),
            ("**/*.xml", &["a.xml", "a/b.xml", "a/b/c.xml"], &["a/b.xmlx"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/xb", "ab"]),
            ("**", &["a", "a/b"], &[]),
            ("a+(b)|c.d^$", &["a+(b)|c.d^$"], &["aab", "a+(b)"]),
            ("-rf", &["-rf"], &["rf"]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_or_leads_away_is_refused() {
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "./a",
            "a//b",
            "a/",
            "a**",
            "**b/c",
            "***",
            ".git/config",
            "a/.GIT/x",
            ".kew-prompt.txt",
            "a?b",
            "[ab]",
            "{a,b}",
            "a\\*",
            "a\nb",
            "a\0b",
        ] {
            assert!(Pattern::new(bad).is_err(), "{bad:?}");
        }
        assert!(Pattern::new("x".repeat(201)).is_err());
    }

    #[test]
    fn the_regex_for_find_says_the_same() {
        let regex = |pattern: &str| Pattern::new(pattern).unwrap().posix_regex();
        assert_eq!(regex("coverage/**"), r"\./coverage/.+");
        assert_eq!(regex("**/a*.x+"), r"\./([^/]+/)*a[^/]*\.x\+");
        assert_eq!(regex("a/**/b"), r"\./a/([^/]+/)*b");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_pattern_or_not_and_a_pattern_can_be_asked(text: String, path: String) {
            if let Ok(pattern) = Pattern::new(text) {
                let _ = Patterns::new(&[pattern]).matching(&path);
            }
        }
    }
}
