//! What a command of the log may name: the keyspaces and procedures that were defined before it.
//! Guarantees: pure; a frame that passes decodes to its end.
//! Must not know: where frames come from.
//! Next: plan.rs and verify.rs check every frame with it; core/replay.rs would refuse the same.

use crate::format::command::{self, Command, Effect, Malformed};
use crate::snapshot::Snapshot;

/// How many keyspaces and procedures there are at a place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defined {
    keyspaces: u16,
    procedures: u32,
}

impl Defined {
    /// What a snapshot defines.
    pub(crate) fn by(snapshot: &Snapshot) -> Defined {
        Defined { keyspaces: snapshot.meta.keyspaces.len() as u16, procedures: snapshot.meta.procedures.len() as u32 }
    }

    fn check(&mut self, effect: &Effect<'_>) -> Result<(), Malformed> {
        match *effect {
            Effect::Put { keyspace, .. }
            | Effect::Delete { keyspace, .. }
            | Effect::Expire { keyspace, .. }
            | Effect::Clear { keyspace } => {
                let known = keyspace < self.keyspaces;
                if known { Ok(()) } else { Err(Malformed("effect on a keyspace that was not defined")) }
            }
            Effect::Keyspace(ref definition) if definition.keyspace == self.keyspaces => {
                self.keyspaces += 1;
                Ok(())
            }
            Effect::Keyspace(_) => Err(Malformed("keyspace number does not follow the last")),
            Effect::Procedure { procedure, .. } if procedure <= self.procedures => {
                self.procedures = self.procedures.max(procedure + 1);
                Ok(())
            }
            Effect::Procedure { .. } => Err(Malformed("procedure number does not follow the last")),
        }
    }
}

/// A frame must decode, and name only what is defined by then, as far as that is known.
pub(crate) fn check_frame(frame: &[u8], mut defined: Option<&mut Defined>) -> Result<(), Malformed> {
    let effects = match command::decode(frame)? {
        Command::Effects(effects) => effects,
        Command::Call(call) => {
            let known = defined.is_none_or(|defined| call.procedure < defined.procedures);
            return if known { Ok(()) } else { Err(Malformed("call of a procedure that was not defined")) };
        }
    };
    for effect in effects {
        let effect = effect?;
        if let Some(defined) = defined.as_deref_mut() {
            defined.check(&effect)?;
        }
    }
    Ok(())
}
