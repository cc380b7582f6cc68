//! What keyspaces and procedures a store has.
//! Guarantees: numbers are dense and never reused; a definition only enters through a logged effect.
//! Must not know: records.
//! Next: scope.rs routes keys by the routing kept here.

use crate::durability::DurabilityLevel;
use crate::error::{Error, Full, Refused};
use crate::format::command::KeyspaceEffect;
use crate::limits;

/// How keys of a keyspace find their shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// By a hash of the whole key: spreads best.
    #[default]
    WholeKey,
    /// By a hash of the first bytes, so that a scan with a prefix at least that long stays in one shard.
    Prefix(u16),
    /// All in one shard, where global order matters most.
    OneShard,
}

/// Settings of a keyspace, fixed when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// Level of its writes that name none; `None` for the store's. `Volatile` is allowed here.
    pub durability: Option<DurabilityLevel>,
    /// How its keys find their shard.
    pub routing: Routing,
}

/// A keyspace of an open store. Cheap to copy; meaningless to another store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyspace {
    pub(crate) number: u16,
    pub(crate) level: DurabilityLevel,
    pub(crate) routing: Routing,
}

impl Keyspace {
    /// The level of its writes that name none.
    pub fn durability(&self) -> DurabilityLevel {
        self.level
    }
}

/// A keyspace as the catalog keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceDefinition {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub options: KeyspaceOptions,
}

/// A procedure as the catalog keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureDefinition {
    /// Its name.
    pub name: String,
    /// Version of the code that commands from here on mean.
    pub version: u32,
    /// 1: logged as effects, 2: logged as calls.
    pub form: u8,
}

/// All definitions, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Keyspaces that are logged; the number is the place.
    pub keyspaces: Vec<KeyspaceDefinition>,
    /// Procedures; the number is the place.
    pub procedures: Vec<ProcedureDefinition>,
}

impl Catalog {
    /// Number of the keyspace with a name.
    pub fn find(&self, name: &str) -> Option<u16> {
        self.keyspaces.iter().position(|definition| definition.name == name).map(|at| at as u16)
    }

    /// Number of the procedure with a name.
    pub fn find_procedure(&self, name: &str) -> Option<u32> {
        self.procedures.iter().position(|definition| definition.name == name).map(|at| at as u32)
    }

    /// The handle of a keyspace.
    pub fn handle(&self, number: u16, default: DurabilityLevel) -> Keyspace {
        let options = self.keyspaces[usize::from(number)].options;
        Keyspace { number, level: options.durability.unwrap_or(default), routing: options.routing }
    }

    /// The name of a keyspace by number.
    pub fn keyspace_name(&self, number: u16) -> Option<&str> {
        self.keyspaces.get(usize::from(number)).map(|definition| definition.name.as_str())
    }

    /// Whether the records of a keyspace are logged and part of snapshots.
    pub fn is_logged(&self, number: usize) -> bool {
        let level = self.keyspaces.get(number).and_then(|definition| definition.options.durability);
        level != Some(DurabilityLevel::Volatile)
    }

    /// Refuses a name or number that a new keyspace cannot have.
    pub fn check_new(&self, name: &str) -> Result<u16, Error> {
        if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
            let rule = "from 1 to 255 bytes";
            return Err(Refused::Setting { name: "keyspace name", value: name.to_owned(), rule }.into());
        }
        if self.keyspaces.len() >= limits::KEYSPACES_MAX {
            return Err(Full::Count { kind: "keyspaces", count_max: limits::KEYSPACES_MAX }.into());
        }
        Ok(self.keyspaces.len() as u16)
    }

    /// Enters a keyspace read from the log or a snapshot. False if its number does not follow the last.
    pub fn define_keyspace(&mut self, effect: &KeyspaceEffect<'_>) -> bool {
        if usize::from(effect.keyspace) != self.keyspaces.len() {
            return false;
        }
        self.keyspaces.push(KeyspaceDefinition { name: effect.name.to_owned(), options: decode_options(effect) });
        true
    }

    /// Enters a procedure, or the new version of one. False if its number does not fit.
    pub fn define_procedure(&mut self, number: u32, definition: ProcedureDefinition) -> bool {
        let at = number as usize;
        match at.cmp(&self.procedures.len()) {
            std::cmp::Ordering::Less => self.procedures[at] = definition,
            std::cmp::Ordering::Equal => self.procedures.push(definition),
            std::cmp::Ordering::Greater => return false,
        }
        true
    }
}

/// The effect that makes a keyspace.
pub fn encode_options(number: u16, name: &str, options: KeyspaceOptions) -> KeyspaceEffect<'_> {
    let level = match options.durability {
        None => 0,
        Some(DurabilityLevel::Accepted) => 1,
        Some(DurabilityLevel::Written) => 2,
        Some(DurabilityLevel::Synced) => 3,
        Some(DurabilityLevel::Volatile) => 4,
    };
    let (routing, prefix_bytes) = match options.routing {
        Routing::WholeKey => (0, 0),
        Routing::Prefix(bytes) => (1, bytes),
        Routing::OneShard => (2, 0),
    };
    KeyspaceEffect { keyspace: number, level, routing, prefix_bytes, name }
}

/// The settings in an effect.
pub fn decode_options(effect: &KeyspaceEffect<'_>) -> KeyspaceOptions {
    let durability = match effect.level {
        1 => Some(DurabilityLevel::Accepted),
        2 => Some(DurabilityLevel::Written),
        3 => Some(DurabilityLevel::Synced),
        4 => Some(DurabilityLevel::Volatile),
        _ => None,
    };
    let routing = match effect.routing {
        1 => Routing::Prefix(effect.prefix_bytes),
        2 => Routing::OneShard,
        _ => Routing::WholeKey,
    };
    KeyspaceOptions { durability, routing }
}
