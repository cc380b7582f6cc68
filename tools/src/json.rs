//! JSON as the tools print it.
//! Guarantees: every document and every line has `"schema": 1`, and fields are only ever added under that number.
//! Must not know: what is in it.
//! Next: command/.

use serde::Serialize;

/// Version of the form of all JSON output.
pub const SCHEMA: u32 = 1;

/// A document with its version in front.
#[derive(Debug, Serialize)]
pub struct Document<'a, T> {
    schema: u32,
    #[serde(flatten)]
    body: &'a T,
}

impl<'a, T: Serialize> Document<'a, T> {
    /// Wraps a body, which must serialise as a map.
    pub fn new(body: &'a T) -> Document<'a, T> {
        Document { schema: SCHEMA, body }
    }

    /// Over several lines, for documents.
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).expect("a map with text keys is always JSON")
    }

    /// In one line, for streams of them.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a map with text keys is always JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_says_its_version() {
        #[derive(Serialize)]
        struct Body {
            lsn: u64,
        }
        assert_eq!(Document::new(&Body { lsn: 7 }).line(), r#"{"schema":1,"lsn":7}"#);
    }
}
