//! LCS: the longest common subsequence of two strings.
//! Guarantees: the matches and their order are Redis'; the table of lengths is bounded before it is built.
//! Must not know: records.
//! Next: string.rs.
//!
//! The bound is an eighth of Redis': the shards of both keys stay locked meanwhile, and the target has little memory.

use super::value::integer;
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::resp::Out;

const TABLE_BYTES_MAX: usize = 64 << 20;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[DataSpec::new(
    "lcs",
    -3,
    flags::READ,
    KeyPlaces::TWO,
    "string",
    lcs,
    "Tells the longest sequence of bytes that two strings have in common.",
)];

#[derive(Default)]
struct LcsOptions {
    is_len: bool,
    is_idx: bool,
    match_bytes_min: usize,
    has_match_len: bool,
}

impl LcsOptions {
    fn parse(words: &Words<'_>) -> Result<LcsOptions, Failure> {
        let mut options = LcsOptions::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"LEN" => options.is_len = true,
                b"IDX" => options.is_idx = true,
                b"WITHMATCHLEN" => options.has_match_len = true,
                b"MINMATCHLEN" => {
                    let bytes = integer(rest.next().ok_or_else(errors::syntax)?)?;
                    options.match_bytes_min = usize::try_from(bytes).unwrap_or(0);
                }
                _ => return Err(errors::syntax()),
            }
        }
        if options.is_len && options.is_idx {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(Failure::reply(text));
        }
        Ok(options)
    }
}

/// A run of equal bytes: where it ends in each string, one past, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    left_end: usize,
    right_end: usize,
    bytes: usize,
}

/// Lengths of the longest common subsequence of every pair of prefixes.
struct Table<'a> {
    left: &'a [u8],
    right: &'a [u8],
    lengths: Vec<u32>,
}

impl<'a> Table<'a> {
    fn build(left: &'a [u8], right: &'a [u8]) -> Result<Table<'a>, Failure> {
        let cells = (left.len() + 1).checked_mul(right.len() + 1);
        let cells = cells.filter(|cells| *cells <= TABLE_BYTES_MAX / size_of::<u32>()).ok_or_else(|| {
            Failure::reply("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
        })?;
        let mut table = Table { left, right, lengths: vec![0; cells] };
        for i in 1..=left.len() {
            for j in 1..=right.len() {
                let length = if left[i - 1] == right[j - 1] {
                    table.length(i - 1, j - 1) + 1
                } else {
                    table.length(i - 1, j).max(table.length(i, j - 1))
                };
                table.lengths[i * (right.len() + 1) + j] = length;
            }
        }
        Ok(table)
    }

    fn length(&self, left_bytes: usize, right_bytes: usize) -> u32 {
        self.lengths[left_bytes * (self.right.len() + 1) + right_bytes]
    }

    fn length_of_all(&self) -> i64 {
        self.length(self.left.len(), self.right.len()).into()
    }

    /// The matches from the end to the start. Of two ways back the one that shortens the right string is taken.
    fn matches(&self) -> Vec<Match> {
        let (mut i, mut j) = (self.left.len(), self.right.len());
        let mut matches = Vec::new();
        let mut run = Match { left_end: i, right_end: j, bytes: 0 };
        while i > 0 && j > 0 {
            if self.left[i - 1] == self.right[j - 1] {
                run.bytes += 1;
                (i, j) = (i - 1, j - 1);
                continue;
            }
            if self.length(i - 1, j) > self.length(i, j - 1) {
                i -= 1
            } else {
                j -= 1
            }
            if run.bytes > 0 {
                matches.push(run);
            }
            run = Match { left_end: i, right_end: j, bytes: 0 };
        }
        if run.bytes > 0 {
            matches.push(run);
        }
        matches
    }
}

fn lcs(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let not_strings = |_| Failure::reply("ERR The specified keys must contain string values");
    let left = data.read_string(words[1]).map_err(not_strings)?;
    let right = data.read_string(words[2]).map_err(not_strings)?;
    let options = LcsOptions::parse(&words[3..])?;
    let table = Table::build(left.map_or(&[], |left| left.bytes), right.map_or(&[], |right| right.bytes))?;
    if options.is_idx {
        tell_matches(&table, &options, out);
    } else if options.is_len {
        out.integer(table.length_of_all());
    } else {
        let runs = table.matches().into_iter().rev();
        let parts = runs.map(|run| &table.left[run.left_end - run.bytes..run.left_end]);
        out.bulk(&parts.collect::<Vec<_>>().concat());
    }
    Ok(())
}

fn tell_matches(table: &Table<'_>, options: &LcsOptions, out: &mut Out) {
    let mut matches = table.matches();
    matches.retain(|run| run.bytes >= options.match_bytes_min);
    out.map(2);
    out.bulk(b"matches");
    out.array(matches.len());
    for run in matches {
        out.array(2 + usize::from(options.has_match_len));
        for end in [run.left_end, run.right_end] {
            out.array(2);
            out.integer((end - run.bytes) as i64);
            out.integer(end as i64 - 1);
        }
        if options.has_match_len {
            out.integer(run.bytes as i64);
        }
    }
    out.bulk(b"len");
    out.integer(table.length_of_all());
}
