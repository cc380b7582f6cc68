//! Backups: copies of a store's files with a catalogue, made while the store is in use, and what is made of them again.
//! Guarantees: a backup counts only with its catalogue, which is written last; every file in it was read back and checked by
//! the engine; a run that fails leaves the backup as it was before.
//! Must not know: what a command does.
//! Next: catalogue.rs has the format, survey.rs finds what to copy, copy.rs and stream.rs copy, restore.rs brings back.

pub mod catalogue;
pub mod copy;
pub mod restore;
pub mod stream;
pub mod survey;
