//! Moments in requests: seconds or milliseconds, from now or since 1970, turned into engine time.
//! Guarantees: the bounds and error texts of Redis; nothing overflows.
//! Must not know: records.
//! Next: set.rs and expiry.rs.

use super::value::integer;
use super::{Data, Failure, errors};
use logd_engine::units::Millis;

/// How a request tells a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    is_seconds: bool,
    is_absolute: bool,
}

/// Seconds from now.
pub const EX: Form = Form { is_seconds: true, is_absolute: false };
/// Milliseconds from now.
pub const PX: Form = Form { is_seconds: false, is_absolute: false };
/// Seconds since 1970.
pub const EXAT: Form = Form { is_seconds: true, is_absolute: true };
/// Milliseconds since 1970.
pub const PXAT: Form = Form { is_seconds: false, is_absolute: true };

/// Reads a moment that must be positive, as SET and its kin want it.
pub fn positive(data: &Data<'_, '_>, form: Form, word: &[u8], command: &str) -> Result<Millis, Failure> {
    let number = integer(word)?;
    if number <= 0 {
        return Err(errors::invalid_expire(command));
    }
    moment(data, form, number).ok_or_else(|| errors::invalid_expire(command))
}

/// Reads any moment, also one that has passed, as EXPIRE and its kin want it.
pub fn any(data: &Data<'_, '_>, form: Form, word: &[u8], command: &str) -> Result<Millis, Failure> {
    moment(data, form, integer(word)?).ok_or_else(|| errors::invalid_expire(command))
}

/// Engine time of a moment; `None` beyond what milliseconds in 63 bits since 1970 can tell. A moment before engine time
/// began becomes 1, which is past and yet not "never".
fn moment(data: &Data<'_, '_>, form: Form, number: i64) -> Option<Millis> {
    let millis = if form.is_seconds { number.checked_mul(1000)? } else { number };
    if form.is_absolute {
        return Some(data.time.from_wall(millis));
    }
    millis.checked_add(data.time.wall().0 as i64)?;
    let engine_millis = (data.transaction.now().0 as i64).checked_add(millis)?;
    Some(Millis(engine_millis.max(1) as u64))
}
