//! Stored procedures: registered functions that run atomically and are logged as effects or as calls.
//! Guarantees: a procedure sees engine time, random numbers and records only through its context, so that a replayed call
//! does the same; a replayed call that does something else is an error, never a silent difference.
//! Must not know: where arguments come from.
//! Next: replay.rs runs calls again.

use super::Core;
use super::catalog::Keyspace;
use super::counters::add;
use super::scope::{Scope, ShardSet};
use super::transaction::{Record, Ticket, Transaction};
use crate::canary::{Canary, planted};
use crate::durability::DurabilityLevel;
use crate::error::{Error, Refused};
use crate::format::command::Call;
use crate::prng::Prng;
use crate::units::Millis;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How calls of a procedure are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogForm {
    /// What it did: more bytes, fastest replay, never needs the code again.
    #[default]
    Effects,
    /// The call itself: fewer bytes; replay runs the code again and compares a checksum of its effects.
    Call,
}

impl LogForm {
    /// Its number on disk.
    pub fn number(self) -> u8 {
        match self {
            LogForm::Effects => 1,
            LogForm::Call => 2,
        }
    }
}

type Body = dyn Fn(&mut Context<'_, '_>, &[u8]) -> Result<Vec<u8>, Error> + Send + Sync;
type Keys = dyn Fn(&[u8], &mut dyn FnMut(&str, &[u8])) + Send + Sync;

/// A procedure: a name, a version, and the function.
#[derive(Clone)]
pub struct Procedure {
    name: String,
    version: u32,
    form: LogForm,
    keyspaces: Vec<String>,
    keys: Option<Arc<Keys>>,
    body: Arc<Body>,
}

impl Procedure {
    /// A procedure over some keyspaces, which the context names by their place in the list. The version must change
    /// whenever the code does something else for the same arguments and records.
    pub fn new(
        name: &str,
        version: u32,
        keyspaces: &[&str],
        body: impl Fn(&mut Context<'_, '_>, &[u8]) -> Result<Vec<u8>, Error> + Send + Sync + 'static,
    ) -> Procedure {
        Procedure {
            name: name.to_owned(),
            version,
            form: LogForm::Effects,
            keyspaces: keyspaces.iter().map(|&name| name.to_owned()).collect(),
            keys: None,
            body: Arc::new(body),
        }
    }

    /// Chooses how calls are logged.
    pub fn logged_as(mut self, form: LogForm) -> Procedure {
        self.form = form;
        self
    }

    /// Names the keys that a call will touch, from its arguments: then only their shards are locked, else all are.
    pub fn touching(mut self, keys: impl Fn(&[u8], &mut dyn FnMut(&str, &[u8])) + Send + Sync + 'static) -> Procedure {
        self.keys = Some(Arc::new(keys));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// How its calls are logged.
    pub fn form(&self) -> LogForm {
        self.form
    }

    /// Keyspaces it works on.
    pub fn keyspaces(&self) -> &[String] {
        &self.keyspaces
    }
}

/// The procedures a program brings. Several versions of one name may be there: the last one registered is called, the
/// others only replay.
#[derive(Clone, Default)]
pub struct Procedures {
    by_name: BTreeMap<String, Vec<Procedure>>,
}

impl Procedures {
    /// None.
    pub fn new() -> Procedures {
        Procedures::default()
    }

    /// Adds one.
    pub fn register(&mut self, procedure: Procedure) -> &mut Procedures {
        self.by_name.entry(procedure.name.clone()).or_default().push(procedure);
        self
    }

    /// The one that is called by a name.
    pub fn active(&self, name: &str) -> Option<&Procedure> {
        self.by_name.get(name)?.last()
    }

    /// A version of one.
    pub fn version(&self, name: &str, version: u32) -> Option<&Procedure> {
        self.by_name.get(name)?.iter().find(|procedure| procedure.version == version)
    }

    /// All that are called, in order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Procedure> {
        self.by_name.values().filter_map(|versions| versions.last())
    }
}

/// What a procedure may see and do.
pub struct Context<'t, 'c> {
    transaction: &'t mut Transaction<'c>,
    keyspaces: &'t [Keyspace],
    prng: Prng,
}

impl<'t, 'c> Context<'t, 'c> {
    /// A keyspace by its place in the procedure's list.
    pub fn keyspace(&self, place: usize) -> Keyspace {
        self.keyspaces[place]
    }

    /// Engine time of the call; the same when it is replayed.
    pub fn now(&self) -> Millis {
        self.transaction.now()
    }

    /// A random number; the same when the call is replayed.
    pub fn random(&mut self) -> u64 {
        self.prng.next_u64()
    }

    /// The record of a key.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Option<Record<'_>> {
        self.transaction.get(keyspace, key)
    }

    /// Sets a record. Errors as `Transaction::put`.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8], expiry: Option<Millis>) -> Result<(), Error> {
        self.transaction.put(keyspace, key, value, expiry)
    }

    /// Removes a record. True if there was one.
    pub fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> bool {
        self.transaction.delete(keyspace, key)
    }

    /// Records of the shard that holds `key`, in order; see `Transaction::range_beside`.
    pub fn range_beside(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&[u8], Record<'_>)> {
        self.transaction.range_beside(keyspace, key, from, to)
    }
}

/// A procedure made ready for calling: its number and keyspaces looked up once.
#[derive(Clone)]
pub struct ActiveProcedure {
    number: u32,
    keyspaces: Vec<Keyspace>,
    procedure: Procedure,
}

impl Core {
    /// Looks a procedure's keyspaces up, or makes them, and names its present version in the log.
    pub fn activate(&self, procedure: &Procedure) -> Result<ActiveProcedure, Error> {
        let named = procedure.keyspaces.iter().map(|name| self.keyspace(name, Default::default()));
        let keyspaces = named.collect::<Result<Vec<_>, _>>()?;
        let mut catalog = self.catalog.write();
        let form = procedure.form.number();
        let definition = super::ProcedureDefinition { name: procedure.name.clone(), version: procedure.version, form };
        let known = catalog.find_procedure(&procedure.name);
        let number = known.unwrap_or(catalog.procedures.len() as u32);
        if known.is_none_or(|at| catalog.procedures[at as usize] != definition) {
            self.write(Scope::All, Some(DurabilityLevel::Synced), |transaction| {
                transaction.define_procedure(number, procedure.version, form, &procedure.name);
                Ok(())
            })?;
            let defined = catalog.define_procedure(number, definition);
            assert!(defined, "the number was found or chosen as the next one");
        }
        Ok(ActiveProcedure { number, keyspaces, procedure: procedure.clone() })
    }

    /// Runs a procedure. Errors: what it returns, after undoing what it did; else as `Core::write`.
    pub fn call(
        &self,
        active: &ActiveProcedure,
        arguments: &[u8],
        level: Option<DurabilityLevel>,
    ) -> Result<(Vec<u8>, Ticket), Error> {
        let seed = self.draw_seed();
        let scope = match &active.procedure.keys {
            None => Scope::All,
            Some(keys) => Scope::Shards(self.shards_touched(active, keys.as_ref(), arguments)),
        };
        let mut transaction = Transaction::begin(self, scope, self.time.now());
        add(&self.counters.calls, 1);
        let reply = active.run(&mut transaction, seed, arguments)?;
        let call = (active.procedure.form == LogForm::Call).then(|| Call {
            procedure: active.number,
            version: active.procedure.version,
            time_millis: transaction.now().0,
            seed,
            effects_crc: crc32fast::hash(transaction.effects()),
            arguments,
        });
        Ok((reply, transaction.commit(level, call)?))
    }

    /// A new seed for one call.
    pub(super) fn draw_seed(&self) -> u64 {
        Prng::new(self.seed.fetch_add(1, Ordering::Relaxed)).next_u64()
    }

    fn shards_touched(&self, active: &ActiveProcedure, keys: &Keys, arguments: &[u8]) -> ShardSet {
        let mut set = ShardSet::new();
        keys(arguments, &mut |name, key| {
            let place = active.procedure.keyspaces.iter().position(|of| of == name);
            let place = place.expect("a procedure touches keys of the keyspaces it listed");
            set.insert(self.shards.route(active.keyspaces[place], key));
        });
        set
    }

    /// Runs a logged call again. The effects stay in the trees; the log has them already.
    pub(super) fn replay_call(&self, call: &Call<'_>, lsn: u64) -> Result<(), Error> {
        let (active, name) = self.procedure_for_replay(call, lsn)?;
        let mut transaction = Transaction::begin(self, Scope::All, Millis(call.time_millis));
        active.run(&mut transaction, call.seed, call.arguments)?;
        let same = crc32fast::hash(transaction.effects()) == call.effects_crc;
        if !same && !planted(Canary::EffectsNotCompared) {
            return Err(Refused::Diverged { name, lsn }.into());
        }
        transaction.keep();
        Ok(())
    }

    fn procedure_for_replay(&self, call: &Call<'_>, lsn: u64) -> Result<(ActiveProcedure, String), Error> {
        let catalog = self.catalog.read();
        let definition = catalog.procedures.get(call.procedure as usize);
        let name = definition.map_or_else(|| format!("number {}", call.procedure), |found| found.name.clone());
        let missing = || Refused::ProcedureMissing { name: name.clone(), version: call.version, lsn };
        let procedure = self.procedures.version(&name, call.version).ok_or_else(missing)?.clone();
        let numbers = procedure.keyspaces.iter().map(|name| catalog.find(name).ok_or_else(missing));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        let keyspaces = numbers.into_iter().map(|number| catalog.handle(number, self.options.durability)).collect();
        Ok((ActiveProcedure { number: call.procedure, keyspaces, procedure }, name))
    }
}

impl Transaction<'_> {
    /// Runs a procedure as part of this transaction; it is logged by its effects, whatever its form. The scope must hold
    /// what the procedure touches. Errors: what it returns; what it changed before stays until the transaction is undone.
    pub fn call(&mut self, active: &ActiveProcedure, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        let seed = self.seed();
        active.run(self, seed, arguments)
    }
}

impl ActiveProcedure {
    /// The procedure's name.
    pub fn name(&self) -> &str {
        &self.procedure.name
    }

    /// The procedure.
    pub fn procedure(&self) -> &Procedure {
        &self.procedure
    }

    fn run(&self, transaction: &mut Transaction<'_>, seed: u64, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        let mut context = Context { transaction, keyspaces: &self.keyspaces, prng: Prng::new(seed) };
        (self.procedure.body)(&mut context, arguments)
    }
}
