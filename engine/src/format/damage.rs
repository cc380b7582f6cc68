//! What a decoder says when bytes are not what they should be, before anybody has told it the file.
//! Guarantees: a newer version is told apart from damage, so that an old program never calls a new store broken.
//! Must not know: files; the caller adds the name and where in the file the structure lies.
//! Next: snapshot.rs and manifest.rs decode with it.

use crate::error::{Corrupt, Error, Refused};
use crate::units::FileOffset;

/// Why a structure was not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is damaged.
    Damaged(Damage),
    /// It is sound, but of a version that this program does not know.
    Newer {
        /// The version found.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
}

/// Where a structure is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The structure.
    pub what: &'static str,
    /// Row of the table in docs/FORMAT.md.
    pub case: char,
    /// Byte place, counted from the start of the structure.
    pub offset: FileOffset,
    /// What should stand there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

impl Flaw {
    /// A damage.
    pub fn damaged(
        what: &'static str,
        case: char,
        offset: FileOffset,
        expected: impl ToString,
        found: impl ToString,
    ) -> Flaw {
        Flaw::Damaged(Damage { what, case, offset, expected: expected.to_string(), found: found.to_string() })
    }

    /// The error for the user, now that the file and the place of the structure in it are known.
    pub fn into_error(self, file: &str, base: FileOffset) -> Error {
        match self {
            Flaw::Newer { found, known } => Refused::Version { file: file.to_owned(), found, known }.into(),
            Flaw::Damaged(damage) => damage.into_corrupt(file, base).into(),
        }
    }
}

impl Damage {
    /// The damage with its file and place.
    pub fn into_corrupt(self, file: &str, base: FileOffset) -> Corrupt {
        Corrupt {
            what: self.what,
            file: file.to_owned(),
            offset: base.saturating_add(self.offset),
            case: self.case,
            expected: self.expected,
            found: self.found,
        }
    }
}

/// Compares a checksum; the one place that words such a damage.
pub fn check_crc(what: &'static str, case: char, offset: FileOffset, stored: u32, computed: u32) -> Result<(), Flaw> {
    if stored == computed {
        return Ok(());
    }
    Err(Flaw::damaged(what, case, offset, format!("checksum {stored:08x}"), format!("{computed:08x}")))
}

/// Compares two numbers that must be equal.
pub fn check_equal<T: PartialEq + ToString>(
    what: &'static str,
    case: char,
    offset: FileOffset,
    expected: T,
    found: T,
) -> Result<(), Flaw> {
    if expected == found { Ok(()) } else { Err(Flaw::damaged(what, case, offset, expected, found)) }
}

/// Checks that padding is zero, so that no byte of a file goes unchecked.
pub fn check_zero(what: &'static str, case: char, base: FileOffset, padding: &[u8]) -> Result<(), Flaw> {
    match padding.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(at) => Err(Flaw::damaged(
            what,
            case,
            base.saturating_add(at as u64),
            "zero padding",
            format!("{:02x}", padding[at]),
        )),
    }
}
