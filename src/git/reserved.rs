//! The names that belong to kew inside a checkout. Pure.
//!
//! `.kew-prompt.txt` and `.kew-review-verdict.json` are channels between kew and an agent; a repository that brings such a
//! file could speak through them. Invariant: a name is reserved whatever its case, since file systems may fold it.

/// The prompt's file, at the top of a checkout.
pub const PROMPT_FILENAME: &str = ".kew-prompt.txt";

/// Whether a path (bytes as git stores it) has a part that begins with `.kew-`, in any case.
pub fn is_reserved(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .any(|part| part.get(..5).is_some_and(|head| head.eq_ignore_ascii_case(b".kew-")))
}
