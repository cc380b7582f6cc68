//! One command of the log as a line of text and as JSON.
//! Guarantees: everything in the frame is shown, long values shortened with their length; unknown bytes are named as such.
//! Must not know: where frames come from.
//! Next: dump.rs.

use crate::moment::Moment;
use crate::render::bytes_text;
use logd_engine::format::command::{Command, Effect, decode};
use serde::Serialize;
use std::collections::BTreeMap;

/// Names of keyspaces by number, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<u16, String>);

impl Names {
    /// Learns a name.
    pub fn learn(&mut self, keyspace: u16, name: &str) {
        self.0.insert(keyspace, name.to_owned());
    }

    /// The name, or the number where it is not known.
    pub fn of(&self, keyspace: u16) -> String {
        self.0.get(&keyspace).cloned().unwrap_or_else(|| format!("#{keyspace}"))
    }

    /// Whether a name is among them.
    pub fn has(&self, name: &str) -> bool {
        self.0.values().any(|known| known == name)
    }
}

/// One effect or call, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Line {
    /// "put", "delete", "expire", "clear", "keyspace", "procedure", "call" or "malformed".
    pub kind: &'static str,
    /// Name of the keyspace, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// Key, escaped and shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Value, escaped and shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Expiry in engine milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry_millis: Option<u64>,
    /// Anything else.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Line {
    /// The line for people.
    pub fn text(&self) -> String {
        let mut parts = vec![self.kind.to_owned()];
        parts.extend(self.keyspace.clone());
        parts.extend(self.key.clone());
        parts.extend(self.value.as_ref().map(|value| format!("= {value}")));
        parts.extend(self.expiry_millis.map(|millis| match millis {
            0 => "never expires".to_owned(),
            millis => format!("expires {}", Moment(millis)),
        }));
        parts.extend((!self.detail.is_empty()).then(|| self.detail.clone()));
        parts.join(" ")
    }
}

/// What a frame says. Learns the names of keyspaces it makes.
pub fn lines(frame: &[u8], names: &mut Names) -> Vec<Line> {
    match decode(frame) {
        Err(malformed) => vec![Line { kind: "malformed", detail: malformed.to_string(), ..Line::default() }],
        Ok(Command::Call(call)) => {
            let detail = format!(
                "procedure {} version {:08x} at {} seed {:016x} arguments {}",
                call.procedure,
                call.version,
                Moment(call.time_millis),
                call.seed,
                bytes_text(call.arguments)
            );
            vec![Line { kind: "call", detail, ..Line::default() }]
        }
        Ok(Command::Effects(effects)) => effects
            .map(|effect| match effect {
                Ok(effect) => line(&effect, names),
                Err(malformed) => Line { kind: "malformed", detail: malformed.to_string(), ..Line::default() },
            })
            .collect(),
    }
}

fn line(effect: &Effect<'_>, names: &mut Names) -> Line {
    let on = |keyspace: u16, key: Option<&[u8]>, kind| Line {
        kind,
        keyspace: Some(names.of(keyspace)),
        key: key.map(bytes_text),
        ..Line::default()
    };
    match *effect {
        Effect::Put { keyspace, key, value, expiry_millis } => Line {
            value: Some(bytes_text(value)),
            expiry_millis: (expiry_millis != 0).then_some(expiry_millis),
            ..on(keyspace, Some(key), "put")
        },
        Effect::Delete { keyspace, key } => on(keyspace, Some(key), "delete"),
        Effect::Expire { keyspace, key, expiry_millis } => {
            Line { expiry_millis: Some(expiry_millis), ..on(keyspace, Some(key), "expire") }
        }
        Effect::Clear { keyspace } => on(keyspace, None, "clear"),
        Effect::Keyspace(made) => {
            names.learn(made.keyspace, made.name);
            let level = ["default", "accepted", "written", "synced", "volatile"][usize::from(made.level.min(4))];
            let routing = match made.routing {
                0 => "by whole key".to_owned(),
                1 => format!("by the first {} bytes", made.prefix_bytes),
                _ => "in one shard".to_owned(),
            };
            let detail = format!("number {}, level {level}, routed {routing}", made.keyspace);
            Line { kind: "keyspace", keyspace: Some(made.name.to_owned()), detail, ..Line::default() }
        }
        Effect::Procedure { procedure, version, form, name } => {
            let form = if form == 2 { "calls" } else { "effects" };
            let detail = format!("{name} number {procedure}, version {version:08x}, logged as {form}");
            Line { kind: "procedure", detail, ..Line::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logd_engine::format::command::{FrameBuilder, KeyspaceEffect};

    #[test]
    fn a_keyspace_is_called_by_its_name_once_it_was_made() {
        let mut builder = FrameBuilder::new();
        let mut names = Names::default();
        builder.start_effects();
        builder.push(Effect::Delete { keyspace: 0, key: b"k" });
        let made = KeyspaceEffect { keyspace: 0, level: 3, routing: 1, prefix_bytes: 4, name: "things" };
        builder.push(Effect::Keyspace(made));
        builder.push(Effect::Put { keyspace: 0, key: b"k", value: b"\x01", expiry_millis: 1000 });
        let texts: Vec<String> = lines(builder.finish(), &mut names).iter().map(Line::text).collect();
        let expected = [
            r#"delete #0 "k""#,
            "keyspace things number 0, level synced, routed by the first 4 bytes",
            r#"put things "k" = "\x01" expires 1970-01-01T00:00:01.000Z"#,
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn what_cannot_be_decoded_is_said_and_not_skipped() {
        let lines = lines(&[1, 2, 3], &mut Names::default());
        assert_eq!(lines[0].kind, "malformed");
    }
}
