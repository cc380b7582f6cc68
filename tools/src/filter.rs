//! Which records a command is about: all of them, those of some keyspaces, those whose keys begin with some bytes.
//! Guarantees: without flags everything is taken, and the digest is the store's own.
//! Must not know: what is done with them.
//! Next: command/replay.rs.

use logd_engine::core::StateView;
use logd_engine::digest::Digest;
use logd_engine::index::Entry;

/// Flags.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Filter {
    /// Only this keyspace; may be given several times. The daemon's databases are db0 to db15.
    #[arg(long = "keyspace", value_name = "NAME")]
    pub keyspaces: Vec<String>,
    /// Only keys that begin so.
    #[arg(long = "prefix", value_name = "TEXT")]
    pub prefix: Option<String>,
}

impl Filter {
    /// Whether everything is taken.
    pub fn is_open(&self) -> bool {
        self.keyspaces.is_empty() && self.prefix.is_none()
    }

    /// Whether a keyspace is taken.
    pub fn takes_keyspace(&self, name: &str) -> bool {
        self.keyspaces.is_empty() || self.keyspaces.iter().any(|taken| taken == name)
    }

    /// Whether a key is taken.
    pub fn takes_key(&self, key: &[u8]) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix.as_bytes()))
    }

    /// Visits the records that are taken.
    pub fn visit(&self, view: &StateView, visit: &mut dyn FnMut(u16, &[u8], Entry<'_>)) {
        let taken: Vec<bool> = view.catalog.keyspaces.iter().map(|one| self.takes_keyspace(&one.name)).collect();
        view.visit_all(&mut |keyspace, key, entry| {
            if taken[usize::from(keyspace)] && self.takes_key(key) {
                visit(keyspace, key, entry);
            }
        });
    }

    /// Their number and digest.
    pub fn digest(&self, view: &StateView) -> (u64, Digest) {
        let (mut records, mut digest) = (0, Digest::EMPTY);
        self.visit(view, &mut |keyspace, key, entry| {
            records += 1;
            digest.add(&view.catalog.keyspaces[usize::from(keyspace)].name, key, entry);
        });
        (records, digest)
    }
}
