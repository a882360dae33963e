//! Artifacts come out whole; what is no plain file, or too much, does not, however the agent or the container tries.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, fs::symlink},
    process::Command,
};

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    digest::sha256_hex,
    git::artifacts::{self, ArtifactFault, ArtifactLimits, Packed},
    plan::pattern::Pattern,
};

type Files = BTreeMap<String, (bool, Vec<u8>)>;

const LIMITS: ArtifactLimits = ArtifactLimits { files: 100, file_bytes: 1 << 20, bytes: 4 << 20 };

fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(tmp.path()).unwrap().join("work");
    fs::create_dir(&root).unwrap();
    (tmp, root)
}

fn write(root: &Utf8Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(*text).unwrap()).collect()
}

/// What the script writes.
fn pack(root: &Utf8Path, wanted: &[Pattern], limits: &ArtifactLimits) -> Vec<u8> {
    let output = Command::new("/bin/sh")
        .args(["-c", artifacts::SCRIPT, "kew-artifacts"])
        .args(artifacts::script_args(wanted, limits, root.as_str()))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .current_dir("/")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status);
    output.stdout
}

fn unpack(
    stream: &[u8],
    wanted: &[Pattern],
    limits: &ArtifactLimits,
) -> (Result<Packed, ArtifactFault>, Files) {
    let mut files = Files::new();
    let mut store = |path: &str, executable: bool, content: &mut dyn Read| -> io::Result<()> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        assert!(files.insert(path.to_owned(), (executable, bytes)).is_none(), "{path} twice");
        Ok(())
    };
    let packed = artifacts::unpack(&mut &*stream, wanted, limits, &mut store);
    (packed, files)
}

fn take(root: &Utf8Path, texts: &[&str], limits: &ArtifactLimits) -> (Packed, Files) {
    let wanted = patterns(texts);
    let (packed, files) = unpack(&pack(root, &wanted, limits), &wanted, limits);
    (packed.unwrap(), files)
}

fn names(files: &Files) -> Vec<&str> {
    files.keys().map(String::as_str).collect()
}

#[test]
fn matching_files_come_out_whole_with_their_digests() {
    let (_tmp, root) = folder();
    let binary: Vec<u8> = (0..100_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    write(&root, "coverage/index.html", "<html>");
    write(&root, "coverage/deep/er/.hidden", &binary);
    write(&root, "coverage/empty", "");
    write(&root, "report.xml", "<x/>");
    write(&root, "src/other", "no");
    write(&root, "bin/run", "#!/bin/sh\n");
    fs::set_permissions(root.join("bin/run"), fs::Permissions::from_mode(0o4755)).unwrap();
    let (packed, files) = take(&root, &["coverage/**", "*.xml", "bin/run", "none/**"], &LIMITS);
    let expected =
        ["bin/run", "coverage/deep/er/.hidden", "coverage/empty", "coverage/index.html", "report.xml"];
    assert_eq!(names(&files), expected);
    assert_eq!(files["coverage/deep/er/.hidden"], (false, binary.clone()));
    assert!(files["bin/run"].0);
    assert_eq!(packed.matched, [true, true, true, false]);
    assert_eq!(packed.left_out, Vec::<String>::new());
    let row = packed.files.iter().find(|file| file.path == "coverage/deep/er/.hidden").unwrap();
    assert_eq!((row.size, &row.sha256), (100_000, &sha256_hex(&binary)));
}

#[test]
fn links_pipes_sparse_giants_and_git_do_not_come_out_and_are_named() {
    let (_tmp, root) = folder();
    write(&root, "out/good", "good");
    write(&root, "elsewhere/secret", "secret");
    symlink("/etc/passwd", root.join("out/link")).unwrap();
    symlink("../elsewhere", root.join("out/folder-link")).unwrap();
    symlink("elsewhere", root.join("parent-link")).unwrap();
    let pipe = root.join("out/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, pipe.as_std_path(), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    fs::File::create(root.join("out/sparse")).unwrap().set_len(1 << 30).unwrap();
    write(&root, "out/.git/config", "c");
    write(&root, ".git/config", "c");
    write(&root, "out/.KEW-prompt.txt", "p");
    let (packed, files) = take(&root, &["out/**", "parent-link/**", "**/config"], &LIMITS);
    assert_eq!(names(&files), ["out/good"]);
    assert_eq!(packed.matched, [true, false, false]);
    assert_eq!(
        packed.left_out,
        [
            "`out/folder-link`: a symbolic link",
            "`out/link`: a symbolic link",
            "`out/pipe`: a pipe",
            "`out/sparse`: 1 GiB large, at most 1 MiB are taken",
        ]
    );
}

#[test]
fn hard_links_come_out_as_files_of_their_own() {
    let (_tmp, root) = folder();
    write(&root, "a/one", "same");
    fs::hard_link(root.join("a/one"), root.join("a/two")).unwrap();
    let (_, files) = take(&root, &["a/**"], &LIMITS);
    assert_eq!(names(&files), ["a/one", "a/two"]);
    assert_eq!(files["a/two"].1, b"same");
}

#[test]
fn odd_names_are_data() {
    let (_tmp, root) = folder();
    let long = format!("o/{}/{}", "d".repeat(200), "f".repeat(200));
    for name in ["o/-rf", "o/--files-from=x", "o/sp ace", "o/é", "o/a;b$(c)", &long] {
        write(&root, name, name);
    }
    write(&root, "o/new\nline", "x");
    fs::write(std::path::Path::new(root.as_str()).join(std::ffi::OsStr::from_bytes(b"o/\xff")), "x").unwrap();
    write(&root, "-rf", "top");
    let (packed, files) = take(&root, &["o/**", "-rf"], &LIMITS);
    assert_eq!(files.len(), 7, "{files:?}");
    for (name, (_, bytes)) in files.iter().filter(|(name, _)| *name != "-rf") {
        assert_eq!(bytes, name.as_bytes());
    }
    assert_eq!(files["-rf"].1, b"top");
    let left = packed.left_out.join("\n");
    assert_eq!(packed.left_out.len(), 2, "{left}");
    assert!(
        left.contains("control character") && left.contains("not UTF-8") && !left.contains("new\nline"),
        "{left}"
    );
}

#[test]
fn limits_on_number_and_size_cut_off_in_order_and_say_so() {
    let (_tmp, root) = folder();
    for at in 0..10 {
        write(&root, &format!("f/{at}"), vec![b'x'; 1000]);
    }
    let (packed, files) = take(&root, &["f/**"], &ArtifactLimits { files: 3, ..LIMITS });
    assert_eq!(names(&files), ["f/0", "f/1", "f/2"]);
    assert!(packed.left_out[0].starts_with("7 more: "), "{:?}", packed.left_out);
    let (packed, files) = take(&root, &["f/**"], &ArtifactLimits { bytes: 2500, ..LIMITS });
    assert_eq!(names(&files), ["f/0", "f/1"]);
    assert!(!packed.left_out.is_empty());
}

#[test]
fn very_many_files_are_cut_off_at_the_limit() {
    let (_tmp, root) = folder();
    for folder in 0..30 {
        let folder = root.join(format!("many/{folder}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..1000 {
            fs::File::create(folder.join(file.to_string())).unwrap();
        }
    }
    let (packed, files) = take(&root, &["many/**"], &LIMITS);
    assert_eq!(files.len(), 100);
    assert!(packed.left_out[0].starts_with("29900 more: "), "{:?}", packed.left_out);
}

/// A stream as a lying container could write it.
fn lie(entries: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut stream = lead(entries.len());
    for (name, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(tar::EntryType::new(*kind));
        header.set_cksum();
        stream.extend(header.as_bytes());
        stream.extend(*content);
        stream.extend(vec![0; content.len().next_multiple_of(512) - content.len()]);
    }
    stream.extend([0; 1024]);
    stream
}

/// What comes before the tar.
fn lead(files: usize) -> Vec<u8> {
    format!("kew-artifacts 1\0{files}\0\0").into_bytes()
}

#[test]
fn a_lying_container_gains_nothing() {
    let wanted = patterns(&["a/**", "b"]);
    let run = |entries: &[(&str, u8, &[u8])]| unpack(&lie(entries), &wanted, &LIMITS);
    for name in ["../b", "/b", "a/../../b", "a//b", "a/./b", "a/.git/hooks/x", "a/.kew-x", "c", "a/x\ny", ""]
    {
        let (packed, files) = run(&[(name, b'0', b"x"), ("b", b'0', b"good")]);
        assert_eq!(names(&files), ["b"], "{name:?}");
        assert_eq!(packed.unwrap().left_out.len(), 1, "{name:?}");
    }
    // Only regular files: hard links, links, devices, folders, pipes, sparse files, long links, pax headers.
    for kind in *b"1234567SKxgVDM" {
        let (packed, files) = run(&[("b", kind, b"")]);
        assert!(matches!(packed, Err(ArtifactFault::Broken(_))), "{}", kind as char);
        assert!(files.is_empty());
    }
    let (packed, files) = run(&[("b", b'0', b"one"), ("b", b'0', b"two")]);
    assert_eq!(files["b"].1, b"one");
    assert_eq!(packed.unwrap().left_out, ["`b`: its name came twice"]);
    let many: Vec<(String, u8, &[u8])> = (0..101).map(|at| (format!("a/{at}"), b'0', &b""[..])).collect();
    let many: Vec<(&str, u8, &[u8])> =
        many.iter().map(|(name, kind, bytes)| (name.as_str(), *kind, *bytes)).collect();
    assert!(matches!(run(&many).0, Err(ArtifactFault::Broken(_))));
    // A name of two gigabytes, and a file that never comes.
    let mut long = lie(&[("x", b'L', b"")]);
    let at = lead(1).len();
    let mut header = tar::Header::from_byte_slice(&long[at..at + 512]).clone();
    header.set_size(2 << 30);
    header.set_cksum();
    long[at..at + 512].copy_from_slice(header.as_bytes());
    assert!(matches!(unpack(&long, &wanted, &LIMITS).0, Err(ArtifactFault::Broken(_))));
    let cut = &lie(&[("b", b'0', &[b'x'; 2000])])[..1000];
    let (packed, _) = unpack(cut, &wanted, &LIMITS);
    let packed = packed.unwrap();
    assert!(packed.files.is_empty() && packed.left_out.len() == 1 && packed.matched == [false, false]);
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_and_never_give_an_unwanted_name(bytes: Vec<u8>, at in 0_usize..2000) {
        let wanted = patterns(&["a/**"]);
        let _ = unpack(&bytes, &wanted, &LIMITS);
        let mut near = lie(&[("a/b", b'0', b"content"), ("a/c", b'0', &[b'y'; 700])]);
        let at = at.min(near.len());
        let end = (at + bytes.len()).min(near.len());
        near[at..end].copy_from_slice(&bytes[..end - at]);
        let (_, files) = unpack(&near, &wanted, &LIMITS);
        for name in files.keys() {
            assert!(name.starts_with("a/") && !name.contains(".."), "{name}");
        }
    }
}

#[test]
fn what_the_store_refuses_for_its_name_is_left_out_and_trouble_of_the_disk_is_an_error() {
    let wanted = patterns(&["a/**"]);
    let stream = lie(&[("a/b", b'0', b"one"), ("a/c", b'0', b"two")]);
    let taken = |kind: io::ErrorKind| {
        let mut store = |path: &str, _: bool, content: &mut dyn Read| -> io::Result<()> {
            if path == "a/b" { Err(kind.into()) } else { content.read_to_end(&mut Vec::new()).map(drop) }
        };
        artifacts::unpack(&mut &*stream, &wanted, &LIMITS, &mut store)
    };
    for kind in [io::ErrorKind::AlreadyExists, io::ErrorKind::NotADirectory, io::ErrorKind::InvalidInput] {
        let packed = taken(kind).unwrap();
        assert_eq!((packed.files.len(), packed.left_out.len()), (1, 1));
    }
    assert!(matches!(taken(io::ErrorKind::StorageFull), Err(ArtifactFault::Io(_))));
}
