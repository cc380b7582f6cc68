//! The notation of asbench: object specifications, workload mixes, stages.
//! Guarantees: what is understood means what it means there; what is not is refused.
//! Must not know: targets.
//! Next: mixed.rs.

use super::distribution::Choice;
use super::mixed::{Mix, Sizes};
use super::operation::{KeyOrder, Kind};
use std::str::FromStr;

/// A workload of asbench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsWorkload {
    /// Inserts every key once.
    Insert,
    /// Reads so many percent, writes the rest.
    ReadUpdate(u32),
}

impl FromStr for AsWorkload {
    type Err = String;

    fn from_str(text: &str) -> Result<AsWorkload, String> {
        match text.split_once(',').unwrap_or((text, "50")) {
            ("I", _) if text == "I" => Ok(AsWorkload::Insert),
            // Records have one value here, so that replacing a record and updating its bins are the same.
            ("RU" | "RR", percent) => match percent.parse() {
                Ok(percent) if percent <= 100 => Ok(AsWorkload::ReadUpdate(percent)),
                _ => Err(format!("{percent:?} is no percentage")),
            },
            _ => Err(format!("a workload is I, RU,PERCENT or RR,PERCENT; not {text:?}")),
        }
    }
}

/// The bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSpec {
    /// How many.
    pub bytes: u32,
}

impl FromStr for ObjectSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<ObjectSpec, String> {
        let wrong = || format!("an object is made of I1..I8, Bn, Sn and D, separated by commas; not {text:?}");
        let mut bytes = 0_u32;
        for part in text.split(',') {
            let (kind, number) = part.split_at(part.len().min(1));
            let number = if number.is_empty() { None } else { Some(number.parse::<u32>().map_err(|_| wrong())?) };
            bytes = match (kind, number) {
                ("I", None) => bytes + 4,
                ("I", Some(width @ 1..=8)) => bytes + width,
                ("D", None) => bytes + 8,
                ("B" | "S", Some(length @ 1..=0x100_0000)) => bytes.saturating_add(length),
                _ => return Err(wrong()),
            };
        }
        if bytes > 16 << 20 { Err("an object has at most 16 MiB".to_owned()) } else { Ok(ObjectSpec { bytes }) }
    }
}

/// One stage of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What is asked.
    pub workload: AsWorkload,
    /// Seconds; an insert stage without goes on until all keys are there.
    pub duration: Option<u64>,
    /// Operations a second; 0 for no limit.
    pub rate: u64,
    /// The objects.
    pub object: ObjectSpec,
    /// The first key.
    pub key_start: u64,
    /// How many keys.
    pub keys: u64,
    /// Whether every write brings new bytes.
    pub random: bool,
    /// Seconds of rest before the stage.
    pub pause: u64,
}

impl Stage {
    /// The mix of a stage that reads and updates. Of an insert stage: what its load is made from.
    pub fn mix(&self) -> Mix {
        let reads = match self.workload {
            AsWorkload::Insert => 0,
            AsWorkload::ReadUpdate(percent) => percent,
        };
        let mut shares = vec![(reads, Kind::Read), (100 - reads, Kind::Put)];
        shares.retain(|(weight, _)| *weight > 0);
        Mix {
            shares,
            choice: Choice::Uniform,
            sequential_percent: 0,
            first: self.key_start,
            records: self.keys,
            order: KeyOrder::Hashed,
            sizes: Sizes::one(self.object.bytes),
            scan_max: 1,
            fresh_values: self.random,
        }
    }
}

/// Reads a stages file: a list of mappings in YAML's plainest form. `base`: what a stage does not say.
pub fn stages(text: &str, base: &Stage) -> Result<Vec<Stage>, String> {
    let mut stages: Vec<Stage> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split(" #").next().unwrap_or_default().trim_end();
        let mut pair = line.trim_start();
        if pair.is_empty() || pair.starts_with('#') || pair == "---" {
            continue;
        }
        if let Some(first) = pair.strip_prefix("- ") {
            stages.push(base.clone());
            pair = first.trim_start();
        }
        let stage = stages.last_mut().ok_or_else(|| format!("line {number}: a stage begins with \"- \""))?;
        let (name, value) = pair.split_once(':').ok_or_else(|| format!("line {number}: not NAME: VALUE"))?;
        set(stage, name.trim(), value.trim().trim_matches('"')).map_err(|why| format!("line {number}: {why}"))?;
    }
    if stages.is_empty() { Err("no stage in the file".to_owned()) } else { Ok(stages) }
}

fn set(stage: &mut Stage, name: &str, value: &str) -> Result<(), String> {
    let number = || value.parse::<u64>().map_err(|_| format!("{name} is a number, not {value:?}"));
    match name {
        "stage" | "desc" => {}
        "duration" => stage.duration = Some(number()?.max(1)),
        "workload" => stage.workload = value.parse()?,
        "tps" => stage.rate = number()?,
        "object-spec" => stage.object = value.parse()?,
        "key-start" => stage.key_start = number()?,
        "key-end" => stage.keys = number()?.checked_sub(stage.key_start).filter(|keys| *keys > 0).ok_or("no keys")?,
        "pause" => stage.pause = number()?,
        "random" => stage.random = value == "true",
        _ => return Err(format!("{name} is not supported")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Stage {
        Stage {
            workload: AsWorkload::ReadUpdate(50),
            duration: Some(10),
            rate: 0,
            object: ObjectSpec { bytes: 4 },
            key_start: 0,
            keys: 100,
            random: false,
            pause: 0,
        }
    }

    #[test]
    fn objects_and_workloads_mean_what_they_mean_in_asbench() {
        let bytes = |text: &str| text.parse::<ObjectSpec>().map(|object| object.bytes).ok();
        assert_eq!(bytes("B1024"), Some(1024));
        assert_eq!(bytes("I,S10,I8,D"), Some(4 + 10 + 8 + 8));
        assert!(["", "B", "I9", "X3", "[I]"].iter().all(|text| bytes(text).is_none()));
        assert_eq!("RU,80".parse(), Ok(AsWorkload::ReadUpdate(80)));
        assert_eq!("RU".parse(), Ok(AsWorkload::ReadUpdate(50)));
        assert_eq!("I".parse(), Ok(AsWorkload::Insert));
        assert!(["RU,101", "RUF,1,2", "I,5", ""].iter().all(|text| text.parse::<AsWorkload>().is_err()));
    }

    #[test]
    fn a_stages_file_is_read_and_what_it_does_not_say_comes_from_the_flags() {
        let text = "# two stages\n- stage: 1\n  workload: I\n  key-end: 50\n\n- stage: 2\n  duration: 5\n  workload: \"RU,80\" # mix\n  object-spec: B1536\n  tps: 1000\n";
        let read = stages(text, &base()).unwrap();
        assert_eq!((read[0].workload, read[0].keys), (AsWorkload::Insert, 50));
        let second = Stage {
            workload: AsWorkload::ReadUpdate(80),
            duration: Some(5),
            rate: 1000,
            object: ObjectSpec { bytes: 1536 },
            ..base()
        };
        assert_eq!(read[1], second);
        assert!(stages("  duration: 5\n", &base()).is_err());
        assert!(stages("- stage: 1\n  read-bins: 1\n", &base()).is_err());
    }
}
