//! The named groups: public hosts that work of a kind cannot do without, and nothing that a person could be tracked by.
//!
//! The only file that may name public registries: it lists what the outside calls itself, and nothing here is asked by kew.

/// Groups for what work needs, by the name that a list may have instead of hosts.
pub const GROUPS: [(&str, &[&str]); 6] = [
    ("rust", &["crates.io", "index.crates.io", "static.crates.io", "static.rust-lang.org"]),
    ("node", &["registry.npmjs.org", "registry.yarnpkg.com", "nodejs.org"]),
    ("python", &["pypi.org", "files.pythonhosted.org"]),
    ("go", &["proxy.golang.org", "sum.golang.org"]),
    ("debian", &["deb.debian.org", "security.debian.org"]),
    (
        "git-hosting",
        &[
            "github.com",
            "codeload.github.com",
            "objects.githubusercontent.com",
            "raw.githubusercontent.com",
            "release-assets.githubusercontent.com",
            "gitlab.com",
        ],
    ),
];
