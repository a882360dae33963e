//! Lengths of time and sizes as people write them: `1h30m`, `512MiB`.
//!
//! Reading is strict and checked: a number without a unit, a fraction or an overflow is an error that says what to
//! write instead. Showing rounds, and is for people only; nothing reads it back.

use std::time::Duration;

/// Why a length of time or a size was refused: a fragment that reads well after the quoted text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUnit {
    /// Nothing is there.
    #[error("is empty")]
    Empty,
    /// Digits without a unit behind them.
    #[error("has no unit: write `{0}`")]
    NoUnit(String),
    /// A fraction or a sign.
    #[error("has `{0}`, only whole numbers with units are allowed, as in `{1}`")]
    NotWhole(char, &'static str),
    /// A unit that does not exist.
    #[error("has the unit `{0}`, which is not one of {1}")]
    UnknownUnit(String, &'static str),
    /// A unit that people read in two ways.
    #[error("has the unit `{0}`, which is read in two ways: write `{1}`")]
    Ambiguous(String, String),
    /// Units out of order or twice.
    #[error("has its units out of order: write days, hours, minutes, seconds, each once, as in `1d2h30m`")]
    Order,
    /// More than the type holds.
    #[error("is too large")]
    TooLarge,
}

const TIME_UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
const SIZE_UNITS: [(&str, u32); 10] = [
    ("b", 0),
    ("k", 1),
    ("kib", 1),
    ("m", 2),
    ("mib", 2),
    ("g", 3),
    ("gib", 3),
    ("t", 4),
    ("tib", 4),
    ("pib", 5),
];

/// Reads `45m`, `1h30m`, `90s`, `2d`: days, hours, minutes, seconds, in this order, each at most once. Whole seconds.
pub fn parse_duration(text: &str) -> Result<Duration, BadUnit> {
    if text.is_empty() {
        return Err(BadUnit::Empty);
    }
    let mut rest = text;
    let mut seconds: u64 = 0;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let (digits, unit, tail) = number_and_unit(rest, "1h30m")?;
        if unit.is_empty() {
            return Err(BadUnit::NoUnit(format!("{text}m` or `{text}s")));
        }
        let unit = unit.to_ascii_lowercase();
        let Some(at) = TIME_UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(BadUnit::UnknownUnit(unit, "`d`, `h`, `m`, `s`"));
        };
        if at < next_unit {
            return Err(BadUnit::Order);
        }
        next_unit = at + 1;
        let number: u64 = digits.parse().map_err(|_| BadUnit::TooLarge)?;
        let part = number.checked_mul(TIME_UNITS[at].1).ok_or(BadUnit::TooLarge)?;
        seconds = seconds.checked_add(part).ok_or(BadUnit::TooLarge)?;
        rest = tail;
    }
    Ok(Duration::from_secs(seconds))
}

/// Reads `512MiB`, `4g`, `64k`, `100b` into bytes. Units are powers of 1024; `MB` and its like are refused.
pub fn parse_size(text: &str) -> Result<u64, BadUnit> {
    if text.is_empty() {
        return Err(BadUnit::Empty);
    }
    let (digits, unit, tail) = number_and_unit(text, "512MiB")?;
    if unit.is_empty() {
        return Err(BadUnit::NoUnit(format!("{text}b` or `{text}m")));
    }
    if let Some(bad) = tail.chars().next() {
        return Err(BadUnit::NotWhole(bad, "512MiB"));
    }
    let lower = unit.to_ascii_lowercase();
    if matches!(lower.as_str(), "kb" | "mb" | "gb" | "tb" | "pb") {
        let prefix = unit[..1].to_ascii_uppercase();
        return Err(BadUnit::Ambiguous(unit.to_string(), format!("{digits}{prefix}iB")));
    }
    let Some((_, power)) = SIZE_UNITS.iter().find(|(name, _)| *name == lower) else {
        return Err(BadUnit::UnknownUnit(
            unit.to_string(),
            "`b`, `KiB`, `MiB`, `GiB`, `TiB`, `k`, `m`, `g`, `t`",
        ));
    };
    let number: u64 = digits.parse().map_err(|_| BadUnit::TooLarge)?;
    number.checked_mul(1024u64.pow(*power)).ok_or(BadUnit::TooLarge)
}

/// A length of time for people: `420ms`, `4s`, `4.2s`, `1m05s`, `1h30m`, `2d3h`. The two largest units, cut, not rounded up.
pub fn show_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.subsec_millis()),
        1..60 if time.subsec_millis() < 100 => format!("{seconds}s"),
        1..60 => format!("{seconds}.{}s", time.subsec_millis() / 100),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Bytes for people: `0 B`, `64 KiB`, `1.5 GiB`; one decimal where it is not zero, cut.
pub fn show_size(bytes: u64) -> String {
    const NAMES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (0..NAMES.len()).rev().find(|&p| bytes >= 1u64 << (10 * p)).unwrap_or(0);
    let unit = 1u64 << (10 * power);
    let tenths = u128::from(bytes % unit) * 10 / u128::from(unit);
    match tenths {
        0 => format!("{} {}", bytes / unit, NAMES[power]),
        _ => format!("{}.{tenths} {}", bytes / unit, NAMES[power]),
    }
}

/// Splits `12mib rest` into digits, letters and what follows. Digits are at least one.
fn number_and_unit<'t>(text: &'t str, example: &'static str) -> Result<(&'t str, &'t str, &'t str), BadUnit> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(digits_end);
    if digits.is_empty() {
        let bad = rest.chars().next().unwrap_or(' ');
        return Err(BadUnit::NotWhole(bad, example));
    }
    let unit_end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(unit_end);
    match tail.chars().next() {
        Some(bad) if unit.is_empty() => Err(BadUnit::NotWhole(bad, example)),
        _ => Ok((digits, unit, tail)),
    }
}

/// A size in bytes that is written as people do: `512MiB`, `4g`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

impl Size {
    /// From bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&show_size(self.0))
    }
}

/// Exact: the largest unit that leaves a whole number, so that reading it back gives the same size.
impl serde::Serialize for Size {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole = units.iter().find(|(_, shift)| self.0 != 0 && self.0.is_multiple_of(1 << shift));
        let text = match whole {
            Some((unit, shift)) => format!("{}{unit}", self.0 >> shift),
            None => format!("{}B", self.0),
        };
        serializer.serialize_str(&text)
    }
}

impl<'de> serde::Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        let bad = |error| serde::de::Error::custom(format!("the size `{}` {error}", text.escape_default()));
        parse_size(&text).map(Self).map_err(bad)
    }
}

impl schemars::JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A whole number with a unit, powers of 1024: `512MiB`, `4g`.",
            "pattern": "^[0-9]+([bB]|[kKmMgGtT]([iI][bB])?|[pP][iI][bB])$",
        })
    }
}
