//! Moments as people write them: RFC 3339 or milliseconds since the epoch, both in UTC or with an offset.
//! Guarantees: what is printed parses back to the same millisecond; a day or hour that does not exist is refused.
//! Must not know: what happened then.
//! Next: command/replay.rs.

use std::fmt;
use std::str::FromStr;

const MILLIS_PER_DAY: i64 = 86_400_000;

/// Milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// A text that is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time is 2026-11-30T12:00:00Z, 2026-11-30T13:00:00.250+01:00, or milliseconds since 1970; not {0:?}")]
pub struct NoMoment(String);

impl FromStr for Moment {
    type Err = NoMoment;

    fn from_str(text: &str) -> Result<Moment, NoMoment> {
        let parsed = if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { rfc3339(text) };
        parsed.map(Moment).ok_or_else(|| NoMoment(text.to_owned()))
    }
}

fn rfc3339(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let marks = [(4, b"-"), (7, b"-"), (10, b"Tt "), (13, b":"), (16, b":")] as [(usize, &[u8]); 5];
    if bytes.len() < 20 || !text.is_ascii() || marks.iter().any(|(at, allowed)| !allowed.contains(&bytes[*at])) {
        return None;
    }
    let (year, month, day) = (number(&text[..4])?, number(&text[5..7])?, number(&text[8..10])?);
    let (hour, minute, second) = (number(&text[11..13])?, number(&text[14..16])?, number(&text[17..19])?);
    // A leap second counts as the second after it.
    let exists = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !exists {
        return None;
    }
    let (fraction, zone) = split_fraction(&text[19..])?;
    let seconds = (hour * 60 + minute) * 60 + second - zone_seconds(zone)?;
    let millis = days_from_epoch(year, month, day) * MILLIS_PER_DAY + seconds * 1000 + fraction;
    u64::try_from(millis).ok()
}

fn number(text: &str) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Splits `.250+01:00` into 250 and the rest; digits behind the third are dropped.
fn split_fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    let millis = number(&format!("{:0<3}", &rest[..digits.min(3)]))?;
    Some((millis, &rest[digits..]))
}

fn zone_seconds(zone: &str) -> Option<i64> {
    if zone == "Z" || zone == "z" {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01, counting years from March so that the leap day comes last: 2026-03-01 is 20513.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

/// The inverse of `days_from_epoch`.
fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = (month_shifted + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(millis) = i64::try_from(self.0) else { return write!(f, "{}", self.0) };
        let (year, month, day) = date_of(millis / MILLIS_PER_DAY);
        let of_day = millis % MILLIS_PER_DAY;
        let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", of_day % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u64> {
        text.parse::<Moment>().ok().map(|moment| moment.0)
    }

    #[test]
    fn both_ways_of_writing_a_moment_are_read() {
        assert_eq!(millis("1764504000000"), Some(1_764_504_000_000));
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("2025-11-30T12:00:00Z"), Some(1_764_504_000_000));
        assert_eq!(millis("2025-11-30t13:00:00.25+01:00"), Some(1_764_504_000_250));
        assert_eq!(millis("2025-11-30 11:30:00.2509-00:30"), Some(1_764_504_000_250));
    }

    #[test]
    fn moments_that_do_not_exist_are_refused() {
        let wrong = [
            "",
            "now",
            "2025-02-29T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-04-31T00:00:00Z",
            "2025-01-01T24:00:00Z",
            "2025-01-01T00:00:00",
            "2025-01-01T00:00:00.Z",
            "2025-01-01T00:00:00+1:00",
            "1969-12-31T23:59:59Z",
            "2025-01-01T00:00:00Zx",
            "+025-01-01T00:00:00Z",
        ];
        for text in wrong {
            assert_eq!(millis(text).filter(|_| !text.is_empty()), None, "{text}");
        }
        assert!(millis("2024-02-29T00:00:00Z").is_some());
    }

    #[test]
    fn what_is_printed_parses_back() {
        for moment in [0, 1, 951_782_400_000, 1_709_164_799_999, 1_764_504_000_250, 4_102_444_800_000] {
            assert_eq!(millis(&Moment(moment).to_string()), Some(moment));
        }
        assert_eq!(Moment(951_782_400_000).to_string(), "2000-02-29T00:00:00.000Z");
    }
}
