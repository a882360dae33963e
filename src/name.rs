//! Checked names: what a node, an epic, a run, a commit or a ref may be called.
//!
//! A value of one of these types has passed its rule once and is then trusted everywhere: in argv items, refs,
//! folder names and container names. They never hold a slash (but [`RefName`]), a space, a control character or a leading dash.

use std::fmt;

/// Why a name was refused: a fragment that reads well after the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadName(pub String);

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks `text` against the rule of this name.
            pub fn new(text: impl Into<String>) -> Result<Self, BadName> {
                let text = text.into();
                let check: fn(&str) -> Result<(), BadName> = $check;
                check(&text)?;
                Ok(Self(text))
            }

            /// The name as it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// A node's id: `[a-z0-9][a-z0-9-]{0,39}`.
    NodeId,
    |text| slug(text, 40)
);
name!(
    /// An epic's name: `[a-z0-9][a-z0-9-]{0,59}`; it is part of branch names.
    EpicName,
    |text| slug(text, 60)
);
name!(
    /// A run's id: UTC start time and a random tail, `20261201-093000-k3f9`; sorts by time.
    RunId,
    |text| slug(text, 40)
);
name!(
    /// A git object id in full: 40 (SHA-1) or 64 (SHA-256) lower-case hex digits.
    CommitId,
    |text| {
        let good = matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if good { Ok(()) } else { Err(BadName("is not a full object id".into())) }
    }
);
name!(
    /// The name of an environment variable that carries a credential: `[A-Z_][A-Z0-9_]*`.
    EnvName,
    |text| {
        let mut bytes = text.bytes();
        let first = bytes.next().is_some_and(|b| matches!(b, b'A'..=b'Z' | b'_'));
        if first && bytes.all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_')) {
            Ok(())
        } else {
            Err(BadName("may only have A-Z, 0-9 and _, and may not start with a digit".into()))
        }
    }
);

impl CommitId {
    /// The first ten digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

/// One attempt of a node: the key of everything that an attempt leaves behind (container, log folder, refs).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AttemptKey {
    /// The run that it belongs to.
    pub run: RunId,
    /// The node that it is an attempt of.
    pub node: NodeId,
    /// 1 for the first container start of the node in this run; +1 each time.
    pub attempt: u32,
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.run, self.node, self.attempt)
    }
}

/// `[a-z0-9][a-z0-9-]{0,max-1}`, with messages that name the first offence.
fn slug(text: &str, max: usize) -> Result<(), BadName> {
    if text.is_empty() {
        return Err(BadName("is empty".into()));
    }
    if text.len() > max {
        return Err(BadName(format!("is {} characters long, at most {max} are allowed", text.len())));
    }
    if let Some(bad) = text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
        return Err(BadName(format!("has `{}`, only a-z, 0-9 and - are allowed", bad.escape_default())));
    }
    if text.starts_with('-') {
        return Err(BadName("starts with -".into()));
    }
    Ok(())
}
