//! Secrets in lines: every form in which they leak by accident, and what must be left alone.

use std::borrow::Cow;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use kew::store::Masker;
use proptest::prelude::*;

const KEY: &str = "sk-ant-api03-Zk9_wq7LmN2pXr5TvB8yHc4JdF6gKs1AeUiOo0QnWbVxMzYtRlPhGjDf3SaE-AA";
const ODD: &str = "p@ss w\"rd/with+odd\\chars=é\u{1f980}!";

fn mask(line: &[u8]) -> String {
    let masker = Masker::new([("API_KEY", KEY), ("ODD", ODD)]);
    String::from_utf8_lossy(&masker.mask(line)).into_owned()
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_form_is_masked() {
    let twice = |text: &str| STANDARD.encode(STANDARD.encode(text));
    let table: Vec<(&str, String, &str)> = vec![
        ("literal", KEY.into(), "***API_KEY***"),
        ("odd literal", ODD.into(), "***ODD***"),
        ("base64", STANDARD.encode(KEY), "***API_KEY***"),
        ("base64 without padding", STANDARD_NO_PAD.encode(ODD), "***ODD***"),
        ("base64url", URL_SAFE.encode(ODD), "***ODD***"),
        ("base64url without padding", URL_SAFE_NO_PAD.encode(ODD), "***ODD***"),
        ("base64 twice", twice(ODD), "***ODD***"),
        ("hex", hex(KEY), "***API_KEY***"),
        ("HEX", hex(ODD).to_uppercase(), "***ODD***"),
        ("JSON", serde_json::to_string(ODD).expect("JSON"), "\"***ODD***\""),
        ("ASCII JSON", r#"p@ss w\"rd/with+odd\\chars=\u00e9\ud83e\udd80!"#.into(), "***ODD***"),
        ("JSON with escaped slashes", "p@ss w\\\"rd\\/with+odd\\\\chars=é\u{1f980}!".into(), "***ODD***"),
        ("URL", "p%40ss%20w%22rd%2Fwith%2Bodd%5Cchars%3D%C3%A9%F0%9F%A6%80%21".into(), "***ODD***"),
        ("url", "p%40ss%20w%22rd%2fwith%2bodd%5cchars%3d%c3%a9%f0%9f%a6%80%21".into(), "***ODD***"),
        (
            "URL as scripts do it",
            "p%40ss%20w%22rd%2Fwith%2Bodd%5Cchars%3D%C3%A9%F0%9F%A6%80!".into(),
            "***ODD***",
        ),
        (
            "URL with slashes",
            "p%40ss%20w%22rd/with%2Bodd%5Cchars%3D%C3%A9%F0%9F%A6%80%21".into(),
            "***ODD***",
        ),
    ];
    for (form, text, expected) in table {
        assert_eq!(mask(text.as_bytes()), expected, "{form}");
        let line = format!("before: {text} :after");
        assert_eq!(mask(line.as_bytes()), format!("before: {expected} :after"), "{form} inside a line");
    }
}

#[test]
fn base64_is_found_at_every_alignment() {
    for (before, after) in [("", ""), ("u:", ""), ("x", "\n"), ("ab", "trailing"), ("user", "\n")] {
        let line = STANDARD.encode(format!("{before}{KEY}{after}"));
        let masked = mask(line.as_bytes());
        assert!(masked.contains("***API_KEY***"), "{before:?} {after:?}: {masked}");
        // At most the two characters at each side that also hold a neighbour's bits.
        let context = (before.len() + after.len()) * 4 / 3 + 8;
        assert!(masked.len() <= "***API_KEY***".len() + context, "{before:?} {after:?}: {masked}");
        let twice = mask(STANDARD.encode(&line).as_bytes());
        assert!(twice.contains("***API_KEY***"), "{before:?} {after:?} twice: {twice}");
    }
}

#[test]
fn wrapped_base64_is_masked_line_by_line() {
    let wide = "k".repeat(30) + KEY + KEY;
    let masker = Masker::new([("WIDE", &wide)]);
    let encoded = STANDARD.encode(&wide);
    for line in encoded.as_bytes().chunks(76) {
        assert_eq!(masker.mask(line), b"***WIDE***".as_slice(), "{}", String::from_utf8_lossy(line));
    }
    let inside_json = format!("{}\\n{}", &encoded[..76], &encoded[76..152]);
    assert_eq!(masker.mask(inside_json.as_bytes()), b"***WIDE***\\n***WIDE***".as_slice());
}

#[test]
fn a_long_piece_of_a_token_is_masked() {
    assert_eq!(mask(format!("key is {}…", &KEY[3..40]).as_bytes()), "key is ***API_KEY***…");
    let short = format!("key starts with {} all right", &KEY[..13]);
    assert_eq!(mask(short.as_bytes()), short, "a public prefix is no secret");
}

#[test]
fn a_cut_line_hides_the_part_that_is_left() {
    for text in [KEY.to_owned(), ODD.to_owned(), STANDARD.encode(KEY), hex(KEY)] {
        for kept in [8, 9, 15, 20] {
            let masked = mask(format!("cut here {}", &text[..kept]).as_bytes());
            assert!(masked.starts_with("cut here ***"), "{kept}: {masked}");
            let masked = mask(&text.as_bytes()[text.len() - kept..]);
            assert!(masked.starts_with("***"), "the rest, {kept}: {masked}");
        }
    }
    let few = format!("cut here {}", &KEY[..7]);
    assert_eq!(mask(few.as_bytes()), few);
}

#[test]
fn many_in_one_line() {
    assert_eq!(mask(format!("{KEY}{KEY} {ODD}").as_bytes()), "***API_KEY******API_KEY*** ***ODD***");
}

#[test]
fn a_secret_inside_another_hides_the_whole() {
    let masker = Masker::new([("SHORT", "inner-part"), ("LONG", "outer-inner-part-end")]);
    assert_eq!(masker.mask(b"<outer-inner-part-end>"), b"<***LONG***>".as_slice());
    assert_eq!(masker.mask(b"<inner-part>"), b"<***SHORT***>".as_slice());
}

#[test]
fn lines_of_a_long_value_are_masked_by_themselves() {
    let pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nshort\n-----END KEY-----\n";
    let masker = Masker::new([("PEM", pem)]);
    assert_eq!(masker.mask(b"  MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\r"), b"  ***PEM***\r".as_slice());
    assert_eq!(masker.mask(b"short"), b"short".as_slice());
}

#[test]
fn the_newline_at_the_end_of_a_value_is_no_part_of_it() {
    let masker = Masker::new([("TOKEN", "abcd1234\n")]);
    assert_eq!(masker.mask(b"abcd1234"), b"***TOKEN***".as_slice());
}

#[test]
fn nothing_to_mask_copies_nothing() {
    let none = Masker::new(std::iter::empty::<(String, String)>());
    assert!(matches!(none.mask(KEY.as_bytes()), Cow::Borrowed(_)));
    let some = Masker::new([("API_KEY", KEY)]);
    assert!(matches!(some.mask(b"an innocent line"), Cow::Borrowed(_)));
    assert!(matches!(some.mask(b""), Cow::Borrowed(_)));
}

#[test]
fn very_short_values_are_left_alone() {
    let masker = Masker::new([("THREE", "abc"), ("EMPTY", ""), ("FOUR", "wxyz")]);
    assert_eq!(masker.mask(b"abc wxyz abc"), b"abc ***FOUR*** abc".as_slice());
}

#[test]
fn debug_shows_no_value() {
    let shown = format!("{:?}", Masker::new([("API_KEY", KEY)]));
    assert!(shown.contains("API_KEY") && !shown.contains(&KEY[..8]), "{shown}");
}

#[test]
fn a_masked_json_line_is_still_json() {
    let line =
        serde_json::json!({"type": "tool", "output": format!("a {ODD} b {KEY}\\"), "n": 1}).to_string();
    let masked: serde_json::Value = serde_json::from_str(&mask(line.as_bytes())).expect("JSON");
    assert_eq!(masked["output"], "a ***ODD*** b ***API_KEY***\\");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_secret_survives(secret in proptest::collection::vec(any::<u8>(), 6..200), before in proptest::collection::vec(any::<u8>(), 0..40),
                          after in proptest::collection::vec(any::<u8>(), 0..40)) {
        let trimmed = secret.trim_ascii();
        prop_assume!(trimmed.len() >= 4);
        // A run of one byte may be in the neighbourhood or in the mark itself.
        prop_assume!(trimmed.iter().collect::<std::collections::HashSet<_>>().len() > 3);
        let masker = Masker::new([("X", &secret)]);
        let line = [&before[..], trimmed, &after[..]].concat();
        let masked = masker.mask(&line);
        prop_assert!(!masked.windows(trimmed.len()).any(|window| window == trimmed));
    }

    #[test]
    fn other_lines_are_untouched(line in "[a-z ]{0,200}") {
        let masker = Masker::new([("API_KEY", KEY), ("ODD", ODD)]);
        prop_assert_eq!(masker.mask(line.as_bytes()), line.as_bytes());
    }
}
