//! placeholder
/// io mode
pub enum IoMode {
    /** a */
    Auto,
    /** u */
    Uring,
    /** s */
    Syscall,
}
/// os storage
pub struct OsStorage;
