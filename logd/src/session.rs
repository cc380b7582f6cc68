//! STAND-IN for the other half's session.rs.
use crate::shared::ClientHandle;
use std::sync::Arc;
pub struct Session {
    pub client: Arc<ClientHandle>,
}
impl Session {
    pub fn new(client: Arc<ClientHandle>) -> Session {
        Session { client }
    }
}
