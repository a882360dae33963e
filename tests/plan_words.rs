//! Words, units and text of others: what people write and read.

use std::time::Duration;

use kew::{
    text::{cut, did_you_mean, inert, list, plural, short_list, width},
    units::{parse_duration, parse_size, show_duration, show_size},
};
use proptest::prelude::*;

#[test]
fn durations_are_read() {
    let seconds = |text| parse_duration(text).map(|time| time.as_secs());
    assert_eq!(seconds("45m"), Ok(2_700));
    assert_eq!(seconds("1h30m"), Ok(5_400));
    assert_eq!(seconds("90s"), Ok(90));
    assert_eq!(seconds("2d"), Ok(172_800));
    assert_eq!(seconds("1d2h3m4s"), Ok(93_784));
    assert_eq!(seconds("1H30M"), Ok(5_400));
    assert_eq!(seconds("0s"), Ok(0));
}

#[test]
fn bad_durations_say_what_to_write() {
    let told: Vec<String> = [
        "",
        "45",
        "1h30",
        "1.5h",
        "-5m",
        "m",
        "1w",
        "30m1h",
        "1h1h",
        "1h 30m",
        "99999999999999999999s",
        "999999999999999999d",
        "٣m",
        "5µ",
    ]
    .iter()
    .map(|text| format!("`{text}` {}", parse_duration(text).expect_err(text)))
    .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    `` is empty
    `45` has no unit: write `45m` or `45s`
    `1h30` has no unit: write `1h30m` or `1h30s`
    `1.5h` has `.`, only whole numbers with units are allowed, as in `1h30m`
    `-5m` has `-`, only whole numbers with units are allowed, as in `1h30m`
    `m` has `m`, only whole numbers with units are allowed, as in `1h30m`
    `1w` has the unit `w`, which is not one of `d`, `h`, `m`, `s`
    `30m1h` has its units out of order: write days, hours, minutes, seconds, each once, as in `1d2h30m`
    `1h1h` has its units out of order: write days, hours, minutes, seconds, each once, as in `1d2h30m`
    `1h 30m` has ` `, only whole numbers with units are allowed, as in `1h30m`
    `99999999999999999999s` is too large
    `999999999999999999d` is too large
    `٣m` has `٣`, only whole numbers with units are allowed, as in `1h30m`
    `5µ` has the unit `µ`, which is not one of `d`, `h`, `m`, `s`
    ");
}

#[test]
fn sizes_are_read() {
    assert_eq!(parse_size("512MiB"), Ok(512 << 20));
    assert_eq!(parse_size("4g"), Ok(4 << 30));
    assert_eq!(parse_size("64k"), Ok(64 << 10));
    assert_eq!(parse_size("100b"), Ok(100));
    assert_eq!(parse_size("2TiB"), Ok(2 << 40));
}

#[test]
fn bad_sizes_say_what_to_write() {
    let told: Vec<String> = ["", "100", "4GB", "1.5g", "4x", "4g4", "99999999p", "16777216TiB", "é", "4é"]
        .iter()
        .map(|text| format!("`{text}` {}", parse_size(text).expect_err(text)))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    `` is empty
    `100` has no unit: write `100b` or `100m`
    `4GB` has the unit `GB`, which is read in two ways: write `4GiB`
    `1.5g` has `.`, only whole numbers with units are allowed, as in `512MiB`
    `4x` has the unit `x`, which is not one of `b`, `KiB`, `MiB`, `GiB`, `TiB`, `k`, `m`, `g`, `t`
    `4g4` has `4`, only whole numbers with units are allowed, as in `512MiB`
    `99999999p` has the unit `p`, which is not one of `b`, `KiB`, `MiB`, `GiB`, `TiB`, `k`, `m`, `g`, `t`
    `16777216TiB` is too large
    `é` has `é`, only whole numbers with units are allowed, as in `512MiB`
    `4é` has the unit `é`, which is not one of `b`, `KiB`, `MiB`, `GiB`, `TiB`, `k`, `m`, `g`, `t`
    ");
}

#[test]
fn times_and_sizes_are_shown() {
    let shown = |ms| show_duration(Duration::from_millis(ms));
    assert_eq!([shown(0), shown(420), shown(4_290), shown(59_999)], ["0ms", "420ms", "4.2s", "59.9s"]);
    assert_eq!([shown(65_000), shown(5_400_000), shown(183_600_000)], ["1m05s", "1h30m", "2d03h"]);
    assert_eq!([show_size(0), show_size(1023), show_size(1024)], ["0 B", "1023 B", "1 KiB"]);
    assert_eq!([show_size(3 << 29), show_size(u64::MAX)], ["1.5 GiB", "15.9 EiB"]);
}

#[test]
fn nearest_words_are_offered() {
    let near = |word| did_you_mean(word, ["parser", "docs", "review-docs", "claude-code"]);
    assert_eq!(near("parsre"), Some("parser"));
    assert_eq!(near("Docs"), Some("docs"));
    assert_eq!(near("cluade-code"), Some("claude-code"));
    assert_eq!(near("something"), None);
    assert_eq!(near(""), None);
    assert_eq!(near(&"parser".repeat(100)), None);
    assert_eq!(did_you_mean("b", ["a", "c"]), Some("a"), "the first of equals");
}

#[test]
fn lists_read_well() {
    assert_eq!(list::<&str>([], "and"), "");
    assert_eq!(list(["a"], "and"), "`a`");
    assert_eq!(list(["a", "b"], "or"), "`a` or `b`");
    assert_eq!(list(["a", "b", "c"], "and"), "`a`, `b` and `c`");
    assert_eq!(short_list(&["a", "b", "c"], 2), "`a`, `b` and `c`");
    assert_eq!(short_list(&["a", "b", "c", "d"], 2), "`a`, `b` and 2 more");
    assert_eq!([plural(0, "node"), plural(1, "node"), plural(2, "node")], ["0 nodes", "1 node", "2 nodes"]);
}

#[test]
fn text_of_others_is_made_harmless() {
    let cases = [
        ("plain text", "plain text"),
        ("漢字 é 👩", "漢字 é 👩"),
        ("a\r\nb\tc", "a  b c"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\0\x08\x7f", "\\x00\\x08\\x7f"),
        ("\u{9b}31m\u{85}", "\\u{9b}31m\\u{85}"),
        ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
        ("zero\u{200b}width\u{feff}", "zero\\u{200b}width\\u{feff}"),
        ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
        ("\u{e0041}\u{e0100}", "\\u{e0041}\\u{e0100}"),
        ("x ##[error]y", "x ##\\[error]y"),
        ("###[group]", "###\\[group]"),
        ("#\u{200b}#[error]", "#\\u{200b}#[error]"),
        ("::error::x", "\\::error::x"),
        (" \n\u{a0}\u{3000}::error::x", "  \u{a0}\u{3000}\\::error::x"),
        ("a ::error::x", "a ::error::x"),
        (":x", ":x"),
    ];
    for (given, wanted) in cases {
        assert_eq!(inert(given), wanted, "{given:?}");
    }
    assert!(matches!(inert("a::b [x]"), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn long_text_is_cut_by_columns() {
    assert_eq!(cut("short", 5), "short");
    assert_eq!(cut("longer", 5), "long…");
    assert_eq!(cut("漢字漢字", 5), "漢字…");
    assert_eq!(cut("漢字漢字", 6), "漢字…");
    assert_eq!(cut("漢字", 1), "…");
    assert_eq!(cut("x", 0), "");
    assert_eq!(cut("", 0), "");
    assert_eq!(width("é漢❤\u{fe0f}"), 5);
}

proptest! {
    #[test]
    fn harmless_text_stays_as_it_is(text in any::<String>()) {
        let once = inert(&text).into_owned();
        prop_assert!(!once.contains(char::is_control));
        prop_assert!(!once.contains("##["));
        prop_assert!(!once.trim_start().starts_with("::"));
        prop_assert_eq!(inert(&once), once.as_str());
    }

    #[test]
    fn what_is_cut_fits(text in any::<String>(), columns in 0..40usize) {
        prop_assert!(width(&cut(&text, columns)) <= columns);
    }

    #[test]
    fn any_text_is_a_unit_or_an_error(text in "[0-9a-zA-Zé. -]{0,12}") {
        let _ = (parse_duration(&text), parse_size(&text));
    }

    #[test]
    fn whole_durations_add_up(d in 0..1000u64, h in 0..100u64, m in 0..100u64, s in 0..100u64) {
        let read = parse_duration(&format!("{d}d{h}h{m}m{s}s")).map(|time| time.as_secs());
        prop_assert_eq!(read, Ok(d * 86_400 + h * 3_600 + m * 60 + s));
    }
}
