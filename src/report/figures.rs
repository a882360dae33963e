//! Numbers for people: tokens, dollars, durations, times. An unknown number is `–`.

use crate::{
    record::Millis,
    stream::{CostSource, Tokens},
};

/// What stands for an unknown number.
pub const UNKNOWN: &str = "–";

/// `999`, `12.3k`, `4.5M`.
pub fn count(count: u64) -> String {
    let scaled = |unit: f64, letter: char| {
        let value = count as f64 / unit;
        if value < 99.95 { format!("{value:.1}{letter}") } else { format!("{value:.0}{letter}") }
    };
    match count {
        0..1_000 => count.to_string(),
        // From 999,500 on, thousands would round to 1000k.
        1_000..999_500 => scaled(1e3, 'k'),
        999_500..999_500_000 => scaled(1e6, 'M'),
        _ => scaled(1e9, 'G'),
    }
}

/// Prompt tokens of all kinds: what went in.
pub fn tokens_in(tokens: Tokens) -> u64 {
    tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write)
}

/// `12.3k in, 4.5k out`.
pub fn tokens(tokens: Tokens) -> String {
    format!("{} in, {} out", count(tokens_in(tokens)), count(tokens.output))
}

/// `$0`, `$0.0055`, `$1.24`.
pub fn usd(usd: f64) -> String {
    if !usd.is_finite() || usd < 0.0 {
        return UNKNOWN.into();
    }
    if usd == 0.0 {
        return "$0".into();
    }
    if usd < 0.0995 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// A sum: `≥` in front if a part of it is unknown; `–` if all is.
pub fn usd_sum(sum: Option<f64>, at_least: bool) -> String {
    match sum {
        None => UNKNOWN.into(),
        Some(sum) if at_least => format!("≥ {}", usd(sum)),
        Some(sum) => usd(sum),
    }
}

/// A sum beside what subscriptions used, which nobody is billed for: `$0.42`, `$0.42 not billed`, `≥ $1.20 + $0.42 not billed`.
pub fn usd_split(billed: Option<f64>, at_least: bool, not_billed: Option<f64>, label: &str) -> String {
    match not_billed {
        None => usd_sum(billed, at_least),
        Some(list) if !at_least && billed.unwrap_or_default() == 0.0 => format!("{} {label}", usd(list)),
        Some(list) => format!("{} + {} {label}", usd_sum(billed, at_least), usd(list)),
    }
}

/// How a table says that nobody is billed.
pub const NOT_BILLED: &str = "not billed";
/// How a line of text says it.
pub const NOT_BILLED_LONG: &str = "(list price, not billed)";

/// A cost with who says so: `$0.0055 (list price)`, `≥ $0.0055 (in part unknown)`, `–`.
pub fn usd_from(sum: Option<f64>, source: CostSource) -> String {
    let Some(sum) = sum else { return UNKNOWN.into() };
    let from = match source {
        CostSource::Free => return usd(sum),
        CostSource::Provider => "provider",
        CostSource::ListPrice => "list price",
        CostSource::NotBilled => "list price, not billed",
        CostSource::Estimate => "estimate",
        CostSource::Unknown => return format!("≥ {} (in part unknown)", usd(sum)),
    };
    format!("{} ({from})", usd(sum))
}

/// `4s`, `3m 05s`, `1h 02m`, `2d 03h`.
pub fn duration(ms: Millis) -> String {
    let seconds = ms.max(0) / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {:02}s", seconds % 60),
        3600..86400 => format!("{hours}h {:02}m", minutes % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

/// `2026-12-01 09:30:00`, UTC.
pub fn time(ms: Millis) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| UNKNOWN.into(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
