//! Rows 1.1 to 1.14: what would have the host run a program, or take objects, files and repositories of the host for the
//! checkout's own. No script here blocks anybody.

use super::{
    Ends::{Either, Held, Home, HomeToo},
    Plant, SPOILT, lies, runs,
};

/// In the order of the table.
pub const PLANTS: &[Plant] = &[
    runs("fsmonitor", "1.1", Home, r#"honest; git config core.fsmonitor "$run""#),
    runs(
        "fsmonitor-include",
        "1.1",
        Home,
        r#"honest; printf '[core]\n\tfsmonitor = "%s"\n' "$run" >../work.cfg 2>/dev/null || true
printf '[core]\n\tfsmonitor = "%s"\n' "$run" >.git/more; git config include.path more"#,
    ),
    runs(
        "fsmonitor-linked-config",
        "1.1",
        Held(SPOILT, "`.git/config` is a symbolic link"),
        r#"honest; git config core.fsmonitor "$run"; mv .git/config .git/real; ln -s real .git/config"#,
    ),
    runs(
        "fsmonitor-bare-below",
        "1.1",
        HomeToo,
        r#"honest; git init -q --bare below; git -C below config core.bare false
git -C below config core.worktree ..; git -C below config core.fsmonitor "$run"; touch below/objects/keep below/refs/keep; rm -rf below/hooks
git add below && git -c core.fsmonitor=false commit -qm below"#,
    ),
    runs(
        "hooks",
        "1.2",
        Home,
        r#"honest; mkdir -p .git/hooks; for hook in applypatch-msg pre-applypatch pre-commit prepare-commit-msg commit-msg post-commit \
    pre-rebase post-checkout post-merge pre-push pre-receive update post-update reference-transaction post-index-change pre-auto-gc fsmonitor-watchman; do
    printf '#!/bin/sh\n%s\n' "$run" >.git/hooks/$hook; chmod +x .git/hooks/$hook; done"#,
    ),
    runs(
        "hooks-in-the-tree",
        "1.2",
        HomeToo,
        r#"honest; mkdir hooks; for hook in pre-commit post-index-change pre-push reference-transaction; do
    printf '#!/bin/sh\n%s\n' "$run" >hooks/$hook; chmod +x hooks/$hook; done
git add hooks; git commit -qm hooks; git config core.hooksPath hooks"#,
    ),
    runs(
        "filter-clean",
        "1.3",
        HomeToo,
        r#"honest; echo '* filter=evil' >.gitattributes; git add .gitattributes; git commit -qm attributes
git config filter.evil.clean "$run cat"; git config filter.evil.smudge "$run cat"; git config filter.evil.required true; echo changed >>honest.txt"#,
    ),
    runs(
        "filter-process",
        "1.3",
        Home,
        r#"honest; mkdir -p .git/info; echo '* filter=evil' >.git/info/attributes; git config filter.evil.process "$run"; echo changed >>honest.txt"#,
    ),
    runs(
        "textconv",
        "1.4",
        Home,
        r#"honest; mkdir -p .git/info; echo '* diff=evil' >.git/info/attributes; git config diff.evil.textconv "$run cat"; echo changed >>honest.txt"#,
    ),
    runs(
        "diff-external",
        "1.4",
        Home,
        r#"honest; git config diff.external "$run"; echo changed >>honest.txt"#,
    ),
    runs(
        "log-signature",
        "1.5",
        HomeToo,
        r#"honest; printf '#!/bin/sh\n%s\n' "$run" >.git/gpg; chmod +x .git/gpg; git config gpg.program "$PWD/.git/gpg"; git config log.showSignature true
signed=$(git cat-file commit HEAD | sed '/^committer/a gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ\n -----END PGP SIGNATURE-----' | sed "s/^parent.*/parent $(git rev-parse HEAD)/" | git hash-object -t commit -w --stdin)
git update-ref HEAD $signed"#,
    ),
    runs(
        "commit-signed",
        "1.5",
        Home,
        r#"honest; printf '#!/bin/sh\n%s\n' "$run" >.git/gpg; chmod +x .git/gpg; git config gpg.program "$PWD/.git/gpg"; git config commit.gpgSign true"#,
    ),
    runs(
        "ssh-command",
        "1.6",
        Home,
        r#"honest; git config core.sshCommand "$run"; git config remote.origin.url ssh://example.invalid/x; git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'"#,
    ),
    runs(
        "git-proxy",
        "1.6",
        Home,
        r#"honest; printf '#!/bin/sh\n%s\n' "$run" >.git/proxy; chmod +x .git/proxy; git config core.gitProxy "$PWD/.git/proxy"; git config remote.origin.url git://example.invalid/x"#,
    ),
    lies(
        "credential-helper",
        "1.6",
        Home,
        r#"honest; git config credential.helper "!$run"; git config url.https://example.invalid/.insteadOf https://github.com/; git config remote.origin.url https://github.com/o/r"#,
    ),
    runs(
        "ext-push",
        "1.7",
        Home,
        r#"honest; git config remote.origin.url .; git config remote.origin.pushurl "ext::sh -c touch% $trap/$name"; git config protocol.ext.allow always"#,
    ),
    runs(
        "remote-packs",
        "1.7",
        Home,
        r#"honest; git config remote.origin.url .; git config remote.origin.uploadpack "$run"; git config remote.origin.receivepack "$run""#,
    ),
    lies(
        "push-instead",
        "1.8",
        Home,
        r#"honest; git init -q --bare .git/mine.git; git config "url.$PWD/.git/mine.git.pushInsteadOf" https://github.com/o/r; git config remote.origin.url https://github.com/o/r; git config push.default current"#,
    ),
    runs(
        "nested-repository",
        "1.9",
        Home,
        r#"honest; git init -q nested; ( cd nested && echo x >x && git add x && git commit -qm nested ); git -C nested config core.fsmonitor "$run""#,
    ),
    runs(
        "submodule",
        "1.9",
        Either,
        r#"honest; git init -q sub; ( cd sub && echo x >x && git add x && git commit -qm sub ); git -c advice.addEmbeddedRepo=false add sub; git commit -qm sub
git -C sub config core.fsmonitor "$run""#,
    ),
    runs(
        "promisor",
        "1.10",
        Held(SPOILT, "cannot be packed"),
        r#"honest; git config extensions.partialClone evil; git config core.repositoryFormatVersion 1; git config remote.evil.promisor true
git config remote.evil.url "ext::sh -c touch% $trap/$name"; git config protocol.ext.allow always; blob=$(git rev-parse HEAD:honest.txt); rm -f .git/objects/$(printf %.2s $blob)/${blob#??}; echo changed >>honest.txt"#,
    ),
    lies(
        "alternates",
        "1.11",
        Home,
        r#"honest; echo "$user_repo/.git/objects" >.git/objects/info/alternates; echo "$host_repo/.git/objects" >>.git/objects/info/alternates"#,
    ),
    lies(
        "alternates-head",
        "1.11",
        Held(SPOILT, "HEAD names no commit"),
        r#"honest; echo "$user_repo/.git/objects" >.git/objects/info/alternates; head_to $unpushed"#,
    ),
    lies(
        "objects-linked",
        "1.11",
        Held(SPOILT, "not a repository"),
        r#"honest; mv .git/objects .git/mine; ln -s "$host_repo/.git/objects" .git/objects"#,
    ),
    lies(
        "loose-linked",
        "1.11",
        Held(SPOILT, "cannot be packed"),
        r#"honest; mkdir -p .git/objects/$(printf %.2s $unpushed_blob)
ln -sf "$user_repo/.git/objects/$(printf %.2s $unpushed_blob)/${unpushed_blob#??}" .git/objects/$(printf %.2s $unpushed_blob)/${unpushed_blob#??}
head_to $(forge $(printf '100644 blob %s\tstolen\n' $unpushed_blob | git mktree --missing) $(git rev-parse HEAD))"#,
    ),
    lies(
        "gitdir-file",
        "1.12",
        Held(SPOILT, "not a repository"),
        r#"honest; mv .git moved; echo "gitdir: $host_repo/.git" >.git"#,
    ),
    lies(
        "gitdir-linked",
        "1.12",
        Held(SPOILT, "not a repository"),
        r#"honest; mv .git moved; ln -s "$host_repo/.git" .git"#,
    ),
    lies(
        "commondir",
        "1.12",
        Held(SPOILT, "`.git/commondir`"),
        r#"honest; echo "$host_repo/.git" >.git/commondir"#,
    ),
    lies(
        "alternates-parent",
        "1.13",
        Held(SPOILT, "cannot be packed"),
        r#"honest; echo "$user_repo/.git/objects" >.git/objects/info/alternates
head_to $(forge $(git rev-parse 'HEAD^{tree}') $(git rev-parse HEAD) $unpushed)"#,
    ),
    lies("worktree-elsewhere", "1.14", Home, r#"honest; git config core.worktree "$host_repo""#),
];
