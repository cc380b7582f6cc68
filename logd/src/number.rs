//! Numbers as Redis reads and writes them in requests and values.
//! Guarantees: an integer is taken only in the one form it would be written in; a sum of decimals has no binary noise.
//! Must not know: commands.
//! Next: request/counter.rs.
//!
//! Redis adds in 80-bit floating point and prints 17 decimals. Here decimals of up to 20 digits before and 17 after the
//! point are added exactly, which gives the same text wherever 80 bits suffice (0.1 + 0.2 is 0.3) and the true one
//! where Redis shows rounding noise. Larger numbers and those with an exponent go through 64-bit floating point and are
//! written as the shortest decimal that reads back the same. Beyond 1.8e308 a text is no valid float, nor is hexadecimal.

const DECIMALS: usize = 17;
const ONE: i128 = 10_i128.pow(DECIMALS as u32);
const WHOLE_DIGITS_MAX: usize = 20;
const _: () = assert!((WHOLE_DIGITS_MAX + DECIMALS) < 38, "the sum of two fixed numbers fits 128 bits");

/// Reads an integer: no plus, no leading zeros, no blanks, nothing behind it.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.len() > 19 || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    // Summed up below zero, where the range is larger by one.
    let negative = digits.iter().try_fold(0_i64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_sub(digit)
    })?;
    if is_negative { Some(negative) } else { negative.checked_neg() }
}

/// Reads an unsigned integer under the same rules.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let is_canonical = text == b"0" || matches!(text.first(), Some(b'1'..=b'9'));
    let is_number = is_canonical && text.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

/// Why two texts have no sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumFault {
    /// One of them is not a number.
    NotFloat,
    /// The sum is infinite or undefined.
    NotFinite,
}

/// Adds two decimal texts and writes the sum in plain decimal, without an exponent or trailing zeros.
pub fn sum(left: &[u8], right: &[u8]) -> Result<String, SumFault> {
    if let (Some(left), Some(right)) = (parse_fixed(left), parse_fixed(right)) {
        return Ok(format_fixed(left + right));
    }
    let left = parse_float(left).ok_or(SumFault::NotFloat)?;
    let right = parse_float(right).ok_or(SumFault::NotFloat)?;
    let sum = left + right;
    if sum.is_finite() { Ok(format_float(sum)) } else { Err(SumFault::NotFinite) }
}

/// Reads a plain decimal as a multiple of 10^-17. `None` if it is none, or out of the range of the exact way.
fn parse_fixed(text: &[u8]) -> Option<i128> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    let (whole, decimals) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    if whole.len() > WHOLE_DIGITS_MAX || decimals.len() > DECIMALS || whole.len() + decimals.len() == 0 {
        return None;
    }
    let padded = whole.iter().chain(decimals).copied().chain(std::iter::repeat_n(b'0', DECIMALS - decimals.len()));
    let value = padded
        .into_iter()
        .try_fold(0_i128, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i128::from(digit - b'0')))?;
    Some(if is_negative { -value } else { value })
}

fn format_fixed(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let (whole, decimals) = (value.abs() / ONE, value.abs() % ONE);
    trim_zeros(format!("{sign}{whole}.{decimals:017}"))
}

fn parse_float(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let is_overflow = value.is_infinite() && text.iter().any(u8::is_ascii_digit);
    (!value.is_nan() && !is_overflow).then_some(value)
}

fn format_float(value: f64) -> String {
    let shortest = format!("{value}");
    let decimals = shortest.find('.').map_or(0, |point| shortest.len() - point - 1);
    if decimals > DECIMALS {
        return trim_zeros(format!("{value:.DECIMALS$}"));
    }
    if shortest == "-0" { "0".to_owned() } else { shortest }
}

/// Takes the zeros off the end of a text with a point.
fn trim_zeros(text: String) -> String {
    let trimmed = text.trim_end_matches('0').trim_end_matches('.');
    if trimmed == "-0" { "0".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_written_form_of_an_integer_is_read() {
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        for text in ["", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "1a", "00"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        for text in ["", "-1", "18446744073709551616", "01", "1 "] {
            assert_eq!(parse_u64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn sums_are_written_in_plain_decimal() {
        let cases = [
            ("10.5", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("3.0", "1.1", "4.1"),
            ("-0.5", "0.5", "0"),
            ("-0.0", "0", "0"),
            ("5.0e3", "2.0e2", "5200"),
            ("1e21", "1", "1000000000000000000000"),
            ("1e-20", "0", "0"),
            ("-.5", "+1.", "0.5"),
            ("99999999999999999999", "1", "100000000000000000000"),
            ("1000000000000", "5.1", "1000000000005.1"),
        ];
        for (left, right, expected) in cases {
            let found = sum(left.as_bytes(), right.as_bytes());
            assert_eq!(found.as_deref(), Ok(expected), "{left} + {right}");
        }
    }

    #[test]
    fn what_is_no_number_has_no_sum() {
        for text in ["", ".", "-", "abc", " 1", "1 ", "nan", "1e400", "1.2.3", "++1"] {
            assert_eq!(sum(text.as_bytes(), b"1"), Err(SumFault::NotFloat), "{text:?}");
        }
        assert_eq!(sum(b"inf", b"1"), Err(SumFault::NotFinite));
        assert_eq!(sum(b"1e308", b"1e308"), Err(SumFault::NotFinite));
    }
}
