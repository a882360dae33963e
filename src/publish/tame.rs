//! Text of agents for a page of a forge, where words act: `@team` calls people, `fixes #1` closes an issue, `<!--` hides.
//!
//! A fence makes all of it plain text on the page. But a squash merge may take title and description for a commit message,
//! where there are no fences: so the words are broken too, by a space that everybody sees. Invariant: no line of the text
//! begins a heading, a command or a fence of its own.

use crate::text::inert;

/// The text with every word broken that a forge would act on.
pub fn tame(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        out.push(c);
        let next = chars.peek().copied().unwrap_or(' ');
        let breaks = match c {
            '@' => !word(before) && word(next),
            '#' | '!' | '&' => next.is_ascii_digit(),
            '-' => next.is_ascii_digit() && ends_with_gh(&out),
            // The address of an issue closes it as well as its number.
            ':' => next == '/',
            _ => false,
        };
        if breaks {
            out.push(' ');
        }
        before = c;
    }
    out
}

fn word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_with_gh(out: &str) -> bool {
    let end: Vec<u8> = out.bytes().rev().take(3).collect();
    end.len() == 3 && end[1].eq_ignore_ascii_case(&b'h') && end[2].eq_ignore_ascii_case(&b'g')
}

/// One line, at most `most` characters.
pub fn line(text: &str, most: usize) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    cut(&tame(&inert(first)), most)
}

/// A block that a forge shows as it is: fenced, each line inert, at most `most` characters of text.
pub fn block(text: &str, most: usize) -> String {
    let lines: Vec<String> = text.trim().lines().map(|line| tame(&inert(line))).collect();
    let text = cut(&lines.join("\n"), most);
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}text\n{text}\n{fence}\n")
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_act_are_broken_and_others_are_not() {
        for (text, tamed) in [
            ("ping @org/team", "ping @ org/team"),
            ("fixes #12, closes o/r#3", "fixes # 12, closes o/r# 3"),
            ("resolves gh-7 and GH-8", "resolves gh- 7 and GH- 8"),
            ("see https://example.org/1", "see https: //example.org/1"),
            ("mail a@b.org, C#, x-1, ##, 5:30", "mail a@b.org, C#, x-1, ##, 5:30"),
        ] {
            assert_eq!(tame(text), tamed);
        }
    }

    #[test]
    fn a_block_cannot_be_left() {
        let text = block("a\n````\n<!-- x -->\n/approve\u{1b}[2J", 1000);
        assert_eq!(text, "`````text\na\n````\n<!-- x -->\n/approve\\x1b[2J\n`````\n");
        assert_eq!(block("abcdef", 3), "```text\nabc…\n```\n");
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line("\n  fix @all\nmore", 50), "fix @ all");
        assert_eq!(line("abcdef", 3), "abc…");
    }
}
